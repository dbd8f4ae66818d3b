import { setTimeout as sleep } from 'node:timers/promises';
import { v4 as uuid } from 'uuid';
import { z } from 'zod';
import { MINUTE_MS, type Clock } from '../../core/time.js';
import { parseHundredths } from '../market/contracts.js';
import { CENT, DOLLAR, formatDollars, parseDollars, type Micros } from '../market/money.js';
import type { LiveOrder, VenueFill } from '../orders/order.js';
import { readMarketPages, type KalshiClient } from '../venue/kalshi-client.js';
import { dollars } from '../venue/kalshi-schema.js';
import { requireWhole } from '../venue/rows.js';
import { readAnswer, readChange, readFailure } from './answer.js';
import { findVenueStatus, type VenueStatus } from './order-status.js';
import type { Venue } from './venue.js';
import { toWireOrder } from './wire.js';

const hosts = new Set(['external-api.demo.kalshi.co', 'demo-api.kalshi.co']);

/** The venue's demo environment uses play money. */
export function isDemoUrl(baseUrl: string): boolean {
  if (!URL.canParse(baseUrl)) return false;
  const { protocol, host, username, password, pathname, search, hash } = new URL(baseUrl);
  const isPlain = [username, password, search, hash].every((part) => part === '');
  return protocol === 'https:' && hosts.has(host) && isPlain && pathname === '/trade-api/v2';
}

export interface DemoStep {
  name: string;
  isGood: boolean;
  detail: string;
  ms: number;
}

interface DemoDeps {
  venue: Venue;
  client: KalshiClient;
  clock: Clock;
  onStep: (step: DemoStep) => void;
  /** The venue may not list something yet. */
  pausesMs?: readonly number[];
}

/** The message is for the person who started the run. */
export class DemoRunError extends Error {
  override name = 'DemoRunError';
}

type Order = LiveOrder & { timeInForce: 'good_till_time' | 'immediate_or_cancel' };

/** The run may be killed. */
const LIFETIME_MS = 5 * MINUTE_MS;
const usualPausesMs = [0, 250, 500, 1_000, 2_000, 4_000];
const marketSchema = z.object({
  ticker: z.string(),
  yes_bid_dollars: dollars,
  yes_ask_dollars: dollars,
});

/**
 * One order rests, is decreased and is cancelled; another fills. The account must then differ by that fill alone.
 * @throws DemoRunError, UnexpectedAnswerError, VenueUnavailableError
 */
export async function runDemo(deps: DemoDeps, series: string, signal: AbortSignal): Promise<DemoStep[]> {
  const { venue, clock, onStep } = deps;
  const steps: DemoStep[] = [];
  async function step<T>(name: string, work: () => Promise<{ detail: string; value: T }>): Promise<T> {
    const startedAt = performance.now();
    const end = (isGood: boolean, detail: string) => {
      const ended = { name, isGood, detail, ms: Math.round(performance.now() - startedAt) };
      steps.push(ended);
      onStep(ended);
    };
    try {
      const { detail, value } = await work();
      end(true, detail);
      return value;
    } catch (error) {
      end(false, error instanceof Error ? error.message : String(error));
      throw error;
    }
  }

  const before = await step('Read the account', async () => {
    const value = await readAccount(venue, signal);
    return { value, detail: `$${formatDollars(value.cash)}, ${value.resting.length} resting orders` };
  });
  const market = await step('Choose a market', async () => {
    const value = await chooseMarket(deps.client, clock, series, signal);
    return { value, detail: `${value.ticker}, YES at ${formatDollars(value.ask)}` };
  });
  const bid = orderOf(market.ticker, CENT, clock, 'good_till_time');
  try {
    const venueOrderId = await step('Place an order that rests', async () => {
      const id = await place(deps, bid, signal);
      return { value: id, detail: `1 YES at $0.01, ${id}` };
    });
    await step('Find it in the book', async () => {
      await expectRemaining(deps, bid, 1, signal);
      const ahead = (await venue.listQueuePositions([market.ticker], signal)).get(venueOrderId);
      return { value: ahead, detail: `1 contract, ${ahead ?? 'an unknown number of'} ahead of it` };
    });
    await step('Decrease it', async () => {
      await venue.takeTurn(signal);
      requireTaken(
        readChange(
          await venue.decreaseOrder({ venueOrderId, ticker: market.ticker }, REMAINING),
          venueOrderId,
        ),
      );
      await expectRemaining(deps, bid, REMAINING, signal);
      return { value: undefined, detail: `${REMAINING} contracts left` };
    });
    await step('Cancel it', async () => {
      await venue.takeTurn(signal);
      requireTaken(
        readChange(await venue.cancelOrder({ venueOrderId, ticker: market.ticker }), venueOrderId),
      );
      const fills = await expectEnd(deps, bid, signal);
      if (fills.length > 0) throw new DemoRunError('it filled before it was cancelled; start the run again');
      return { value: undefined, detail: 'nothing filled' };
    });
  } catch (error) {
    await withdrawQuietly(deps, bid);
    throw error;
  }
  const fills = await step('Fill an order at once', async () => {
    const taker = orderOf(market.ticker, market.ask, clock, 'immediate_or_cancel');
    await place(deps, taker, signal);
    const value = await expectEnd(deps, taker, signal);
    if (value.length === 0)
      throw new DemoRunError('nobody sold at the price that the market showed; start the run again');
    const paid = value.map((fill) => `${fill.contracts} at $${formatDollars(fill.price)}`).join(', ');
    return { value, detail: paid };
  });
  await step('Reconcile the account', async () => {
    const detail = await reconcileDemo(deps, { before, fills, ticker: market.ticker }, signal);
    return { value: undefined, detail };
  });
  return steps;
}

