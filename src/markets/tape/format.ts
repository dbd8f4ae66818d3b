import type { FileHandle } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { PrintsRead } from '../market/source.js';
import { findPlace } from '../market/stations.js';
import type { SnapshotInputs, SnapshotRules } from '../snapshot/build-snapshot.js';
import type { Place } from '../market/place.js';

export type TapeHeader = Omit<SnapshotRules, 'model'>;

/** Undefined fields are unchanged since the previous record. */
export type TapeRecord = Omit<SnapshotInputs, 'weather' | 'calibration'> &
  Partial<Pick<SnapshotInputs, 'weather' | 'calibration'>> & {
    /** Prints since the previous record, except those already in earlier ones. */
    prints?: readonly PrintsRead[];
  };

/** In the header record. Tapes with another version are refused. */
export const TAPE_FORMAT = 1;

/**
 * `{"$n":"12"}` is a bigint, `{"$t":0}` a time in milliseconds, `{"$m":[[k,v]]}` a map and `{"$s":"KNYC"}` a station or
 * area, read back as the one shared object. Values never have such keys themselves.
 */
export const writeValue = (value: unknown): string => JSON.stringify(encode(value));

/** @throws SyntaxError or RangeError for text that `writeValue` did not produce */
export const readValue = (text: string): unknown => decode(JSON.parse(text));

function encode(value: unknown): unknown {
  if (typeof value === 'bigint') return { $n: value.toString() };
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date) return { $t: value.getTime() };
  if (value instanceof Map) return { $m: [...value].map(([key, item]) => [encode(key), encode(item)]) };
  if (Array.isArray(value)) return value.map(encode);
  if (isStation(value)) return { $s: value.id };
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, encode(item)]));
}

const isStation = (value: object): value is Place =>
  'id' in value && typeof value.id === 'string' && findPlace(value.id) === value;

function decode(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(decode);
  const entries = Object.entries(value);
  const [first] = entries;
  const read = entries.length === 1 && Object.hasOwn(special, first![0]) ? special[first![0]] : undefined;
  if (read) return read(first![1]);
  return Object.fromEntries(entries.map(([key, item]) => [key, decode(item)]));
}

const special: Partial<Record<string, (value: unknown) => unknown>> = {
  $n(value) {
    // Parsing an enormous number would block the process.
    if (typeof value !== 'string' || !/^-?\d{1,100}$/.test(value))
      throw new RangeError('$n is not a whole number');
    return BigInt(value);
  },
  $t(value) {
    const time = new Date(typeof value === 'number' ? value : NaN);
    if (Number.isNaN(time.getTime())) throw new RangeError('$t is not a time');
    return time;
  },
  $m(value) {
    if (!Array.isArray(value) || !value.every((entry) => Array.isArray(entry) && entry.length === 2))
      throw new RangeError('$m is not a map');
    return new Map((value as [unknown, unknown][]).map(([key, item]) => [decode(key), decode(item)]));
  },
  $s: (value) => {
    const station = findPlace(String(value));
    if (!station) throw new RangeError(`the station ${String(value)} is not known`);
    return station;
  },
};

/*
 * One gzip member per record, so `zcat` reads a tape and records can be appended. Each header's extra field
 * has the member's length, as in BGZF (SAM specification, section 4.1), so that a reader can skip members and
 * detect a truncated one.
 */
const compress = promisify(gzip);
const expand = promisify(gunzip);

const PLAIN_HEADER = 10;
/** Bytes: plain header, extra length, field name, field length and member length. */
const HEADER = 20;
const HAS_EXTRA = 4;
/** Bytes. A file that states a larger length is not a tape. */
const MAX_MEMBER = 16 * 1024 * 1024;
/** Guards against decompression bombs. */
const MAX_TEXT = 64 * 1024 * 1024;

/** @throws RangeError for a record that would be too long to read back */
export async function writeMember(text: string): Promise<Buffer> {
  const bytes = Buffer.from(text);
  const plain = await compress(bytes, { level: 6 });
  if (bytes.length > MAX_TEXT || HEADER + plain.length - PLAIN_HEADER > MAX_MEMBER)
    throw new RangeError(`a record of ${bytes.length} bytes is too long for a tape`);
  const header = Buffer.alloc(HEADER);
  plain.copy(header, 0, 0, PLAIN_HEADER);
  header[3] = HAS_EXTRA;
  header.writeUInt16LE(8, 10);
  header.write('GT', 12, 'latin1');
  header.writeUInt16LE(4, 14);
  header.writeUInt32LE(HEADER + plain.length - PLAIN_HEADER, 16);
  return Buffer.concat([header, plain.subarray(PLAIN_HEADER)]);
}

interface Frame {
  start: number;
  end: number;
}

/**
 * Skips a member truncated at the end.
 * @throws RangeError if the file is not a tape
 */
export async function* listFrames(file: FileHandle): AsyncGenerator<Frame> {
  const { size } = await file.stat();
  for (let start = 0; start < size;) {
    const header = Buffer.alloc(Math.min(HEADER, size - start));
    await file.read(header, 0, header.length, start);
    // Even a truncated header must begin like a record; otherwise the file is not a tape.
    if (header.length < HEADER && isStart(header)) return;
    const length = header.length < HEADER ? undefined : lengthOf(header);
    if (length === undefined) throw new RangeError(`no record of a tape begins at byte ${start}`);
    const end = start + length;
    if (end > size) return;
    yield { start, end };
    start = end;
  }
}

/** False only if the bytes cannot be the start of a tape. */
export const beginsAsTape = (start: Buffer): boolean =>
  start.length < HEADER ? isStart(start) : lengthOf(start.subarray(0, HEADER)) !== undefined;

const isStart = (header: Buffer): boolean =>
  [0x1f, 0x8b, 8, HAS_EXTRA].every((byte, i) => i >= header.length || header[i] === byte);

function lengthOf(header: Buffer): number | undefined {
  if (!isStart(header) || header.toString('latin1', 12, 14) !== 'GT') return undefined;
  const length = header.readUInt32LE(16);
  return length > HEADER && length <= MAX_MEMBER ? length : undefined;
}

/** @throws for a damaged record, detected by its checksum */
export async function readMember(file: FileHandle, { start, end }: Frame): Promise<string> {
  const bytes = Buffer.alloc(end - start);
  await file.read(bytes, 0, bytes.length, start);
  return (await expand(bytes, { maxOutputLength: MAX_TEXT })).toString('utf8');
}
