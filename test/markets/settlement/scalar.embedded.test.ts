import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Market } from '../../../src/markets/market/market.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import { checkLedger } from '../../../src/markets/portfolio/ledger-check.js';
import { listSettlementEvents } from '../../../src/markets/portfolio/history-queries.js';
import { toSettlementView } from '../../../src/markets/pages/order-view.js';
import { doubtAbout } from '../../../src/markets/settlement/settlement-event.js';
import { findPlace } from '../../../src/markets/market/stations.js';
import { type TestDatabase } from '../../support/database.js';
import { createOrganization } from '../../support/fixtures.js';
import { type TestService } from '../../support/service.js';
import {
  bookedOf,
  AFTER_CLOSE,
  startSettlement,
  type TestVenue,
  cashOf,
  makeMarket,
  buy,
  wordsOf,
} from '../support/settlement.js';

let database: TestDatabase;
let service: TestService;
let venue: TestVenue;
let stop: () => Promise<void>;
beforeAll(async () => {
  ({ database, service, venue, stop } = await startSettlement());
});
afterAll(() => stop());
beforeEach(() => {
  service.clock.set(AFTER_CLOSE);
});

const daily = {
  kind: 'daily_maximum',
  settlement: { source: 'The Weather Company', rulesText: '' },
} as const;

async function say(change: Partial<Market>) {
  venue.listed = [makeMarket({ ...daily, ...change })];
  service.clock.advance(6 * 60_000);
  await service.trading.refresher.refresh();
  return service.trading.settlement.settle();
}

async function whyOf(orgId: string, snapshot = service.trading.snapshots.current) {
  const words = await listSettlementEvents(database.db.orm, orgId, {
    mode: 'paper',
    after: undefined,
    limit: 10,
  });
  return words.map((word) => toSettlementView(word, snapshot).why.full);
}

it('without data, YES is paid the last fair price and NO the rest of the dollar', async () => {
  const [yes, no] = [await createOrganization(database.db), await createOrganization(database.db)];
  const ticker = 'KXHIGHNY-26JUL04-B84.5';
  await buy(database.db, { orgId: yes.id, ticker, contracts: 10, price: 42n * CENT });
  await buy(database.db, { orgId: no.id, ticker, side: 'no', contracts: 10, price: 50n * CENT });
  const before = [await cashOf(database.db, yes.id), await cashOf(database.db, no.id)];
  const fair = 37n * CENT;
  await say({ ticker, status: 'determined', settlementValue: fair });
  expect(await cashOf(database.db, yes.id)).toBe(before[0]);
  expect(await whyOf(yes.id)).toEqual([
    'To be settled at the last fair price of 37¢: YES of 84° to 85° pays that, and NO pays the rest of the dollar.',
  ]);
  // No money moves while the result is disputed.
  await say({ ticker, status: 'disputed', settlementValue: fair });
  await say({ ticker, status: 'finalized', settlementValue: fair });
  expect(await cashOf(database.db, yes.id)).toBe(before[0]! + 10n * fair);
  expect(await cashOf(database.db, no.id)).toBe(before[1]! + 10n * (DOLLAR - fair));
  expect((await wordsOf(database.db, yes.id)).map(([state]) => state)).toEqual([
    'determined',
    'disputed',
    'finalized',
  ]);
  expect((await whyOf(no.id))[0]).toBe(
    'Settled at the last fair price of 37¢: YES of 84° to 85° pays that, and NO pays the rest of the dollar.',
  );
  // The missing data arrived after all.
  await say({ ticker, status: 'finalized', settlementValue: DOLLAR, settledTemperature: 85 });
  expect(await cashOf(database.db, yes.id)).toBe(before[0]! + 10n * DOLLAR);
  expect(await cashOf(database.db, no.id)).toBe(before[1]!);
  expect((await bookedOf(database.db, yes.id)).map(([kind]) => kind)).toEqual(['settlement', 'correction']);
  expect((await whyOf(yes.id))[0]).toBe('The Weather Company says 85°F: each YES of 84° to 85° pays 100¢.');
  expect(await checkLedger(database.db.orm, {}, 10)).toEqual([]);
});

it('the hundredths of an hourly index are kept, with their source', async () => {
  const { id: orgId } = await createOrganization(database.db);
  const hour = {
    ticker: 'KXTEMPMIAH-26SEP1312-T89.99',
    eventTicker: 'KXTEMPMIAH-26SEP1312',
    kind: 'hourly',
    station: findPlace('INDEX-MIAMI')!,
    date: '2026-09-13',
    hour: 12,
    bracket: { kind: 'greater', floor: 89.99, cap: null, step: 0.01 },
    settlement: { source: 'Kalshi Weather Index', rulesText: '' },
  } as const;
  await buy(database.db, { orgId, ticker: hour.ticker, contracts: 2, price: 40n * CENT });
  await say({ ...hour, status: 'finalized', settlementValue: DOLLAR, settledTemperature: 90.01 });
  expect(await whyOf(orgId)).toEqual([
    'The Kalshi Weather Index says 90.01°F: each YES of 90° or above pays 100¢.',
  ]);
  // The next pass has nothing to do.
  expect(
    await say({ ...hour, status: 'finalized', settlementValue: DOLLAR, settledTemperature: 90.01 }),
  ).toMatchObject({ events: 0, failed: 0 });
});

it('a settlement names the source of its day even when its market is no longer listed', async () => {
  for (const [ticker, sayer] of [
    ['KXHIGHNY-26AUG13-B84.5', 'The report of the National Weather Service'],
    ['KXHIGHNY-26AUG14-B84.5', 'The Weather Company'],
    ['KXLOWTCHI-26SEP25-B84.5', 'The Weather Company'],
    ['KXUNKNOWN-26SEP25-B84.5', 'The report'],
  ] as const) {
    const { id: orgId } = await createOrganization(database.db);
    await buy(database.db, { orgId, ticker, contracts: 1, price: 40n * CENT });
    await say({ ticker, status: 'finalized', settlementValue: DOLLAR, settledTemperature: 84 });
    expect((await whyOf(orgId, { markets: new Map() } as never))[0]).toBe(
      `${sayer} says 84°F: each YES of 84° to 85° pays 100¢.`,
    );
  }
});

it('a last fair price beside a reported temperature calls for a review by a person', () => {
  const market = makeMarket({ ...daily, status: 'finalized', settlementValue: 37n * CENT });
  expect(doubtAbout(market)).toBeUndefined();
  expect(doubtAbout({ ...market, settledTemperature: 84 })).toContain('last fair price');
});
