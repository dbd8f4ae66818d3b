import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Request, Response } from 'express';
import type { Logger } from 'pino';
import { toAppError } from '../http/problem.js';
import { ExactNumber } from '../http/json.js';

export type CsvCell = string | number | Date | null | ExactNumber;

/** A spreadsheet may run this after characters that it drops. Guarded text matches too, so `readCsvText` is exact. */
const formula =
  /^'*(?:[\t\r\n]|[\s\p{Cc}\p{Cf}\p{Z}\p{DI}\u2800]*[=+\-@\u2212\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20])/u;

/**
 * RFC 4180. A formula gets a leading apostrophe, and all text is quoted, because spreadsheets of some countries also
 * separate cells at semicolons.
 */
export const csvRow = (cells: readonly CsvCell[]): string => `${cells.map(toCell).join(',')}\r\n`;

function toCell(cell: CsvCell): string {
  if (cell === null || cell === '') return '';
  if (typeof cell === 'number') return String(cell);
  if (cell instanceof ExactNumber) return cell.digits;
  if (cell instanceof Date) return cell.toISOString();
  return `"${formula.test(cell) ? "'" : ''}${cell.replaceAll('"', '""')}"`;
}

export const readCsvText = (cell: string): string =>
  cell.startsWith("'") && formula.test(cell.slice(1)) ? cell.slice(1) : cell;

export interface CsvFile {
  /** Characters other than letters, digits, `.`, `_` and `-` become `-`. */
  filename: string;
  /** Without commas and quotes. */
  columns: readonly string[];
  /** The next chunk is requested once the client has read the last. */
  pieces: AsyncIterable<readonly (readonly CsvCell[])[]>;
}

/**
 * Reads the first chunk before anything is sent, so its failure is an ordinary error. A later failure breaks the
 * connection, so that the client sees that the file is incomplete.
 */
export async function sendCsv(
  log: Logger,
  req: Request,
  res: Response,
  { filename, columns, pieces }: CsvFile,
): Promise<void> {
  const iterator = pieces[Symbol.asyncIterator]();
  const first = await iterator.next();
  res.setHeader('Content-Type', 'text/csv; charset=utf-8; header=present');
  res.setHeader(
    'Content-Disposition',
    `attachment; filename="${filename.replaceAll(/[^A-Za-z0-9._-]+/g, '-')}"`,
  );
  if (req.method === 'HEAD') {
    await iterator.return?.();
    res.end();
    return;
  }
  try {
    await pipeline(
      Readable.from(toText(columns, first, iterator), { objectMode: true, highWaterMark: 1 }),
      res,
    );
  } catch (thrown) {
    res.destroy();
    if (isHangUp(thrown)) return;
    res.locals.error = toAppError(thrown);
    log.error(
      { err: thrown, requestId: res.getHeader('X-Request-Id') },
      'a CSV download failed before its end',
    );
  }
}

async function* toText(
  columns: readonly string[],
  first: IteratorResult<readonly (readonly CsvCell[])[]>,
  iterator: AsyncIterator<readonly (readonly CsvCell[])[]>,
): AsyncGenerator<string> {
  try {
    yield `${columns.join(',')}\r\n`;
    for (let step = first; !step.done; step = await iterator.next()) {
      if (step.value.length > 0) yield step.value.map(csvRow).join('');
    }
  } finally {
    await iterator.return?.();
  }
}

const isHangUp = (thrown: unknown): boolean =>
  ['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE'].includes((thrown as { code?: string }).code ?? '');
