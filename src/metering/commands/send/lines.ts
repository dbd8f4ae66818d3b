import { isUtf8 } from 'node:buffer';
import { CommandError } from '../../../commands/kit/command.js';
import type { Input } from '../../../commands/kit/input.js';

/** Bounds memory for any file. */
export const MAX_LINE_BYTES = 1024 * 1024;

export interface Line {
  number: number;
  /** Without the line ending. */
  text: string;
  problem?: string;
}

const NEWLINE = 0x0a;

export async function* readLines(input: Input): AsyncGenerator<Line[]> {
  let number = 0;
  let carry: Buffer = Buffer.alloc(0);
  let isSkipping = false;
  let isFirst = true;

  for await (let chunk of input.chunks()) {
    const lines: Line[] = [];
    if (isSkipping) {
      const end = chunk.indexOf(NEWLINE);
      if (end < 0) continue;
      chunk = chunk.subarray(end + 1);
      isSkipping = false;
    }
    let bytes = carry.length > 0 ? Buffer.concat([carry, chunk]) : chunk;
    if (isFirst && bytes.length >= 3) {
      bytes = withoutByteOrderMark(bytes);
      isFirst = false;
    }
    const end = bytes.lastIndexOf(NEWLINE);
    if (end >= 0) number = addLines(lines, bytes.subarray(0, end), number);
    carry = end >= 0 ? bytes.subarray(end + 1) : bytes;
    if (carry.length > MAX_LINE_BYTES) {
      lines.push(tooLong(++number, carry));
      carry = Buffer.alloc(0);
      isSkipping = true;
    }
    if (lines.length > 0) yield lines;
  }
  if (isFirst) carry = withoutByteOrderMark(carry);
  const lines: Line[] = [];
  if (carry.length > 0) addLines(lines, carry, number);
  if (lines.length > 0) yield lines;
}

/** `bytes` holds whole lines without the last line ending: decoding them together is several times faster. */
function addLines(lines: Line[], bytes: Buffer, before: number): number {
  let number = before;
  if (isUtf8(bytes)) {
    for (const text of bytes.toString('utf8').split('\n')) {
      number++;
      lines.push(text.length > MAX_LINE_BYTES ? tooLong(number, Buffer.from(text)) : { number, text });
    }
    return number;
  }
  for (let from = 0, to = 0; to >= 0; from = to + 1) {
    number++;
    to = bytes.indexOf(NEWLINE, from);
    const line = bytes.subarray(from, to < 0 ? bytes.length : to);
    const text = line.toString('utf8');
    if (line.length > MAX_LINE_BYTES) lines.push(tooLong(number, line));
    else
      lines.push(isUtf8(line) ? { number, text } : { number, text, problem: 'The line is not valid UTF-8.' });
  }
  return number;
}

function tooLong(number: number, bytes: Buffer): Line {
  const text = `${bytes.toString('utf8', 0, 1000)}…`;
  return { number, text, problem: `The line is longer than ${MAX_LINE_BYTES.toLocaleString('en')} bytes.` };
}

export function withoutByteOrderMark(bytes: Buffer): Buffer {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return bytes.subarray(3);
  if ((bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff))
    throw new CommandError('The input is UTF-16. Convert it to UTF-8 first, for example with iconv.');
  return bytes;
}
