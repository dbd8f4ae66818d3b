import { closeSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

/** The directory is in use by another process. */
export class DirectoryInUseError extends Error {}

/**
 * Claims a directory for this process with a lock file and returns the function that gives it back. A second opener
 * would corrupt the embedded database without a word, so it is refused. A lock left by a killed process is taken over.
 */
export async function lockDirectory(directory: string): Promise<() => void> {
  const file = join(directory, 'gauge.lock');
  const own = `${process.pid} ${startTime(process.pid) ?? ''}`;
  for (let attempt = 0; ; attempt++) {
    try {
      const handle = openSync(file, 'wx', 0o600);
      writeSync(handle, own);
      closeSync(handle);
      // Two processes that take over the same stale lock may remove each other's file: the later one keeps it.
      if (attempt > 0) await setTimeout(100);
      if (readFileSync(file, 'utf8') === own) return () => rmSync(file, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || attempt === 5) throw error;
      const holder = readHolder(file);
      if (holder !== undefined && isRunning(holder)) {
        throw new DirectoryInUseError(
          `The embedded database in ${directory} is in use by process ${holder.pid}. Stop that process first, or set DATA_DIR to another directory, or use Postgres with DATABASE_URL.`,
        );
      }
      rmSync(file, { force: true });
    }
  }
}

interface Holder {
  pid: number;
  startedAt: string;
}

function readHolder(file: string): Holder | undefined {
  try {
    const [pid = '', startedAt = ''] = readFileSync(file, 'utf8').split(' ');
    return { pid: Number(pid), startedAt };
  } catch {
    return undefined;
  }
}

function isRunning({ pid, startedAt }: Holder): boolean {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  // Process ids are used again, above all in containers, where a killed server and its successor are both pid 1.
  const current = startTime(pid);
  return current === undefined || startedAt === '' || current === startedAt;
}

/** Start time of a process in clock ticks since boot, where the system says (Linux). */
function startTime(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
