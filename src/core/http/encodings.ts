import { promisify } from 'node:util';
import { brotliCompress, brotliCompressSync, constants, crc32, deflateRaw, deflateRawSync } from 'node:zlib';

/** How an answer may be encoded, the smallest first. */
export const encodings = ['br', 'gzip', 'identity'] as const;
export type Encoding = (typeof encodings)[number];

/** Below the smallest weight that can be written: plain is acceptable unless it is refused, and anything named is better. */
const UNNAMED = 0.0001;

/** The encoding that the client would rather have by its `Accept-Encoding` (RFC 9110, 12.5.3); of equal ones the smallest. */
export function chooseEncoding(header: string | undefined): Encoding {
  if (header === undefined || header === '') return 'identity';
  const weights = new Map(header.split(',').map(readWeight));
  const others = weights.get('*');
  const weightOf = (encoding: Encoding): number =>
    weights.get(encoding) ?? others ?? (encoding === 'identity' ? UNNAMED : 0);
  let best: Encoding = 'identity';
  let highest = 0;
  for (const encoding of encodings) {
    const weight = weightOf(encoding);
    if (weight > highest) [best, highest] = [encoding, weight];
  }
  return best;
}

/** `gzip;q=0.5` as a name and a weight. A weight that is none counts as a refusal. */
function readWeight(part: string): [string, number] {
  const [name = '', ...parameters] = part.split(';');
  const q = parameters.map((parameter) => parameter.trim().toLowerCase()).find((p) => p.startsWith('q='));
  const weight = q === undefined ? 1 : Number(q.slice(2));
  return [name.trim().toLowerCase(), weight >= 0 && weight <= 1 ? weight : 0];
}

/** What is sent one part after the other; the first is the same in many answers. */
export type Parts = readonly [beginning: Buffer, rest: Buffer];

/** Encoded bytes that lack their end: gives the whole for any end, which may be `MAX_END_BYTES` long. */
export type Completion = (end: Buffer) => Parts;

export const MAX_END_BYTES = 0xffff;

/**
 * Encodes the beginning of a text once, so that it can be completed with different ends without a copy.
 *
 * Both formats are sequences of blocks that may start at any byte after a flush, and both have blocks that hold their
 * bytes as they are: the end goes into one of those.
 */
export const encodeBeginning: Record<Encoding, (beginning: Buffer) => Completion> = {
  identity: beginIdentity,
  gzip: (beginning) => completeGzip(beginning, deflateRawSync(beginning, gzipOptions)),
  br: (beginning) => completeBrotli(brotliCompressSync(beginning, brotliOptions(beginning))),
};

const deflateLater = promisify(deflateRaw);
const brotliLater = promisify(brotliCompress);

/** The same on a thread of its own: a megabyte takes some 30 ms, for which nothing else should wait. */
export const encodeBeginningLater: Record<Encoding, (beginning: Buffer) => Promise<Completion>> = {
  identity: (beginning) => Promise.resolve(beginIdentity(beginning)),
  gzip: async (beginning) => completeGzip(beginning, await deflateLater(beginning, gzipOptions)),
  br: async (beginning) => completeBrotli(await brotliLater(beginning, brotliOptions(beginning))),
};

function beginIdentity(beginning: Buffer): Completion {
  return (end) => [beginning, end];
}

const gzipOptions = { finishFlush: constants.Z_SYNC_FLUSH };

const brotliOptions = (beginning: Buffer) => ({
  finishFlush: constants.BROTLI_OPERATION_FLUSH,
  params: {
    [constants.BROTLI_PARAM_QUALITY]: 5,
    [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    [constants.BROTLI_PARAM_SIZE_HINT]: beginning.length,
  },
});

/** No name, no time, no hint about the compression, an unknown system (RFC 1952, 2.3). */
const gzipHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

function completeGzip(beginning: Buffer, flushed: Buffer): Completion {
  const sum = crc32(beginning);
  const first = Buffer.concat([gzipHeader, flushed]);
  return (end) => {
    // The last block, stored: its length and the complement of that (RFC 1951, 3.2.4).
    const block = Buffer.alloc(5);
    block.writeUInt8(1, 0);
    block.writeUInt16LE(end.length, 1);
    block.writeUInt16LE(end.length ^ 0xffff, 3);
    const trailer = Buffer.alloc(8);
    trailer.writeUInt32LE(crc32(end, sum), 0);
    trailer.writeUInt32LE((beginning.length + end.length) >>> 0, 4);
    return [first, Buffer.concat([block, end, trailer])];
  };
}

/** An empty last meta-block. */
const brotliEnd = Buffer.from([0b11]);

function completeBrotli(flushed: Buffer): Completion {
  return (end) => {
    if (end.length === 0) return [flushed, brotliEnd];
    // Not the last meta-block, four digits of length, the length less one, uncompressed (RFC 7932, 9.2).
    const header = Buffer.alloc(3);
    header.writeUIntLE(((end.length - 1) << 3) | (1 << 19), 0, 3);
    return [flushed, Buffer.concat([header, end, brotliEnd])];
  };
}
