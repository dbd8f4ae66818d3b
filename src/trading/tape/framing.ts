import type { FileHandle } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';

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
/** No record is longer: whoever says so is no tape. */
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
export interface Frame {
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
    if (length === undefined) throw new RangeError(`what stands at byte ${start} is no record of a tape`);
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
