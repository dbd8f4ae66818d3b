import { open, stat, type FileHandle } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { SnapshotInputs } from '../snapshot/build-snapshot.js';
import { writeValue } from './codec.js';
import { listFrames, writeMember } from './framing.js';
import { TAPE_FORMAT, type TapeHeader, type TapeRecord } from './tape.js';

/** Records that wait for a slow disk. Beyond that refreshes are left out, rather than the memory filled. */
const MAX_WAITING = 20;

export interface TapeWriter {
  /** Takes what a refresh was made of. Never throws and never waits: what cannot be written is logged. */
  write(inputs: SnapshotInputs): void;
  /** Resolves when all that was taken is written. */
  close(): Promise<void>;
}

/** Another process writes the same tape. */
class SharedTapeError extends Error {}

/**
 * Appends each refresh to a file. What stands there already stays, up to a record that was cut off. A file that is moved away
 * or emptied is begun anew. Records of two services would not belong together: who finds another one's on the tape stops.
 */
export function createTapeWriter({
  file,
  header,
  log,
}: {
  file: string;
  header: TapeHeader;
  log: Logger;
}): TapeWriter {
  let tape: Tape | undefined;
  let isShared = false;
  /** The last record that was taken; undefined: the next one says everything. */
  let last: Pick<SnapshotInputs, 'weather' | 'calibration'> | undefined;
  let work = Promise.resolve();
  let waiting = 0;
  let isFailing = false;

  async function append({ text, isWhole }: Waiting): Promise<void> {
    waiting--;
    // What leans on a record that was not written says nothing.
    if (isShared || (!tape && !isWhole)) return;
    if (tape && !(await isStillThere(file, tape))) throw new Error('the tape was moved away or emptied');
    tape ??= await begin(file, header);
    await addTo(tape, text);
    if (isFailing) log.info({ file }, 'the tape is written again');
    isFailing = false;
  }

  /** A record that is only half there would hide those after it: the file is opened anew, and ends before it. */
  async function giveUp(problem: unknown): Promise<void> {
    isShared = problem instanceof SharedTapeError;
    if (isShared) log.error({ file }, 'another process writes this tape: nothing more is taped here');
    else if (!isFailing)
      log.error({ err: problem, file }, 'the tape cannot be written: refreshes are missing on it');
    isFailing = true;
    last = undefined;
    const failed = tape;
    tape = undefined;
    await failed?.handle.close().catch(() => undefined);
  }

  return {
    write(inputs) {
      if (isShared) return;
      if (waiting >= MAX_WAITING) {
        last = undefined;
        if (!isFailing) log.error({ file }, 'the disk is too slow for the tape: refreshes are missing on it');
        isFailing = true;
        return;
      }
      // Written down now: what comes later must not be in it.
      const taken = { text: `${writeValue(toRecord(inputs, last))}\n`, isWhole: last === undefined };
      last = inputs;
      waiting++;
      work = work.then(() => append(taken)).catch(giveUp);
    },
    async close() {
      await work;
      await tape?.handle.close();
    },
  };
}

interface Waiting {
  text: string;
  /** Says everything, and not only what is new since the record before. */
  isWhole: boolean;
}

/** An open tape, and where this process's last record ended. */
interface Tape {
  handle: FileHandle;
  inode: number;
  size: number;
}

async function begin(file: string, header: TapeHeader): Promise<Tape> {
  // Not for appending alone: a record that was cut off by a crash is cut away. What is taped is nobody else's business.
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

/** @throws SharedTapeError if somebody else has written more */
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
