import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { readEventTicker, writeEventTicker } from '../../../src/markets/market/event.js';
import { addDays } from '../../../src/markets/market/climate-day.js';
import { findSeries, findStation } from '../../../src/markets/market/stations.js';
import { answerMember, newExchange, type FakeExchange } from './fake-exchange.js';
import { startFakeStream, type FakeStream, type WireBook } from './fake-stream.js';

type Json = Record<string, unknown>;

/** Answers a request in place of the venue; returns true if it did. */
type Fault = (
  req: IncomingMessage,
  res: ServerResponse,
  path: string,
  body?: Json,
) => boolean | Promise<boolean>;

export interface FakeVenue {
  url: string;
  /** In the venue's format and order. */
  markets: Json[];
  /** Markets settled before the cutoff, which `/markets` no longer lists. */
  historical: Json[];
  /** The cutoff that `/historical/cutoff` returns. */
  cutoff: string;
  /** Bids as `[price, contracts]`, by market. */
  books: Map<string, WireBook>;
  /** Limits per caller; undefined for no limit. A read costs 10 tokens. */
  tokens: { refillPerSecond: number; capacity: number } | undefined;
  /** Newest first. */
  trades: Json[];
  status: { exchange_active: boolean; trading_active: boolean };
  /** Series of the climate category. */
  series: Json[];
  pageSize: number;
  /** All requests as `/path?query`. */
  requests: string[];
  fault: Fault | undefined;
  /** Intervenes after a request has been carried out and before it is answered. */
  answerFault: Fault | undefined;
  exchange: FakeExchange;
  stream: FakeStream;
  stop(): Promise<void>;
}

const READ_COST = 10;

