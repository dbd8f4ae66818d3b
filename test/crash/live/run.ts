import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { selectRows } from '../../../src/core/db/sql.js';
import type { Database } from '../../../src/core/db/client.js';
import { riskLimits } from '../../../src/markets/ledger/risk-table.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { findFreePort } from '../../support/free-port.js';
import { startFakeVenue, wireMarket, type FakeVenue } from '../../markets/support/fake-venue.js';
import { createRandom, type Random } from '../random.js';
import { startServerProcess, type ServerProcess } from '../server-process.js';
import {
  createFaultyMember,
  createStrictExchange,
  type FaultCounts,
  type StrictExchange,
} from './strict-exchange.js';
import { findViolations } from './verify.js';

export interface LiveFaultOptions {
  db: Database;
  databaseUrl: string;
  orders: number;
  /** Number of times the server is killed (SIGKILL) during a request to the venue. */
  kills: number;
  traders: number;
  seed: number;
  /** How many times faster than real time the service's clock runs. */
  speed: number;
  /** How long a trader keeps retrying a request that the service cannot carry out yet. */
  patienceMs: number;
  onProgress?: (line: string) => void;
}

export interface LiveFaultReport extends FaultCounts {
  violations: string[];
  placed: number;
  /** Number of orders that reached the venue. */
  arrived: number;
  fills: number;
  refused: Record<string, number>;
  kills: number;
  disconnects: number;
}

const TIMEOUT_MS = 400;
const timings = {
  timeoutMs: TIMEOUT_MS,
  backoffMs: 20,
  fillPausesMs: [20, 50, 100],
  lookUpPausesMs: [30, 100, 200],
  confirmPausesMs: [100, 300],
  secondLookMs: 100,
};
const SETTLE_MS = 120_000;

interface Account {
  orgId: string;
  secret: string;
  url: string;
  patienceMs: number;
}

/**
 * Trades through a service that is killed, at a venue whose responses are lost, late, wrong or repeated. Then compares
 * both sides: no order was placed twice, and orders, fills, positions and cash agree.
 */
export async function runLiveFaults(options: LiveFaultOptions): Promise<LiveFaultReport> {
  const { db, seed, speed } = options;
  const random = createRandom(seed);
  const startedMs = Date.now();
  const now = () => startedMs + (Date.now() - startedMs) * speed;
  const folder = mkdtempSync(join(tmpdir(), 'gauge-live-faults-'));
  const venue = await startFakeVenue();
  const exchange = createStrictExchange(now, random, (channel, msg) => {
    // Stream messages are randomly lost and repeated.
    if (random.chance(0.8)) venue.stream.tell(channel, msg);
    if (random.chance(0.3)) venue.stream.tell(channel, msg);
  });
  const tickers = listMarkets(venue, now());
  const organization = await createOrganization(db);
  const key = await createKey(db, organization.id, { scopes: ['trading:read', 'trading:write'] });
  await db.orm.insert(riskLimits).values({
    orgId: organization.id,
    maxOpenOrders: 500,
    maxEventLoss: 4_000_000_000n,
    maxDailyLoss: 4_000_000_000n,
    updatedAt: new Date(),
  });
  const port = await findFreePort();
  const account: Account = {
    orgId: organization.id,
    secret: key.secret,
    url: `http://127.0.0.1:${port}`,
    patienceMs: options.patienceMs,
  };
  const server = createServerKeeper(
    toEnv(options, { venue, folder, slug: organization.slug, port, startedMs }),
    db,
  );
  const killAt = new Set<number>();
  const member = createFaultyMember({
    exchange,
    random,
    timeoutMs: TIMEOUT_MS,
    onWrite(when) {
      if (!killAt.has(member.counts.writes) || (when === 'after') !== member.counts.writes % 2 > 0) return;
      killAt.delete(member.counts.writes);
      server.kill();
    },
  });
  venue.fault = async (req, res, path, body) => {
    if (!path.startsWith('/portfolio/')) return false;
    await member.handle(req, res, path, body ?? {});
    return true;
  };
  // Spreads the kills over the run's writes; each order causes one or two writes.
  for (let i = 1; i <= options.kills; i++)
    killAt.add(Math.ceil((i * options.orders) / (options.kills + 1)) + random.between(0, 2));
  const crowd = startCrowd(exchange, venue, random);
  const counts = { placed: 0, refused: {} as Record<string, number> };
  try {
    await server.start();
    const traders = Array.from({ length: options.traders }, (_, i) =>
      trade(account, options, { exchange, tickers, counts, random: createRandom(seed + i + 1) }),
    );
    await Promise.all(traders);
    const disconnects = crowd.stop();
    member.isCalm = true;
    await server.settled();
    const problem = await settle(account, server, db, now);
    const violations = await findViolations(db, account.orgId, exchange);
    if (problem) violations.unshift(problem);
    return {
      ...member.counts,
      ...counts,
      violations,
      arrived: exchange.arrivals.size,
      fills: exchange.fills.length,
      kills: server.kills,
      disconnects,
    };
  } finally {
    crowd.stop();
    await server.stop();
    await venue.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Lists twelve temperature brackets for New York over two days; their order books never change. */
function listMarkets(venue: FakeVenue, nowMs: number): string[] {
  const day = (days: number) => new Date(nowMs + days * 86_400_000);
  const months = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
  for (const date of [day(2), day(3)]) {
    const name = `KXHIGHNY-${date.toISOString().slice(2, 4)}${months[date.getUTCMonth()]}${String(date.getUTCDate()).padStart(2, '0')}`;
    const closes = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() + 1, 5));
    const strikes = [
      { cap: 40 },
      ...[40, 42, 44, 46].map((floor) => ({ floor, cap: floor + 1 })),
      { floor: 47 },
    ];
    for (const strike of strikes)
      venue.markets.push(
        wireMarket(name, strike, {
          open_time: new Date(nowMs - 86_400_000).toISOString(),
          close_time: closes.toISOString(),
          latest_expiration_time: new Date(closes.getTime() + 7 * 86_400_000).toISOString(),
        }),
      );
  }
  const tickers = venue.markets.map(({ ticker }) => String(ticker));
  for (const ticker of tickers)
    venue.books.set(ticker, { yes_dollars: [['0.4400', '500.00']], no_dollars: [['0.5500', '500.00']] });
  return tickers;
}

