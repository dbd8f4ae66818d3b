import { accessSync, closeSync, constants, openSync, readSync, statSync, type Stats } from 'node:fs';
import { open, stat, type FileHandle } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { Logger } from 'pino';
import { ConfigError } from '../../core/config.js';
import type { PrintsRead } from '../market/source.js';
import type { SnapshotInputs } from '../snapshot/build-snapshot.js';
import {
  TAPE_FORMAT,
  beginsAsTape,
  listFrames,
  writeMember,
  writeValue,
  type TapeHeader,
  type TapeRecord,
} from './format.js';
import { createPrintsToTape } from './prints.js';

/**
 * At startup: days missed now cannot be taped later.
 * @throws ConfigError
 */
export function requireTapeTarget(file: string): void {
  const problem = problemOf(resolve(file));
  if (problem !== undefined) throw new ConfigError([`TAPE_FILE: ${problem}`]);
}

function problemOf(path: string): string | undefined {
  const folder = dirname(path);
  if (!statOf(folder)?.isDirectory()) return `the folder ${folder} does not exist`;
  const found = statOf(path);
  if (found && !found.isFile()) return `${path} is not an ordinary file`;
  try {
    accessSync(found ? path : folder, found ? constants.R_OK | constants.W_OK : constants.W_OK);
    return found && !isTape(path) ? `${path} is not a tape, and is left alone` : undefined;
  } catch (error) {
    return `${path} cannot be written: ${(error as Error).message}`;
  }
}

const statOf = (path: string): Stats | undefined => statSync(path, { throwIfNoEntry: false });

function isTape(path: string): boolean {
  const file = openSync(path, 'r');
  try {
    const start = Buffer.alloc(64);
    return beginsAsTape(start.subarray(0, readSync(file, start)));
  } finally {
    closeSync(file);
  }
}

/** For a slow disk. Further refreshes are dropped to protect memory. */
const MAX_WAITING = 20;

export type TapeWriter = ReturnType<typeof createTapeWriter>;

class SharedTapeError extends Error {}

/**
 * Existing records stay, except one truncated at the end. If the file was moved or emptied, a new tape is started.
 * Records of two services must not be mixed, so a writer stops when another process has written to the file.
 */
export function createTapeWriter({ file, header, log }: { file: string; header: TapeHeader; log: Logger }) {
  let tape: Tape | undefined;
  let isShared = false;
  /** If undefined, the next record is complete. */
  let last: Pick<SnapshotInputs, 'weather' | 'calibration'> | undefined;
  const prints = createPrintsToTape();
  let work = Promise.resolve();
  let waiting = 0;
  let isFailing = false;

  async function append(text: string, isWhole: boolean): Promise<void> {
    waiting--;
    // A record with only changes is useless if the previous record was not written.
    if (isShared || (!tape && !isWhole)) return;
    if (tape && !(await isStillThere(file, tape))) throw new Error('the tape was moved away or emptied');
    tape ??= await begin(file, header);
    await addTo(tape, text);
    if (isFailing) log.info({ file }, 'the tape can be written again');
    isFailing = false;
  }

  /** A partial record would make later ones unreadable, so the next write reopens and truncates the file. */
  async function giveUp(problem: unknown): Promise<void> {
    isShared = problem instanceof SharedTapeError;
    if (isShared) log.error({ file }, 'another process is writing this tape; this one writes no more to it');
    else if (!isFailing)
      log.error({ err: problem, file }, 'the tape cannot be written; refreshes will be missing from it');
    isFailing = true;
    last = undefined;
    const failed = tape;
    tape = undefined;
    await failed?.handle.close().catch(() => undefined);
  }

  return {
    /** Never throws or blocks; write failures are logged. */
    write(inputs: SnapshotInputs): void {
      if (isShared) return;
      if (waiting >= MAX_WAITING) {
        last = undefined;
        if (!isFailing)
          log.error({ file }, 'the disk is too slow for the tape; refreshes will be missing from it');
        isFailing = true;
        return;
      }
      // Later changes to the inputs are not recorded.
      const isWhole = last === undefined;
      const reads = prints.take({ isWhole });
      const record = { ...toRecord(inputs, last), ...(reads.length > 0 && { prints: reads }) };
      const text = `${writeValue(record)}\n`;
      last = inputs;
      waiting++;
      work = work.then(() => append(text, isWhole)).catch(giveUp);
    },
    addPrints: (read: PrintsRead) => prints.add(read),
    async close(): Promise<void> {
      await work;
      await tape?.handle.close();
    },
  };
}

interface Tape {
  handle: FileHandle;
  inode: number;
  size: number;
}

async function begin(file: string, header: TapeHeader): Promise<Tape> {
  // A record cut off by a crash can be truncated. Mode 0600 denies access to other users.
  const handle = await open(file, 'a+', 0o600);
  try {
    let end = 0;
    for await (const frame of listFrames(handle)) ({ end } = frame);
    await handle.truncate(end);
    const { ino: inode } = await handle.stat();
    const tape = { handle, inode, size: end };
    await addTo(tape, `${writeValue({ format: TAPE_FORMAT, ...header })}\n`);
    return tape;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function addTo(tape: Tape, text: string): Promise<void> {
  const member = await writeMember(text);
  await tape.handle.writeFile(member);
  tape.size += member.length;
}

/** @throws SharedTapeError if another process has written to the file */
async function isStillThere(file: string, { inode, size }: Tape): Promise<boolean> {
  const found = await stat(file).catch(() => undefined);
  if (found?.ino !== inode || found.size < size) return false;
  if (found.size > size) throw new SharedTapeError();
  return true;
}

function toRecord(
  { weather, calibration, ...rest }: SnapshotInputs,
  last: Pick<SnapshotInputs, 'weather' | 'calibration'> | undefined,
): TapeRecord {
  return {
    ...rest,
    ...(weather !== undefined && weather !== last?.weather && { weather }),
    ...(calibration !== last?.calibration && { calibration }),
  };
}
