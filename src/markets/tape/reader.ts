import { open, type FileHandle } from 'node:fs/promises';
import { z } from 'zod';
import type { PrintsRead } from '../market/source.js';
import type { SnapshotInputs } from '../snapshot/build-snapshot.js';
import {
  TAPE_FORMAT,
  listFrames,
  readMember,
  readValue,
  type TapeHeader,
  type TapeRecord,
} from './format.js';

/** The file is not a tape or is damaged. The message includes the location. */
export class TapeError extends Error {}

export interface TapeEntry {
  header: TapeHeader;
  inputs: SnapshotInputs;
  /** Prints since the previous entry; empty on tapes from before prints were taped. */
  prints: readonly PrintsRead[];
  /** From 1, including headers. */
  record: number;
}

const headerSchema = z.object({
  format: z.literal(TAPE_FORMAT),
  marketSource: z.string(),
  forecastSource: z.string(),
  bankroll: z.bigint(),
});
/** Each record has a checksum, so nested values are not validated. */
const recordSchema = z.object({
  sequence: z.int().positive(),
  at: z.date(),
  data: z.object({
    fetchedAt: z.date(),
    markets: z.array(z.unknown()),
    books: z.map(z.string(), z.unknown()),
  }),
  weather: z.object({ fetchedAt: z.date() }).optional(),
  calibration: z.object({ fits: z.object({}), gates: z.object({}) }).optional(),
  sources: z.array(z.unknown()),
  prints: z
    .array(
      z.object({
        tickers: z.array(z.string()),
        since: z.date(),
        until: z.date(),
        prints: z.array(z.unknown()),
      }),
    )
    .optional(),
});

/**
 * Skips a record truncated at the end.
 * @throws TapeError at the first damaged record; errors from opening the file pass through
 */
export async function* readTape(path: string): AsyncGenerator<TapeEntry> {
  const file = await open(path, 'r');
  try {
    let header: TapeHeader | undefined;
    let before: Pick<SnapshotInputs, 'weather' | 'calibration'> | undefined;
    let record = 0;
    for await (const value of readRecords(path, file)) {
      record++;
      if (isHeader(value)) {
        header = asHeader(value, `${path}, record ${record}`);
        before = undefined;
        continue;
      }
      const read = complete(value, before);
      if (!header || !read) throw new TapeError(`${path}, record ${record}: not a refresh of Gauge`);
      before = read.inputs;
      yield { header, ...read, record };
    }
    if (!header) throw new TapeError(`${path}: there is nothing on this tape`);
  } finally {
    await file.close();
  }
}

async function* readRecords(path: string, file: FileHandle): AsyncGenerator {
  let start = 0;
  try {
    for await (const frame of listFrames(file)) {
      ({ start } = frame);
      yield readValue(await readMember(file, frame));
    }
  } catch (error) {
    throw new TapeError(`${path}, byte ${start}: ${(error as Error).message}`, { cause: error });
  }
}

const isHeader = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && 'format' in value;

function asHeader(value: object, place: string): TapeHeader {
  const parsed = headerSchema.safeParse(value);
  if (!parsed.success) throw new TapeError(`${place}: this is not a Gauge tape of format ${TAPE_FORMAT}`);
  const { format: _, ...header } = parsed.data;
  return header;
}

function complete(value: unknown, before: Pick<SnapshotInputs, 'weather' | 'calibration'> | undefined) {
  if (!recordSchema.safeParse(value).success) return undefined;
  const { prints = [], ...read } = value as TapeRecord;
  const calibration = read.calibration ?? before?.calibration;
  const weather = read.weather ?? before?.weather;
  return calibration && { inputs: { ...read, weather, calibration }, prints };
}
