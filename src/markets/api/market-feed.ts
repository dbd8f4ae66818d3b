import { emptyBook, type OrderBook } from '../market/book.js';
import type { ListedMarket } from '../market/market.js';
import { dollarsOrNull } from '../market/money.js';
import { toBookStateJson, toQuoteJson } from './market-json.js';
import { toStateJson, type Snapshot } from '../snapshot/snapshot.js';

interface Entry {
  /** Null if the market has no station. */
  stationId: string | null;
  json: string;
  changedAt: number;
  /** `json` is reused until one of these changes. */
  from: { market: ListedMarket; book: OrderBook; probability: number | null; state: string };
}

/** About an hour at 30 snapshots a second. Readers absent for longer get a full snapshot. */
const KEPT_REMOVALS = 100_000;

const MAX_EVENTS = 64;

/**
 * Events with a full snapshot, or with the changes since the last refresh that a reader received.
 * @param instance sequence numbers are only valid within one process
 */
export function createMarketFeed(instance: string) {
  let entries = new Map<string, Entry>();
  const removals = new Map<string, { stationId: string | null; removedAt: number }>();
  const events = new Map<string, Buffer>();
  let oldestRemoval = 0;
  let sequence = 0;
  let head = '';
  let probabilities: ReadonlyMap<string, number> = new Map();
  let ofForecasts: Snapshot['forecasts'] | undefined;

  function makeOnce(key: string, make: () => Buffer): Buffer {
    let event = events.get(key);
    if (event) return event;
    event = make();
    // Clients choose `since`: arbitrary values must not exhaust memory.
    if (events.size < MAX_EVENTS) events.set(key, event);
    return event;
  }

  function toEvent(name: string, markets: readonly Entry[], more = ''): Buffer {
    const data = `{${head},"markets":[${markets.map(({ json }) => json).join(',')}]${more}}`;
    return Buffer.from(`event: ${name}\nid: ${instance}-${sequence}\ndata: ${data}\n\n`);
  }

  return {
    /** 0 before the first refresh. */
    get sequence() {
      return sequence;
    },

    take(snapshot: Snapshot): void {
      sequence = snapshot.sequence;
      events.clear();
      head = writeHead(snapshot);
      const { data, forecasts } = snapshot;
      if (forecasts !== ofForecasts) {
        ofForecasts = forecasts;
        probabilities = probabilitiesOf(forecasts);
      }
      const before = entries;
      entries = new Map();
      for (const market of data.markets) {
        const probability = probabilities.get(market.ticker) ?? null;
        entries.set(market.ticker, toEntry(snapshot, market, probability, before.get(market.ticker)));
        removals.delete(market.ticker);
      }
      for (const [ticker, { stationId }] of before)
        if (!entries.has(ticker)) removals.set(ticker, { stationId, removedAt: sequence });
      for (const [ticker, { removedAt }] of removals) {
        if (removedAt > sequence - KEPT_REMOVALS) break;
        removals.delete(ticker);
        oldestRemoval = removedAt;
      }
    },

    /** Built once per refresh for all readers of the same station. */
    snapshotEvent: (stationId: string | undefined) =>
      makeOnce(`all ${stationId ?? ''}`, () =>
        toEvent('snapshot', [...entries.values()].filter(isOf(stationId))),
      ),

    /** Undefined if `since` is too old or in the future. */
    changesEvent(since: number, stationId: string | undefined) {
      if (since > sequence || since < oldestRemoval) return undefined;
      return makeOnce(`${since} ${stationId ?? ''}`, () => {
        const changed = [...entries.values()].filter(isOf(stationId)).filter((e) => e.changedAt > since);
        const removed = [...removals].filter(([, r]) => isOf(stationId)(r) && r.removedAt > since);
        const tickers = JSON.stringify(removed.map(([ticker]) => ticker));
        return toEvent('changes', changed, `,"removed":${tickers}`);
      });
    },
  };
}

function toEntry(
  { data, sequence }: Snapshot,
  market: ListedMarket,
  probability: number | null,
  known: Entry | undefined,
): Entry {
  const book = data.books.get(market.ticker) ?? emptyBook;
  const { bookState: state } = toBookStateJson(data, market.ticker);
  const before = known?.from;
  if (
    before?.market === market &&
    before.book === book &&
    before.probability === probability &&
    before.state === state
  )
    return known!;
  const json = writeMarket(market, book, probability, state);
  const changedAt = known?.json === json ? known.changedAt : sequence;
  const from = { market, book, probability, state };
  return { stationId: market.station?.id ?? null, json, changedAt, from };
}

const isOf =
  (wanted: string | undefined) =>
  ({ stationId }: { stationId: string | null }): boolean =>
    wanted === undefined || stationId === wanted;

function writeMarket(market: ListedMarket, book: OrderBook, probability: number | null, bookState: string) {
  const { ticker, status, lastPrice } = market;
  const quote = toQuoteJson(market, book);
  return JSON.stringify({
    ticker,
    status,
    ...quote,
    lastPrice: dollarsOrNull(lastPrice),
    probability,
    bookState,
  });
}

const probabilitiesOf = (forecasts: Snapshot['forecasts']) =>
  new Map([...forecasts.values()].flatMap(({ days }) => days.flatMap((day) => [...day.probabilities])));

const writeHead = ({ asOf, sources }: Snapshot): string =>
  `"asOf":"${asOf.toISOString()}","sources":${JSON.stringify(sources.map(toStateJson))}`;