const REMAINING = 0.5;

interface Account {
  cash: Micros;
  step: Micros;
  /** Hundredths by market; negative for NO. */
  positions: ReadonlyMap<string, number>;
  resting: readonly string[];
}

async function readAccount(venue: Venue, signal: AbortSignal): Promise<Account> {
  const { amount: cash, step } = await venue.readBalance(signal);
  const positions = requireWhole('positions', await venue.listPositions(signal));
  const resting = requireWhole('orders', await venue.listOrders({ status: 'resting' }, signal));
  return {
    cash,
    step,
    positions: new Map(positions.map(({ ticker, position_fp: count }) => [ticker, parseHundredths(count)])),
    resting: resting.map(({ order_id: id }) => id).toSorted(),
  };
}

async function chooseMarket(client: KalshiClient, clock: Clock, series: string, signal: AbortSignal) {
  const found = await readMarketPages(
    client,
    '/markets',
    [
      ['series_ticker', series],
      ['status', 'open'],
      ['min_close_ts', Math.floor((clock.now() + LIFETIME_MS) / 1000)],
    ],
    signal,
  );
  for (const value of found) {
    const market = marketSchema.safeParse(value).data;
    if (!market) continue;
    const [yesBid, ask] = [parseDollars(market.yes_bid_dollars), parseDollars(market.yes_ask_dollars)];
    // Our one-cent order must rest behind the bids of others.
    if (yesBid > CENT && ask > yesBid && ask < DOLLAR) return { ticker: market.ticker, ask };
  }
  throw new DemoRunError(`no open market of ${series} has bids and asks; try another series`);
}

function orderOf(ticker: string, limitPrice: Micros, clock: Clock, timeInForce: Order['timeInForce']): Order {
  const id = uuid();
  const createdAt = new Date(clock.now());
  const rests = timeInForce === 'good_till_time';
  return {
    orgId: id,
    id,
    clientOrderId: id,
    ticker,
    side: 'yes',
    action: 'buy',
    contracts: 1,
    limitPrice,
    timeInForce,
    ...(rests && {
      rest: { expiresAt: new Date(createdAt.getTime() + LIFETIME_MS), postOnly: true, cancelOn: [] },
    }),
    createdAt,
    feeRule: { type: 'quadratic', multiplier: 1_000_000n },
  };
}

/** If the response is lost, looks up whether the order arrived. */
async function place(deps: DemoDeps, order: Order, signal: AbortSignal): Promise<string> {
  await deps.venue.takeTurn(signal);
  const verdict = await deps.venue.createOrder(toWireOrder(order)).then(
    (answer) => readAnswer(answer, order),
    (error: unknown) => readFailure(error),
  );
  if (verdict.kind === 'accepted') return verdict.venueOrderId;
  if (verdict.kind === 'refused' || verdict.kind === 'killed')
    throw new DemoRunError(`the venue refused it: ${verdict.reason}`);
  const found = await lookUp(deps, order, (status) => status.kind !== 'absent', signal);
  if (found.kind === 'resting' || found.kind === 'final') return found.outcome.venueOrderId!;
  throw new DemoRunError(`its outcome is unknown: ${verdict.reason}`);
}

function requireTaken(verdict: ReturnType<typeof readChange>): void {
  if (verdict.kind !== 'acknowledged') throw new DemoRunError(`the venue did not take it: ${verdict.reason}`);
}

