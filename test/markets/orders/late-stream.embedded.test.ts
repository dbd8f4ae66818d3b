import { afterAll, afterEach, expect, it, vi } from 'vitest';
import { AppError } from '../../../src/core/errors.js';
import { asksOf } from '../../../src/markets/market/book.js';
import { parseDollars } from '../../../src/markets/market/money.js';
import { useDatabase } from '../../support/use.js';
import {
  openLiveAccount,
  removeKeys,
  restingTerms,
  TICKER,
  type LiveAccount,
} from '../support/live-account.js';

const database = useDatabase();
let account: LiveAccount;
afterEach(() => account.stop());
afterAll(removeKeys);

/** Asks in cents at which takers bought in a row in KXHIGHNY-25APR15-B68.5, the liveliest market of five cities. */
const asks = [
  41, 40, 42, 39, 59, 60, 53, 58, 55, 52, 54, 55, 54, 59, 60, 69, 73, 72, 70, 71, 72, 70, 69, 68, 67, 65, 74,
  72, 71, 75, 78, 75, 56, 57, 56, 40, 39, 37, 38, 37, 38, 37, 38, 29, 36, 38, 41, 40, 42, 39, 59, 60, 53, 58,
  55, 52, 54, 55, 54, 59,
];
const STEP_MS = 750;
const dollars = (cents: number) => (cents / 100).toFixed(4);
const book = () => account.service.trading.snapshots.current!.data;
const askInCents = () => Number(asksOf(book().books.get(TICKER)!, 'yes')[0]?.price ?? 0n) / 10_000;

/** Plays the asks to a service whose stream is behind, and buys on paper from the first message on. */
async function play(lagMs: number): Promise<{ fills: number; tooCheap: number; refused: string[] }> {
  account = await openLiveAccount(database.db, { withStream: true });
  const { venue, service } = account;
  const { clock, trading } = service;
  venue.stream.sendingTime = () => clock.now();
  await vi.waitUntil(() => venue.stream.sids().length > 0 && !book().doubts?.size, { timeout: 600_000 });
  const { yes_dollars: yes, no_dollars: no } = venue.books.get(TICKER)!;
  for (const [price, contracts] of yes!) venue.stream.change(TICKER, 'yes', price, `-${contracts}`);
  for (const [price, contracts] of no!) venue.stream.change(TICKER, 'no', price, `-${contracts}`);
  venue.stream.change(TICKER, 'yes', '0.0100', '500.00');
  venue.stream.change(TICKER, 'no', dollars(100 - asks[0]!), '500.00');
  await trading.refresher.refresh();
  await vi.waitUntil(() => !book().doubts?.size && askInCents() === asks[0], { timeout: 600_000 });
  const waiting: { dueMs: number; ask?: number; deliver: () => void }[] = [];
  venue.stream.fault = (frame, send) => {
    const sent = { ...frame, sending_ts_ms: clock.now() };
    waiting.push({ dueMs: clock.now() + lagMs, deliver: () => send(sent) });
  };
  const result = { fills: 0, tooCheap: 0, refused: [] as string[] };
  let shown = asks[0]!;
  for (const [i, ask] of asks.entries()) {
    const before = asks[i - 1];
    clock.advance(STEP_MS);
    if (before !== undefined && before !== ask) {
      venue.stream.change(TICKER, 'no', dollars(100 - before), '-500.00');
      venue.stream.change(TICKER, 'no', dollars(100 - ask), '500.00');
      waiting.at(-1)!.ask = ask;
    }
    while (waiting[0] && waiting[0].dueMs <= clock.now()) {
      const { ask: next, deliver } = waiting.shift()!;
      deliver();
      shown = next ?? shown;
    }
    await vi.waitUntil(() => (lagMs > 0 && book().doubts?.has(TICKER)) || askInCents() === shown, {
      timeout: 600_000,
    });
    if (i % 30 === 29) await trading.refresher.refresh();
    // The first change is at the second ask.
    if (lagMs > 0 && (i - 1) * STEP_MS < lagMs) continue;
    const bought = { mode: 'paper', contracts: 1, limitPrice: parseDollars(dollars(shown)) } as const;
    const placed = await account.place(bought).catch((error: unknown) => error as AppError);
    if (placed instanceof AppError) result.refused.push(placed.code);
    else {
      result.fills += placed.fills.length;
      const lowest = Math.min(...asks.slice(Math.max(0, i - 2), i + 1));
      if (placed.fills.some(({ price }) => price < parseDollars(dollars(lowest)))) result.tooCheap++;
    }
  }
  return result;
}

it('no paper fill lies below every ask of the last 1.5 s, although messages are 20 s behind', async () => {
  const { fills, tooCheap, refused } = await play(20_000);
  expect({ fills, tooCheap }).toEqual({ fills: 0, tooCheap: 0 });
  expect(refused).toHaveLength(32);
  expect(new Set(refused)).toEqual(new Set(['market_data_stale']));
  // A resting order cannot take from the late book either.
  await expect(account.rest({ mode: 'paper' })).rejects.toMatchObject({ code: 'market_data_stale' });
});

it('every order fills at the current ask while the stream is current', async () => {
  expect(await play(0)).toEqual({ fills: 60, tooCheap: 0, refused: [] });
  const resting = await account.rest({ ...restingTerms, mode: 'paper' });
  expect(resting.status).toBe('resting');
});
