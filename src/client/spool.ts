import { mkdir, open, readdir, readFile, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { lockDirectory } from '../core/db/directory-lock.js';

/** Nothing was accepted. */
export class SpoolFullError extends Error {
  constructor(maxBytes: number) {
    super(`The spool is full: ${maxBytes} bytes of events are waiting for the service.`);
    this.name = 'SpoolFullError';
  }
}

/** Nothing more is appended. */
export interface Segment {
  path: string;
  bytes: number;
}

export type Spool = Awaited<ReturnType<typeof openSpool>>;

interface PendingLine {
  line: string;
  resolve(): void;
  reject(error: Error): void;
}

const MAX_SEGMENT_BYTES = 1024 * 1024;
const MAX_REFUSED_BYTES = 16 * 1024 * 1024;
const segmentName = /^\d{12}\.ndjson$/;
const inUse = {
  name: 'spool',
  remedy: 'Give each process its own directory.',
};

/**
 * Only one process may use a directory at a time. Pending lines are synced together, so disk latency does not limit the
 * throughput. A last line without a line feed was cut off by a crash and never accepted.
 * @throws DirectoryInUseError
 */
export async function openSpool(directory: string, maxBytes: number) {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const unlock = await lockDirectory(directory, inUse);
  const found = await findSegments(directory).catch((error: unknown) => {
    unlock();
    throw error;
  });
  const segments = createSegments(directory, found);
  let bytes = found.reduce((sum, segment) => sum + segment.bytes, 0);
  let waiting: PendingLine[] = [];
  /** Serializes all changes to the files. */
  let work = Promise.resolve();
  let isWriteDue = false;

  function inTurn<T>(task: () => Promise<T>): Promise<T> {
    const done = work.then(task);
    work = done.then(
      () => undefined,
      () => undefined,
    );
    return done;
  }

  async function writeWaiting(): Promise<void> {
    isWriteDue = false;
    const group = waiting;
    waiting = [];
    const text = Buffer.from(group.map(({ line }) => `${line}\n`).join(''));
    try {
      await segments.append(text);
      for (const one of group) one.resolve();
      await segments.sealIfFull();
    } catch (error) {
      bytes -= text.length;
      for (const one of group) one.reject(error as Error);
    }
  }

  return {
    get bytes() {
      return bytes;
    },
    /** Resolves once the line is on disk and would survive a crash. @throws SpoolFullError */
    append(line: string): Promise<void> {
      const size = Buffer.byteLength(line) + 1;
      if (bytes + size > maxBytes) return Promise.reject(new SpoolFullError(maxBytes));
      bytes += size;
      return new Promise((resolve, reject) => {
        waiting.push({ line, resolve, reject });
        if (isWriteDue) return;
        isWriteDue = true;
        void inTurn(writeWaiting);
      });
    },
    seal: () => inTurn(() => segments.seal()),
    /** Oldest first. */
    get segments() {
      return segments.complete;
    },
    remove: (segment: Segment) =>
      inTurn(async () => {
        await segments.remove(segment);
        bytes -= segment.bytes;
      }),
    /** `lines` must be in the segment's order. Needs no extra disk space. */
    keepOnly: (segment: Segment, lines: readonly string[]) =>
      inTurn(async () => {
        const before = segment.bytes;
        await overwrite(segment, lines);
        bytes -= before - segment.bytes;
      }),
    putAside: (lines: readonly string[]) => inTurn(() => appendRefused(directory, lines)),
    close: () =>
      inTurn(async () => {
        await segments.close();
        unlock();
      }),
  };
}

function createSegments(directory: string, complete: Segment[]) {
  let lastNumber = Number.parseInt(basename(complete.at(-1)?.path ?? '0'));
  let active: { path: string; handle: FileHandle; bytes: number } | undefined;

  async function openNext() {
    const path = join(directory, `${String(++lastNumber).padStart(12, '0')}.ndjson`);
    const handle = await open(path, 'ax', 0o600);
    try {
      await syncDirectory(directory);
    } catch (error) {
      await handle.close();
      throw error;
    }
    return (active = { path, handle, bytes: 0 });
  }

  async function seal(): Promise<void> {
    if (!active) return;
    const { path, handle, bytes } = active;
    active = undefined;
    if (bytes > 0) complete.push({ path, bytes });
    // The content is already on disk.
    await handle.close().catch(() => undefined);
    if (bytes === 0) await rm(path, { force: true });
  }

  return {
    get complete() {
      return [...complete];
    },
    seal,
    async sealIfFull() {
      if (active && active.bytes >= MAX_SEGMENT_BYTES) await seal();
    },
    async append(text: Buffer) {
      const segment = active ?? (await openNext());
      try {
        await segment.handle.appendFile(text);
        await segment.handle.datasync();
      } catch (error) {
        // `append` rejects these lines, so they must not be sent.
        await segment.handle.truncate(segment.bytes).catch(() => undefined);
        await seal();
        throw error;
      }
      segment.bytes += text.length;
    },
    async remove(segment: Segment) {
      await rm(segment.path, { force: true });
      complete.splice(
        complete.findIndex(({ path }) => path === segment.path),
        1,
      );
    },
    async close() {
      await active?.handle.close();
      active = undefined;
    },
  };
}

export async function readLines({ path, bytes }: Segment): Promise<string[]> {
  const text = (await readFile(path)).toString('utf8', 0, bytes);
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .slice(0, -1);
}

/** After a crash, every line that was not moved yet is still at its old position. */
async function overwrite(segment: Segment, lines: readonly string[]): Promise<void> {
  const text = Buffer.from(lines.map((line) => `${line}\n`).join(''));
  const handle = await open(segment.path, 'r+');
  try {
    await handle.writeFile(text);
    await handle.truncate(text.length);
    await handle.datasync();
  } finally {
    await handle.close();
  }
  segment.bytes = text.length;
}

async function findSegments(directory: string): Promise<Segment[]> {
  const names = (await readdir(directory)).filter((name) => segmentName.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const path = join(directory, name);
      return { path, bytes: (await stat(path)).size };
    }),
  );
}

/** Older lines move to `refused.1.ndjson`. */
async function appendRefused(directory: string, lines: readonly string[]): Promise<void> {
  const path = join(directory, 'refused.ndjson');
  const handle = await open(path, 'a', 0o600);
  try {
    const { size } = await handle.stat();
    try {
      await handle.appendFile(lines.map((line) => `${line}\n`).join(''));
      await handle.datasync();
    } catch (error) {
      // Otherwise the next line would be appended to a partial one.
      await handle.truncate(size).catch(() => undefined);
      throw error;
    }
    if ((await handle.stat()).size > MAX_REFUSED_BYTES)
      await rename(path, join(directory, 'refused.1.ndjson'));
  } finally {
    await handle.close();
  }
  await syncDirectory(directory);
}

/** A new file survives a crash only once its directory is synced. */
async function syncDirectory(directory: string): Promise<void> {
  // Windows cannot open directories.
  if (process.platform === 'win32') return;
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
