import { createReadStream, statSync } from 'node:fs';
import { Readable } from 'node:stream';
import { createGunzip, type Gunzip } from 'node:zlib';
import { CommandError } from './command.js';

export type Input = ReturnType<typeof openInput>;

/** `-` is standard input. Gzip is recognized by its first two bytes, not by the file name. */
export function openInput(file: string, stdin: Readable) {
  const stats = file === '-' ? undefined : statFile(file);
  const source = file === '-' ? stdin : createReadStream(file);
  let position = 0;
  let inflated: Gunzip | undefined;

  async function* counted(): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      position += (chunk as Buffer).length;
      yield chunk as Buffer;
    }
  }

  async function* chunks(): AsyncGenerator<Buffer> {
    const raw = counted();
    try {
      const start = await readStart(raw);
      if (start[0] !== 0x1f || start[1] !== 0x8b) {
        if (start.length > 0) yield start;
        yield* raw;
        return;
      }
      const packed = Readable.from(chain(start, raw), { objectMode: false });
      const gunzip = (inflated = createGunzip());
      packed.on('error', (error) => gunzip.destroy(error));
      for await (const chunk of packed.pipe(gunzip)) yield chunk as Buffer;
    } catch (error) {
      throw new CommandError(`${nameOf(file)} cannot be read to its end: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  return {
    /** In bytes; undefined for standard input. */
    size: stats?.size,
    /** Counts compressed bytes of gzip. */
    get position() {
      return inflated?.bytesWritten ?? position;
    },
    chunks,
    /** A pending read fails. */
    close: () => void source.destroy(),
  };
}

/** @param refusal the error for an input of more than `maxBytes` */
export async function readWhole(input: Input, maxBytes: number, refusal: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of input.chunks()) {
    size += chunk.length;
    if (size > maxBytes) throw new CommandError(refusal);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

export const nameOf = (file: string): string => (file === '-' ? 'standard input' : file);

function statFile(file: string) {
  try {
    const stats = statSync(file);
    if (stats.isDirectory()) throw new Error('it is a directory');
    return stats;
  } catch (error) {
    throw new CommandError(`${file} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

/** The first chunk of standard input may have only one byte. */
async function readStart(raw: AsyncGenerator<Buffer>): Promise<Buffer> {
  let start: Buffer = Buffer.alloc(0);
  while (start.length < 2) {
    const next = await raw.next();
    if (next.done) break;
    start = Buffer.concat([start, next.value]);
  }
  return start;
}

async function* chain(start: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield start;
  yield* rest;
}
