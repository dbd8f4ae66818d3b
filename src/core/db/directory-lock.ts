import { closeSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

export class DirectoryInUseError extends Error {
  readonly directory: string;
  readonly pid: number;

  constructor(message: string, { directory, pid }: Pick<DirectoryInUseError, 'directory' | 'pid'>) {
    super(message);
    this.directory = directory;
    this.pid = pid;
  }
}

/** How long, in ms, the process with precedence waits for others to withdraw. */
const STEP_BACK_MS = 2_000;

/**
 * A second process would silently corrupt the embedded database. Each process writes a claim under its own name before
 * it looks for others, so two cannot miss each other; both then compute in the same way which one withdraws. Only the
 * claims of ended processes are removed, so cleaning up cannot remove a fresh one.
 */
export async function lockDirectory(
  directory: string,
  content: LockedContent = embeddedDatabase,
): Promise<() => void> {
  const own: Claim = { pid: process.pid, startedAt: startTime(process.pid) ?? '' };
  const file = join(directory, fileName(own));
  try {
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? inUse(content, directory, own) : error;
  }
  const unlock = () => rmSync(file, { force: true });
  try {
    for (const giveUpAt = Date.now() + STEP_BACK_MS; ; await setTimeout(20)) {
      const other = readClaims(directory).find((claim) => fileName(claim) !== fileName(own));
      if (other === undefined) return unlock;
      if (isBefore(other, own) || Date.now() > giveUpAt) throw inUse(content, directory, other);
    }
  } catch (error) {
    unlock();
    throw error;
  }
}

interface Claim {
  pid: number;
  /** `<clock ticks since boot>-<boot id>`; empty if the system does not provide it. */
  startedAt: string;
}

const claimName = /^gauge-(\d+)-(.*)\.lock$/;
const fileName = ({ pid, startedAt }: Claim) => `gauge-${pid}-${startedAt}.lock`;

function readClaims(directory: string): Claim[] {
  return readdirSync(directory).flatMap((name) => {
    const [, pid, startedAt] = claimName.exec(name) ?? [];
    if (pid === undefined || startedAt === undefined) return [];
    const claim = { pid: Number(pid), startedAt };
    if (isRunning(claim)) return [claim];
    rmSync(join(directory, name), { force: true });
    return [];
  });
}

function isBefore(a: Claim, b: Claim): boolean {
  const [aTicks, bTicks] = [Number.parseInt(a.startedAt), Number.parseInt(b.startedAt)];
  return aTicks === bTicks || Number.isNaN(aTicks + bTicks) ? a.pid < b.pid : aTicks < bTicks;
}

interface LockedContent {
  name: string;
  remedy: string;
}

const embeddedDatabase: LockedContent = {
  name: 'embedded database',
  remedy: 'Stop that process first, or set DATA_DIR to another directory, or use Postgres with DATABASE_URL.',
};

const inUse = ({ name, remedy }: LockedContent, directory: string, { pid }: Claim): DirectoryInUseError =>
  new DirectoryInUseError(`The ${name} in ${directory} is in use by process ${pid}. ${remedy}`, {
    directory,
    pid,
  });

function isRunning({ pid, startedAt }: Claim): boolean {
  if (pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  // Process ids are reused, especially in containers, where a killed server and its successor both have pid 1.
  const current = startTime(pid);
  return current === undefined || startedAt === '' || current === startedAt;
}

/** `ended` for a zombie; undefined where the system does not provide it (only Linux does). */
function startTime(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8);
    return fields[0] === 'Z' ? 'ended' : `${fields[19]}-${boot}`;
  } catch {
    return undefined;
  }
}
