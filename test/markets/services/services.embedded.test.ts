import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { bookingJobs, tradingJobs } from '../../../src/markets/services/services.js';
import { openTapePlayer } from '../../../src/markets/tape/player.js';
import { readTape } from '../../../src/markets/tape/reader.js';
import { createTrader, postTrade } from '../support/trade.js';
import { startTestService } from '../../support/service.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();

const folder = mkdtempSync(join(tmpdir(), 'gauge-taped-'));
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
});

const namesOf = (jobs: readonly { name: string }[]) => jobs.map(({ name }) => name);

it('a tape has the prints after a paper fill that the mark of the fill used', async () => {
  const file = join(folder, 'day.tape.gz');
  const service = await startTestService(database.db, { env: { TAPE_FILE: file } });
  const { trading, clock } = service;
  await trading.refresher.refresh();
  const { books } = trading.snapshots.current!.data;
  const [ticker, book] = [...books].find(([, { yes, no }]) => yes.length > 0 && no.length > 0)!;
  const { secret } = await createTrader(database.db);
  const limitPrice = (100 - Number(book.no[0]!.price) / 10_000) / 100;
  const placed = await postTrade(service.url, secret, { ticker, limitPrice: limitPrice.toFixed(2) });
  expect(placed.trade?.filledContracts).toBeGreaterThan(0);
  const filledAt = clock.now();
  for (let i = 0; i < 3; i++) {
    clock.advance(30_000);
    await trading.refresher.refresh();
  }
  expect(await trading.marker.mark()).toBeGreaterThan(0);
  clock.advance(30_000);
  await trading.refresher.refresh();
  expect(namesOf(tradingJobs(service.context, trading))).toContain('tape-prints');
  await trading.printFollower!.follow();
  await service.stop();
  const reads = [];
  for await (const { prints } of readTape(file)) reads.push(...prints);
  expect(
    reads.map(({ tickers, since, until }) => [tickers, since.getTime(), until.getTime()]),
  ).toContainEqual([[ticker], filledAt, filledAt + 90_000]);
  const replay = await openTapePlayer({ path: file, speed: Infinity });
  const replayed = await startTestService(database.db, {
    trading: { replay },
    context: { clock: replay.clock },
  });
  expect(replayed.trading.printFollower).toBeUndefined();
  expect(namesOf(bookingJobs(replayed.trading))).not.toContain('mark-fills');
  expect(namesOf(bookingJobs(trading))).toEqual(expect.arrayContaining(['mark-fills', 'backfill-forecasts']));
  // While a demo's past is filled in, prices follow no forecast yet, and too little is known to learn from.
  const afterPast = ['train-forecasts', 'record-prices'];
  expect(namesOf(bookingJobs(trading))).toEqual(expect.arrayContaining(afterPast));
  expect(namesOf(tradingJobs(service.context, trading))).not.toEqual(
    expect.arrayContaining(['record-prices']),
  );
  for (const name of afterPast) expect(namesOf(bookingJobs(replayed.trading))).not.toContain(name);
  await replayed.stop();
});