async function lookUp(
  { venue, clock, pausesMs = usualPausesMs }: DemoDeps,
  order: Order,
  isIt: (status: VenueStatus) => boolean,
  signal: AbortSignal,
): Promise<VenueStatus> {
  const deps = { venue, now: () => clock.now(), fillPausesMs: pausesMs };
  let found: VenueStatus = { kind: 'absent' };
  for (const pauseMs of pausesMs) {
    await sleep(pauseMs, undefined, { signal });
    found = await findVenueStatus(deps, order, signal);
    if (isIt(found)) return found;
  }
  return found;
}

async function expectRemaining(deps: DemoDeps, order: Order, remaining: number, signal: AbortSignal) {
  const isIt = (status: VenueStatus) => status.kind === 'resting' && status.remaining === remaining;
  const found = await lookUp(deps, order, isIt, signal);
  if (!isIt(found)) throw new DemoRunError(`the venue shows it as ${found.kind}, not with ${remaining} left`);
}

async function expectEnd(deps: DemoDeps, order: Order, signal: AbortSignal): Promise<VenueFill[]> {
  const found = await lookUp(deps, order, ({ kind }) => kind === 'final', signal);
  if (found.kind !== 'final') throw new DemoRunError(`the venue shows it as ${found.kind}, not as ended`);
  return found.outcome.fills;
}

/** If the cancellation fails too, the order expires. */
async function withdrawQuietly(deps: DemoDeps, order: Order): Promise<void> {
  const signal = AbortSignal.timeout(10_000);
  try {
    const found = await findVenueStatus(
      { venue: deps.venue, now: () => deps.clock.now(), fillPausesMs: [] },
      order,
      signal,
    );
    if (found.kind !== 'resting') return;
    const { venueOrderId } = found.outcome;
    await deps.venue.takeTurn(signal);
    await deps.venue.cancelOrder({ venueOrderId, ticker: order.ticker });
  } catch {
    // The original failure is reported instead.
  }
}

async function reconcileDemo(
  deps: DemoDeps,
  { before, fills, ticker }: { before: Account; fills: readonly VenueFill[]; ticker: string },
  signal: AbortSignal,
): Promise<string> {
  let problem = '';
  for (const pauseMs of deps.pausesMs ?? usualPausesMs) {
    await sleep(pauseMs, undefined, { signal });
    const after = await readAccount(deps.venue, signal);
    problem = compare(before, after, fills, ticker);
    if (problem === '') return 'cash and positions differ by the fill alone, to the last digit';
  }
  throw new DemoRunError(problem);
}

function compare(before: Account, after: Account, fills: readonly VenueFill[], ticker: string): string {
  const hundredths = (contracts: number) => parseHundredths(contracts.toFixed(2));
  const bought = fills.reduce((sum, { contracts }) => sum + hundredths(contracts), 0);
  const cost = fills.reduce(
    (sum, { price, contracts, fee }) => sum + (price * BigInt(hundredths(contracts))) / 100n + fee,
    0n,
  );
  const expected = new Map(before.positions).set(ticker, (before.positions.get(ticker) ?? 0) + bought);
  for (const market of new Set([...expected.keys(), ...after.positions.keys()]))
    if ((expected.get(market) ?? 0) !== (after.positions.get(market) ?? 0))
      return `the venue holds ${(after.positions.get(market) ?? 0) / 100} contracts of ${market} instead of ${(expected.get(market) ?? 0) / 100}`;
  if (before.resting.join() !== after.resting.join()) return 'the resting orders are not those from before';
  // Closing NO contracts receives a dollar for each pair.
  const pairs = Math.min(bought, Math.max(0, -(before.positions.get(ticker) ?? 0)));
  const cash = before.cash - cost + (DOLLAR * BigInt(pairs)) / 100n;
  const gap = after.cash > cash ? after.cash - cash : cash - after.cash;
  const allowed = after.step > 1n ? after.step : 0n;
  return gap > allowed
    ? `the venue has $${formatDollars(after.cash)} instead of $${formatDollars(cash)}`
    : '';
}

export function demoReportText(steps: readonly DemoStep[]): string {
  const width = Math.max(...steps.map(({ name }) => name.length));
  const lines = steps.map(
    ({ name, isGood, detail, ms }) =>
      `${isGood ? 'ok    ' : 'FAILED'}  ${name.padEnd(width)}  ${String(ms).padStart(6)} ms  ${detail}`,
  );
  return `${lines.join('\n')}\n`;
}
