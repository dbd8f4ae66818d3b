import { readFile, stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { z } from 'zod';
import { readMarket } from '../../trading/venue/kalshi-market.js';
import { isPlaced, type Market } from '../../trading/market/market.js';
import type { NoteBook } from '../../trading/market/notes.js';
import { CENT, DOLLAR } from '../../trading/market/money.js';

const unpack = promisify(gunzip);
/** What a file may hold, unpacked: some years of events, and no more than a string can. */
const MAX_BYTES = 400 * 1024 * 1024;

/** What a file holds cannot be used; the message names the place. */
export class RecordError extends Error {}

const eventSchema = z.object({ markets: z.array(z.unknown()).min(1) });
/** A bid this high when the market closed: nobody doubts the outcome, though the venue has not said it yet. */
const SURE_BID = 97n * CENT;

export interface RecordedEvents {
  /** By event, in the order of the files. */
  events: ReadonlyMap<string, readonly Market[]>;
  /** Markets that could not be read for certain, with the reason. */
  unusable: readonly string[];
  /** Events that were taken to have ended as their closing prices say, because the venue's word is not in the files. */
  byClosingPrice: number;
}

/** Reads bodies of `GET /events/{ticker}` with nested markets, one a line, plain or gzipped. @throws RecordError */
export async function readEvents(files: readonly string[]): Promise<RecordedEvents> {
  const events = new Map<string, readonly Market[]>();
  const unusable: string[] = [];
  let byClosingPrice = 0;
  for (const file of files) {
    let line = 0;
    for (const text of (await readBytes(file)).toString('utf8').split('\n')) {
      line++;
      if (text.trim() === '') continue;
      const markets = readMarkets(text, `${file}, line ${line}`, unusable);
      if (markets.length === 0) continue;
      const settled = settleByPrice(markets);
      if (settled) byClosingPrice++;
      events.set(markets[0]!.eventTicker, settled ?? markets);
    }
  }
  return { events, unusable, byClosingPrice };
}

/** The bytes of a file, unpacked if its name says so. @throws RecordError for more than can be, or what is cut off */
export async function readBytes(file: string): Promise<Buffer> {
  const { size } = await stat(file);
  if (size > MAX_BYTES) throw tooLarge(file);
  const bytes = await readFile(file);
  if (!file.endsWith('.gz')) return bytes;
  try {
    return await unpack(bytes, { maxOutputLength: MAX_BYTES });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(file);
    throw new RecordError(`${file} cannot be unpacked: ${message}`, { cause: error });
  }
}

const tooLarge = (file: string): RecordError =>
  new RecordError(`${file} holds more than ${MAX_BYTES / 1024 ** 2} MB`);

function readMarkets(text: string, place: string, unusable: string[]): Market[] {
  const parsed = eventSchema.safeParse(parseJson(text, place));
  if (!parsed.success) throw new RecordError(`${place}: no event with nested markets`);
  return parsed.data.markets.flatMap((wire, i) => {
    const notes: Pick<NoteBook, 'add'> = {
      add(kind, name, example) {
        if (kind === 'missing_field') throw new RecordError(`${place}: markets[${i}].${name}: ${example}`);
        unusable.push(example);
      },
    };
    const market = readMarket(wire, notes);
    return market && isPlaced(market) ? [market] : [];
  });
}

function parseJson(text: string, place: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new RecordError(`${place}: not JSON`);
  }
}

/** The markets as settled, where they closed without a result and their last prices leave no doubt; else undefined. */
function settleByPrice(markets: readonly Market[]): Market[] | undefined {
  if (!markets.every(({ status, settlementValue }) => status === 'closed' && settlementValue === null))
    return undefined;
  const sure = markets.filter(({ yesBid }) => yesBid !== null && yesBid >= SURE_BID);
  if (sure.length !== 1) return undefined;
  return markets.map((market) => ({
    ...market,
    status: 'finalized',
    settlementValue: market === sure[0] ? DOLLAR : 0n,
  }));
}