function toEnv(
  { databaseUrl, speed }: LiveFaultOptions,
  where: { venue: FakeVenue; folder: string; slug: string; port: number; startedMs: number },
): Record<string, string> {
  const { privateKey } = generateKeyPairSync('ed25519');
  const keyFile = join(where.folder, 'venue.pem');
  writeFileSync(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  const closed = 'http://127.0.0.1:9';
  return {
    PORT: String(where.port),
    DATABASE_URL: databaseUrl,
    MARKET_SOURCE: 'kalshi',
    KALSHI_BASE_URL: where.venue.url,
    KALSHI_WS_URL: where.venue.url.replace('http', 'ws').replace('/v2', '/ws/v2'),
    KALSHI_SERIES: 'KXHIGHNY',
    KALSHI_KEY_ID: 'member-key',
    KALSHI_PRIVATE_KEY_FILE: keyFile,
    // No weather data is read, because nothing listens at either URL.
    FORECAST_SOURCE: 'http',
    MODEL_URL: closed,
    NWS_BASE_URL: closed,
    LIVE_TRADING: 'on',
    LIVE_TRADING_ORG: where.slug,
    LIMIT_TRADING_PER_MINUTE: '1000000',
    REFRESH_SECONDS: '2',
    TEST_CLOCK: `${where.startedMs},${speed}`,
    TEST_LIVE_TIMINGS: JSON.stringify(timings),
  };
}

/** Restarts the server after each kill. */
function createServerKeeper(env: Record<string, string>, db: Database) {
  let server: ServerProcess | undefined;
  let restarting: Promise<void> = Promise.resolve();
  async function killAndStart(): Promise<void> {
    if (!server?.isRunning) return;
    keeper.kills++;
    await server.end('SIGKILL');
    await expireLeases(db);
    await keeper.start();
  }
  const keeper = {
    kills: 0,
    async start(): Promise<void> {
      server = startServerProcess(env);
      await server.ready;
    },
    kill(): void {
      restarting = restarting.then(killAndStart);
    },
    settled: () => restarting,
    async stop(): Promise<void> {
      await restarting.catch(() => undefined);
      if (server?.isRunning) await server.end('SIGKILL');
    },
    async restart(): Promise<void> {
      await server!.end('SIGTERM');
      await keeper.start();
    },
  };
  return keeper;
}

/** Expires all job leases; a killed instance's leases would otherwise last for another 90 s. */
const expireLeases = (db: Database) =>
  db.orm.execute(sql`update job_leases set until = now() - interval '1 second'`);

/** Simulates other members who trade with resting orders, and occasionally disconnects the stream. */
function startCrowd(exchange: StrictExchange, venue: FakeVenue, random: Random) {
  let disconnects = 0;
  const timer = setInterval(() => {
    const resting = exchange.orders.filter(({ status }) => status === 'resting');
    if (resting.length > 0 && random.chance(0.05)) exchange.fillResting(random.pick(resting));
    if (random.chance(0.01)) {
      disconnects++;
      venue.stream.disconnect();
    }
  }, 100);
  return {
    stop(): number {
      clearInterval(timer);
      return disconnects;
    },
  };
}

interface TradeWork {
  exchange: StrictExchange;
  tickers: readonly string[];
  counts: { placed: number; refused: Record<string, number> };
  random: Random;
}

async function trade(
  account: Account,
  { orders, onProgress }: LiveFaultOptions,
  work: TradeWork,
): Promise<void> {
  const { exchange, tickers, counts, random } = work;
  // Some orders are refused, and some never reach the venue, most often on a slow machine.
  while (exchange.arrivals.size < orders && counts.placed < 10 * orders) {
    const n = ++counts.placed;
    const i = random.between(0, tickers.length - 1);
    // Trades only one side of each market, so that our orders never match each other.
    const side = i % 2 === 0 ? 'yes' : 'no';
    const [best, behind, bid] =
      side === 'yes' ? ['0.4500', '0.4300', '0.4400'] : ['0.5600', '0.5400', '0.5500'];
    const kind = random.pick(['take', 'rest', 'rest', 'rest', 'rest', 'sell'] as const);
    const body = {
      mode: 'live',
      ticker: tickers[i],
      side,
      action: kind === 'sell' ? 'sell' : 'buy',
      contracts: random.between(1, 500) / 100,
      limitPrice: kind === 'take' ? best : kind === 'rest' ? behind : bid,
      timeInForce: kind === 'rest' ? 'good_till_cancelled' : 'immediate_or_cancel',
    };
    const answer = await request(account, 'POST', '/trade', body, `order-${n}`);
    if (answer.status >= 400) {
      counts.refused[answer.body.code ?? answer.status] =
        (counts.refused[answer.body.code ?? answer.status] ?? 0) + 1;
      continue;
    }
    onProgress?.(`${n} orders · ${exchange.arrivals.size} arrived · ${exchange.fills.length} fills`);
    const { id, remainingContracts: left = 0 } = answer.body.trade!;
    if (kind !== 'rest' || left === 0) continue;
    await sleep(random.between(0, 50));
    if (random.chance(0.6) && left > 0.02)
      await request(account, 'POST', `/trades/${id}/decrease`, {
        remainingContracts: Math.max(1, Math.floor(left * 50)) / 100,
      });
    if (random.chance(0.9)) await request(account, 'DELETE', `/trades/${id}`);
  }
}

interface Answer {
  status: number;
  body: { code?: string; trade?: { id: string; remainingContracts?: number } };
}

/** Repeats a request while the service is down, busy or still resolving an unknown outcome. */
async function request(
  { url, secret, patienceMs }: Account,
  method: string,
  path: string,
  body?: object,
  idempotencyKey?: string,
): Promise<Answer> {
  const giveUpAt = Date.now() + patienceMs;
  for (;;) {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${secret}`,
        ...(body && { 'content-type': 'application/json' }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
      ...(body && { body: JSON.stringify(body) }),
    }).then(
      async (response): Promise<Answer> => ({
        status: response.status,
        body: (await response.json().catch(() => ({}))) as Answer['body'],
      }),
      (): Answer => ({ status: 599, body: { code: 'cut off' } }),
    );
    if (answer.status < 500 || Date.now() > giveUpAt) return answer;
    await sleep(100);
  }
}

/**
 * Cancels resting orders and waits until no outcome is unknown. Resolves to a description of the problem if that takes
 * too long.
 */
async function settle(
  account: Account,
  server: ReturnType<typeof createServerKeeper>,
  db: Database,
  now: () => number,
): Promise<string | undefined> {
  const giveUpAt = Date.now() + SETTLE_MS;
  let open: { id: string; status: string; unknown: boolean; age: number }[] = [];
  for (let round = 0; Date.now() < giveUpAt; round++) {
    open = await selectRows(
      db.orm,
      sql`select id, status, unknown_since is not null as unknown, ${now() / 1000}::float8 - extract(epoch from created_at)::float8 as age
        from trading_orders where org_id = ${account.orgId}::uuid and status in ('pending', 'resting') limit 500`,
    );
    if (open.length === 0) {
      // The restarted instance compares both sides once more.
      await server.restart();
      return undefined;
    }
    for (const { id } of open.filter(({ status }) => status === 'resting'))
      await request(account, 'DELETE', `/trades/${id}`);
    // On startup, an instance recovers orders whose outcome has been unknown for more than a minute.
    const isDue = open.every(({ status, unknown, age }) => (status === 'resting' && !unknown) || age > 61);
    // Restarts only every tenth round, because each start reconciles, which takes a while.
    if (round % 10 === 1 && isDue) await server.restart();
    await sleep(500);
  }
  return `${open.length} orders stay open: ${JSON.stringify(open.slice(0, 5))}`;
}