/** Starts a fake venue that speaks the documented protocol (OpenAPI 3.32), with injectable faults. */
export async function startFakeVenue(): Promise<FakeVenue> {
  const buckets = new Map<string, { tokens: number; at: number }>();

  /** Takes the tokens for a read; returns false if too few are left. */
  function charge(caller: string): boolean {
    if (!venue.tokens) return true;
    const { refillPerSecond, capacity } = venue.tokens;
    const now = performance.now();
    const { tokens, at } = buckets.get(caller) ?? { tokens: capacity, at: now };
    const left = Math.min(capacity, tokens + ((now - at) / 1000) * refillPerSecond);
    buckets.set(caller, { tokens: left >= READ_COST ? left - READ_COST : left, at: now });
    return left >= READ_COST;
  }

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url!, 'http://venue');
    venue.requests.push(req.url!);
    const path = url.pathname.replace('/trade-api/v2', '');
    const body = req.method === 'POST' ? await readJson(req) : undefined;
    if (await venue.fault?.(req, res, path, body)) return;
    if (req.method === 'GET' && !charge(req.headers['kalshi-access-key']?.toString() ?? '')) {
      res.writeHead(429, { 'content-type': 'application/json' }).end('{"error":"too many requests"}');
      return;
    }
    if (path === '/markets/orderbooks' && req.headers['kalshi-access-key'] === undefined) {
      res.writeHead(401, { 'content-type': 'application/json' });
      res.end(JSON.stringify({ code: 'unauthorized', message: 'unauthorized', service: 'fake' }));
      return;
    }
    const ofMember = answerMember(venue.exchange, venue.books, req, path, url.searchParams, body);
    const found = ofMember ?? { status: 200, body: answerTo(venue, path, url.searchParams) };
    if (await venue.answerFault?.(req, res, path)) return;
    res.writeHead(found.body === undefined ? 404 : found.status, { 'content-type': 'application/json' });
    res.end(JSON.stringify(found.body ?? { code: 'not_found', message: 'not found', service: 'fake' }));
  }
  const server = createServer((req, res) => void handle(req, res));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const books = new Map<string, WireBook>();
  const venue: FakeVenue = {
    url: `http://127.0.0.1:${port}/trade-api/v2`,
    markets: [],
    historical: [],
    cutoff: '2026-01-01T00:00:00Z',
    books,
    trades: [],
    tokens: undefined,
    status: { exchange_active: true, trading_active: true },
    series: ['KXHIGHNY', 'KXHIGHCHI', 'KXHIGHMIA', 'KXHIGHAUS', 'KXHIGHDEN'].map(wireSeries),
    pageSize: 1000,
    requests: [],
    fault: undefined,
    answerFault: undefined,
    exchange: newExchange(),
    stream: startFakeStream(server, books, (req) => req.headers['kalshi-access-signature'] !== undefined),
    stop: () =>
      new Promise((resolve) => {
        venue.stream.stop();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  venue.exchange.tell = (channel, msg) => venue.stream.tell(channel, msg);
  venue.exchange.shardOf = (ticker) =>
    Number(venue.markets.find((market) => market.ticker === ticker)?.exchange_index ?? 0);
  return venue;
}

async function readJson(req: IncomingMessage): Promise<Json> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as Json;
}

function answerTo(venue: FakeVenue, path: string, query: URLSearchParams): Json | undefined {
  if (path === '/exchange/status') return venue.status;
  const names = query.get('tickers')?.split(',');
  if (path === '/markets') return names ? findMarkets(venue.markets, names) : listMarkets(venue, query);
  if (path === '/markets/trades') return listTrades(venue, query);
  if (path === '/historical/cutoff')
    return {
      market_settled_ts: venue.cutoff,
      trades_created_ts: venue.cutoff,
      orders_updated_ts: venue.cutoff,
    };
  if (path === '/historical/markets') {
    const event = query.get('event_ticker');
    if (event === null) return findMarkets(venue.historical, names ?? []);
    return { markets: venue.historical.filter(({ event_ticker: of }) => of === event), cursor: '' };
  }
  const ofBook = /^\/markets\/([^/]+)\/orderbook$/.exec(path)?.[1];
  if (ofBook !== undefined) {
    const book = venue.books.get(decodeURIComponent(ofBook));
    return { orderbook_fp: book ?? { yes_dollars: [], no_dollars: [] } };
  }
  if (path === '/markets/orderbooks') {
    const tickers = query.getAll('tickers');
    const empty = { yes_dollars: [], no_dollars: [] };
    return {
      orderbooks: tickers.map((ticker) => ({ ticker, orderbook_fp: venue.books.get(ticker) ?? empty })),
    };
  }
  if (path === '/account/limits') {
    const { refillPerSecond, capacity } = venue.tokens ?? { refillPerSecond: 1e6, capacity: 1e6 };
    const bucket = { refill_rate: refillPerSecond, bucket_capacity: capacity };
    return { usage_tier: 'basic', read: bucket, write: bucket, grants: [] };
  }
  if (path === '/account/endpoint_costs') return { default_cost: READ_COST, endpoint_costs: [] };
  if (path === '/series') {
    const category = query.get('category');
    const inCategory = ({ categories, category: primary }: Json) =>
      category === null || primary === category || (categories as string[] | undefined)?.includes(category);
    return { series: venue.series.filter(inCategory) };
  }
  if (path === '/series/fee_changes') return { series_fee_change_arr: [] };
  if (path === '/events/fee_changes') return { event_fee_changes: [], cursor: '' };
  return undefined;
}

const findMarkets = (markets: Json[], names: string[]): Json => ({
  markets: markets.filter(({ ticker }) => names.includes(String(ticker))),
  cursor: '',
});

/** The market statuses that each value of `status` selects. */
const statusFilters: Record<string, string[]> = {
  unopened: ['initialized'],
  open: ['active'],
  closed: ['closed', 'inactive', 'determined', 'disputed', 'amended'],
  settled: ['finalized'],
};

function listMarkets(venue: FakeVenue, query: URLSearchParams): Json {
  const [series, event, status] = ['series_ticker', 'event_ticker', 'status'].map((name) => query.get(name));
  const seconds = (name: string, otherwise: number) => Number(query.get(name) ?? otherwise) * 1000;
  const minClose = seconds('min_close_ts', 0);
  const maxClose = seconds('max_close_ts', Infinity);
  const minUpdated = seconds('min_updated_ts', -Infinity);
  // Old events keep their tickers, but the venue lists them under the series' new name.
  const names = series == null ? [''] : series.startsWith('KX') ? [`${series}-`, `${series.slice(2)}-`] : [];
  const found = venue.markets.filter((market) => {
    const name = String(market.event_ticker);
    if (!names.some((of) => name.startsWith(of))) return false;
    const closeAt = Date.parse(String(market.close_time));
    return (
      (event === null || market.event_ticker === event) &&
      (status == null || statusFilters[status]!.includes(String(market.status))) &&
      closeAt > minClose &&
      closeAt < maxClose &&
      (minUpdated === -Infinity || Date.parse(String(market.updated_time)) > minUpdated)
    );
  });
  const size = Math.min(Number(query.get('limit') ?? 100), venue.pageSize);
  const start = Number(query.get('cursor') ?? 0);
  const end = start + size;
  return { markets: found.slice(start, end), cursor: end < found.length ? String(end) : '' };
}

/** The time bounds are exclusive: a trade exactly at a bound is not listed. */
function listTrades({ trades, pageSize }: FakeVenue, query: URLSearchParams): Json {
  const [min, max] = [Number(query.get('min_ts') ?? 0), Number(query.get('max_ts') ?? Infinity)];
  const found = trades.filter((trade) => {
    const at = Date.parse(String(trade.created_time)) / 1000;
    return trade.ticker === (query.get('ticker') ?? trade.ticker) && at > min && at < max;
  });
  const start = Number(query.get('cursor') ?? 0);
  const end = start + Math.min(Number(query.get('limit') ?? 100), pageSize);
  return { trades: found.slice(start, end), cursor: end < found.length ? String(end) : '' };
}

let traded = 0;

export const wireTrade = (ticker: string, more: Json = {}): Json => ({
  trade_id: `trade-${++traded}`,
  ticker,
  count_fp: '10.00',
  yes_price_dollars: '0.4200',
  no_price_dollars: '0.5800',
  taker_side: 'yes',
  taker_outcome_side: 'yes',
  taker_book_side: 'bid',
  created_time: '2026-07-04T17:59:00.123456Z',
  is_block_trade: false,
  ...more,
});

export const wireSeries = (ticker: string): Json => ({
  ticker,
  frequency: 'daily',
  title: '',
  category: 'Climate and Weather',
  fee_type: 'quadratic',
  fee_multiplier: 1,
});

/** A market in the venue's format, with made-up numbers. */
export function wireMarket(
  eventTicker: string,
  strike: { floor?: number; cap?: number },
  more: Json = {},
): Json {
  const { floor, cap } = strike;
  const type = floor === undefined ? 'less' : cap === undefined ? 'greater' : 'between';
  const suffix = type === 'between' ? `B${(floor! + cap!) / 2}` : `T${floor ?? cap}`;
  const label = {
    less: `${cap! - 1}° or below`,
    greater: `${floor! + 1}° or above`,
    between: `${floor}° to ${cap}°`,
  };
  return {
    ticker: `${eventTicker}-${suffix}`,
    event_ticker: eventTicker,
    market_type: 'binary',
    title: '',
    subtitle: label[type],
    yes_sub_title: label[type],
    no_sub_title: label[type],
    created_time: '2026-07-03T13:00:00Z',
    updated_time: '2026-07-04T13:00:00Z',
    open_time: '2026-07-03T14:00:00Z',
    close_time: '2026-07-05T05:00:00Z',
    latest_expiration_time: '2026-07-12T14:00:00Z',
    settlement_timer_seconds: 3600,
    status: 'active',
    yes_bid_dollars: '0.4200',
    yes_ask_dollars: '0.4500',
    no_bid_dollars: '0.5500',
    no_ask_dollars: '0.5800',
    yes_bid_size_fp: '10.00',
    yes_ask_size_fp: '5.00',
    last_price_dollars: '0.4400',
    previous_yes_bid_dollars: '0.4100',
    previous_yes_ask_dollars: '0.4400',
    previous_price_dollars: '0.4300',
    volume_fp: '120.00',
    volume_24h_fp: '20.00',
    open_interest_fp: '99.00',
    notional_value_dollars: '1.0000',
    result: '',
    can_close_early: true,
    expiration_value: '',
    rules_primary: rulesOf(eventTicker, strike),
    rules_secondary: '',
    price_level_structure: 'linear_cent',
    price_ranges: [{ start: '0.0000', end: '1.0000', step: '0.0100' }],
    exchange_index: 0,
    settlement_bounds_type: 'default',
    strike_type: type,
    ...(floor === undefined ? {} : { floor_strike: floor }),
    ...(cap === undefined ? {} : { cap_strike: cap }),
    ...more,
  };
}

const dayFormat = new Intl.DateTimeFormat('en-US', { timeZone: 'UTC', dateStyle: 'medium' });

/** The venue's rules as worded on the event's day. Wording and settlement source changed in August 2026. */
export function rulesOf(eventTicker: string, { floor, cap }: { floor?: number; cap?: number }): string {
  const { seriesTicker = '', date = '2026-07-04' } = readEventTicker(eventTicker) ?? {};
  const { station, kind } = findSeries(seriesTicker) ?? {
    station: findStation('KNYC')!,
    kind: 'daily_maximum',
  };
  const day = dayFormat.format(new Date(date));
  const range =
    floor === undefined
      ? `less than ${cap}°`
      : cap === undefined
        ? `greater than ${floor}°`
        : `between ${floor}-${cap}°`;
  if (date < '2026-08-15')
    return `If the highest temperature recorded in ${oldPlaces[station.id]} for ${day} as reported by the National Weather Service's Climatological Report (Daily), is ${range}, then the market resolves to Yes.`;
  const measure = kind === 'daily_minimum' ? 'minimum' : 'maximum';
  return `If the ${measure} temperature recorded at ${station.rulesCity} (${station.report}) for ${day}, is ${range} fahrenheit according to The Weather Company, then the market resolves to Yes.`;
}

const oldPlaces: Record<string, string> = {
  KNYC: 'Central Park, New York',
  KMDW: 'Chicago Midway, IL',
  KMIA: 'Miami, FL',
  KAUS: 'Austin Bergstrom',
  KDEN: 'Denver, CO',
  KLAX: 'Los Angeles, CA',
  KPHL: 'Philadelphia, PA',
};

/** New York's three-bracket ladder for a day, settled at the given temperature. */
export function settledLadder(date: string, temperatureF = 86): Json[] {
  const name = writeEventTicker('KXHIGHNY', date);
  const brackets = [
    { cap: temperatureF },
    { floor: temperatureF, cap: temperatureF + 1 },
    { floor: temperatureF + 1 },
  ];
  return brackets.map((bracket, i) =>
    wireMarket(name, bracket, {
      close_time: `${addDays(date, 1)}T04:59:00Z`,
      status: 'finalized',
      result: i === 1 ? 'yes' : 'no',
      expiration_value: i === 1 ? `${temperatureF}.00` : '',
    }),
  );
}
