import type { FileHandle } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { PrintsRead } from '../market/source.js';
import { findPlace, type Place } from '../market/stations.js';
import type { SnapshotInputs, SnapshotRules } from '../snapshot/build-snapshot.js';

/** The first record of each run of a service: what stays the same while it runs. */
export type TapeHeader = Omit<SnapshotRules, 'model'>;

/** One refresh. What is left out is what it was in the record before. */
export type TapeRecord = Omit<SnapshotInputs, 'weather' | 'calibration'> &
  Partial<Pick<SnapshotInputs, 'weather' | 'calibration'>> & {
    /** What was read since the record before; prints that stand in an earlier record are left out. */
    prints?: readonly PrintsRead[];
  };

/** What stands in the header record beside the header. A tape of another format is refused. */
export const TAPE_FORMAT = 1;

/**
 * JSON with what JSON does not have: `{"$n":"12"}` is a bigint, `{"$t":0}` a time in milliseconds, `{"$m":[[k,v]]}` a map and
 * `{"$s":"KNYC"}` a station or an area, of which there is only one object. Nothing that is written has such keys of its own.
 */
export const writeValue = (value: unknown): string => JSON.stringify(encode(value));

/** @throws SyntaxError or RangeError for what `writeValue` has not written */
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
    // No account has more money, and a number without end would take as long to read.
    if (typeof value !== 'string' || !/^-?\d{1,100}$/.test(value))
      throw new RangeError('$n is not a whole number');
    return BigInt(value);
  },
  $t(value) {
    const time = new Date(typeof value === 'number' ? value : NaN);
    if (Number.isNaN(time.getTime())) throw new RangeError('$t is no time');
    return time;
  },
  $m(value) {
    if (!Array.isArray(value) || !value.every((entry) => Array.isArray(entry) && entry.length === 2))
      throw new RangeError('$m is no map');
    return new Map((value as [unknown, unknown][]).map(([key, item]) => [decode(key), decode(item)]));
  },
  $s: (value) => {
    const station = findPlace(String(value));
    if (!station) throw new RangeError(`the station ${String(value)} is not known`);
    return station;
  },
};

/*
 * A tape is a gzip file of many members, one for each record, so that `zcat` reads it and a record can be added without
 * touching what is there. Each member says its own length in the header's extra field, as BGZF does (SAM specification,
 * section 4.1): so a reader goes from one to the next, and finds one that was cut off.
 */
const compress = promisify(gzip);
const expand = promisify(gunzip);

const PLAIN_HEADER = 10;
/** Header, length of the extra field, its name, its own length, the length of the member. */
const HEADER = 20;
const HAS_EXTRA = 4;
/** No record is longer: a file that says so is no tape. */
const MAX_MEMBER = 16 * 1024 * 1024;
/** No record holds more, however well it is packed. */
const MAX_TEXT = 64 * 1024 * 1024;

/** @throws RangeError for more than could be read again */
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

/** Where members begin and end. */
interface Frame {
  start: number;
  end: number;
}

/** The whole members of a file, in order. One that was cut off at the end is left out. @throws RangeError for no tape */
export async function* listFrames(file: FileHandle): AsyncGenerator<Frame> {
  const { size } = await file.stat();
  for (let start = 0; start < size;) {
    const header = Buffer.alloc(Math.min(HEADER, size - start));
    await file.read(header, 0, header.length, start);
    // What is cut off within its header must have begun as a record: else the file is something else.
    if (header.length < HEADER && isStart(header)) return;
    const length = header.length < HEADER ? undefined : lengthOf(header);
    if (length === undefined) throw new RangeError(`no record of a tape begins at byte ${start}`);
    const end = start + length;
    if (end > size) return;
    yield { start, end };
    start = end;
  }
}

/** False for the first bytes of what is certainly no tape. */
export const beginsAsTape = (start: Buffer): boolean =>
  start.length < HEADER ? isStart(start) : lengthOf(start.subarray(0, HEADER)) !== undefined;

const isStart = (header: Buffer): boolean =>
  [0x1f, 0x8b, 8, HAS_EXTRA].every((byte, i) => i >= header.length || header[i] === byte);

function lengthOf(header: Buffer): number | undefined {
  if (!isStart(header) || header.toString('latin1', 12, 14) !== 'GT') return undefined;
  const length = header.readUInt32LE(16);
  return length > HEADER && length <= MAX_MEMBER ? length : undefined;
}

/** @throws Error for a damaged record: each carries a checksum */
export async function readMember(file: FileHandle, { start, end }: Frame): Promise<string> {
  const bytes = Buffer.alloc(end - start);
  await file.read(bytes, 0, bytes.length, start);
  return (await expand(bytes, { maxOutputLength: MAX_TEXT })).toString('utf8');
}
