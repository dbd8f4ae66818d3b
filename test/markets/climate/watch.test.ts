import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { climateProducts } from '../../../src/markets/climate/table.js';
import { readObserved } from '../../../src/markets/climate/queries.js';
import { createClimateReader, type ClimateReader } from '../../../src/markets/climate/product.js';
import { createLifecycle } from '../../../src/core/http/context.js';
import { createClimateWatch, type ClimateWatch } from '../../../src/markets/climate/watch.js';
import type { MarketEvent } from '../../../src/markets/market/event.js';
import type { Market } from '../../../src/markets/market/market.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';
import { jobLeases } from '../../../src/markets/ledger/risk-table.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { climateText } from '../support/climate-texts.js';
import { startFakeWeather, type FakeWeather, type Product } from '../support/forecast-fake-weather.js';
import { useDatabase } from '../../support/use.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const database = useDatabase();
let fake: FakeWeather;
let watch: ClimateWatch;
let now = 0;
let current: Snapshot | undefined;
beforeAll(async () => {
  fake = await startFakeWeather();
});
afterAll(async () => {
  await fake.stop();
});
beforeEach(async () => {
  await watch?.stop();
  await database.db.orm.delete(climateProducts);
  await database.db.orm.delete(jobLeases);
  Object.assign(fake, { products: new Map(), fault: undefined, requests: [] });
  current = undefined;
  watch = makeWatch();
  // Ten minutes before Miami's climate day of 29 August ends, at 05:00Z.
  now = Date.parse('2026-08-30T04:50:00Z');
});

/** Returns a reader that queries only the stations for which the test added a report. */
function readReporting(): ClimateReader {
  const reader = createClimateReader({ baseUrl: fake.url });
  return {
    ...reader,
    list: (station, signal) =>
      fake.products.has(station.report.slice(3)) ? reader.list(station, signal) : Promise.resolve([]),
  };
}

const makeWatch = (reader = readReporting()) =>
  createClimateWatch({
    reader,
    db: database.db,
    lifecycle: createLifecycle(),
    snapshots: {
      get current() {
        return current;
      },
    },
    clock: { now: () => now },
    log: pino({ level: 'silent' }),
  });

let products = 0;
const product = (
  location: string,
  time: string,
  text: Partial<Parameters<typeof climateText>[0]>,
): Product => ({
  id: `product-${++products}`,
  issuanceTime: `2026-08-${time}:00+00:00`,
  productText: climateText({
    report: `CLI${location}`,
    issued: time.replace(/[T:]/g, ''),
    date: 'AUGUST 29 2026',
    ...text,
  }),
});

const add = (location: string, ...added: Product[]) =>
  fake.products.set(location, [...(fake.products.get(location) ?? []), ...added]);

/** Runs the watch every ten minutes until the given time. Reports appear when they are issued. */
async function runUntil(time: string) {
  const all = new Map(fake.products);
  for (const end = Date.parse(`2026-08-${time}:00Z`); now <= end; now += 10 * MINUTE_MS) {
    fake.products = new Map(
      [...all].map(([location, list]) => [
        location,
        list.filter(({ issuanceTime }) => Date.parse(issuanceTime) <= now),
      ]),
    );
    await watch.run();
  }
  fake.products = all;
}

const rows = async () =>
  (await database.db.orm.select().from(climateProducts))
    .filter(({ stage }) => stage !== 'preliminary')
    .map(({ station, kind, date, issuedAt, value, isFirstFinal, settled }) =>
      [station, kind, date, issuedAt.toISOString().slice(8, 16), value, isFirstFinal, settled].join(' '),
    )
    .sort();

/** Stores days that the venue has settled. */
function settle(days: { id: string; kind?: Market['kind']; date?: string; temperature: number | null }[]) {
  const events = days.map(({ id, kind = 'daily_maximum', date = '2026-08-29', temperature }): MarketEvent => {
    const market = { status: 'finalized', settledTemperature: temperature } as Market;
    return { eventTicker: '', kind, station: findStation(id)!, date, markets: [market, market] };
  });
  current = { events } as unknown as Snapshot;
}

it('Miami, 29 August 2026: the venue paid the first final report, and its correction is not a disagreement', async () => {
  add(
    'MIA',
    product('MIA', '29T20:24', { maximum: '88', valid: 'VALID TODAY AS OF 0400 PM LOCAL TIME.' }),
    product('MIA', '30T08:24', { maximum: '90', minimum: '78' }),
    product('MIA', '30T09:10', { issued: '300910 CCA', maximum: '85', minimum: '78' }),
  );
  await runUntil('30T11:40');
  expect(await rows()).toEqual([
    'KMIA daily_maximum 2026-08-29 30T08:24 90 true ',
    'KMIA daily_maximum 2026-08-29 30T09:10 85 false ',
    'KMIA daily_minimum 2026-08-29 30T08:24 78 true ',
    'KMIA daily_minimum 2026-08-29 30T09:10 78 false ',
  ]);
  expect(watch.crossChecks).toEqual(new Map());
  settle([{ id: 'KMIA', temperature: 90 }]);
  await watch.run();
  expect(watch.crossChecks).toEqual(
    new Map([
      ['KMIA', { daily_maximum: { compared: 1, agreed: 1, since: '2026-08-29', disagreements: [] } }],
    ]),
  );
});

it('a disagreement shows both values, and disappears when the venue amends its settlement', async () => {
  add(
    'MIA',
    product('MIA', '29T20:24', { valid: 'VALID TODAY AS OF 0400 PM LOCAL TIME.' }),
    product('MIA', '30T08:24', { maximum: '90', minimum: '78' }),
  );
  await runUntil('30T09:00');
  settle([
    { id: 'KMIA', temperature: 89 },
    { id: 'KMIA', kind: 'daily_minimum', temperature: 78 },
    // These days cannot be compared: the first two have no report, and the last has no settled temperature.
    { id: 'KNYC', temperature: 80 },
    { id: 'KMIA', date: '2026-08-28', temperature: 91 },
    { id: 'KBOS', temperature: null },
  ]);
  await watch.run();
  const minimum = { compared: 1, agreed: 1, since: '2026-08-29', disagreements: [] };
  expect(watch.crossChecks.get('KMIA')).toEqual({
    daily_maximum: {
      compared: 1,
      agreed: 0,
      since: '2026-08-29',
      disagreements: [{ date: '2026-08-29', venue: 89, report: 90 }],
    },
    daily_minimum: minimum,
  });
  expect([...watch.crossChecks.keys()]).toEqual(['KMIA']);
  settle([{ id: 'KMIA', temperature: 90 }]);
  await watch.run();
  expect(watch.crossChecks.get('KMIA')!.daily_maximum).toEqual({ ...minimum });
});

it('a report that may not be the first is never treated as the first', async () => {
  // The list begins with a final report, so an earlier one may be missing.
  add('MIA', product('MIA', '30T08:24', { maximum: '90' }));
  // Only a correction exists.
  add(
    'NYC',
    product('NYC', '29T20:24', { valid: 'VALID TODAY AS OF 0400 PM LOCAL TIME.' }),
    product('NYC', '30T09:10', { issued: '300910 CCA' }),
  );
  // The first report cannot be fetched for a while, but the second can.
  const first = product('BOS', '30T07:00', { maximum: '77' });
  add('BOS', product('BOS', '29T20:24', { valid: 'VALID TODAY AS OF 0400 PM LOCAL TIME.' }), first);
  add('BOS', product('BOS', '30T07:30', { maximum: '76' }));
  fake.fault = (_req, res, path) => path === `/products/${first.id}` && (res.writeHead(500).end(), true);
  await runUntil('30T10:00');
  const isFirst = async () => (await rows()).filter((row) => row.includes(' true '));
  expect(await isFirst()).toEqual([]);
  expect((await rows()).filter((row) => row.startsWith('KMIA daily_maximum'))).toHaveLength(1);
  expect((await rows()).filter((row) => row.startsWith('KBOS'))).toEqual([]);
  fake.fault = undefined;
  await runUntil('30T11:00');
  expect((await isFirst()).filter((row) => row.includes('maximum'))).toEqual([
    'KBOS daily_maximum 2026-08-29 30T07:00 77 true ',
  ]);
});

it('a report that lacks one value is the first report only for the other', async () => {
  add(
    'MIA',
    product('MIA', '29T20:24', { valid: 'VALID TODAY AS OF 0400 PM LOCAL TIME.' }),
    product('MIA', '30T08:24', { maximum: 'MM', minimum: '78' }),
    product('MIA', '30T09:40', { maximum: '91', minimum: '79' }),
  );
  await runUntil('30T12:30');
  expect((await rows()).filter((row) => row.includes('true'))).toEqual([
    'KMIA daily_maximum 2026-08-29 30T09:40 91 true ',
    'KMIA daily_minimum 2026-08-29 30T08:24 78 true ',
  ]);
});

it('one instance queries each station a few times a night and reads each report once', async () => {
  for (const location of ['MIA', 'EWR', 'MSP'])
    add(
      location,
      product(location, '29T20:24', { valid: 'VALID TODAY AS OF 0400 PM LOCAL TIME.' }),
      product(location, '30T08:24', { place: 'TWIN CITIES' }),
    );
  const reader = createClimateReader({ baseUrl: fake.url });
  watch = makeWatch(reader);
  const other = makeWatch(reader);
  await runUntil('30T14:50');
  await other.run();
  await other.stop();
  const lists = (location: string) =>
    fake.requests.filter(({ path }) => path.endsWith(`/locations/${location}`)).length;
  // Once at the start, every ten minutes from 05:45Z until the 08:24 report, and every three hours after it.
  expect(lists('MIA')).toBe(1 + 17 + 2);
  // Boston has no report, so queries slow to hourly eight hours after the day's end.
  expect(lists('BOS')).toBe(1 + 43 + 2);
  expect(fake.requests.filter(({ path }) => /\/products\/product-/.test(path))).toHaveLength(6);
  expect(fake.requests.every(({ agent }) => agent?.startsWith('gauge') === true)).toBe(true);
  expect((await rows()).filter((row) => row.includes('true'))).toHaveLength(6);
  // A restart reads everything again and writes nothing twice.
  await watch.stop();
  watch = makeWatch();
  now += HOUR_MS;
  await watch.run();
  expect(await rows()).toHaveLength(6);
});

it('old reports are deleted', async () => {
  await database.db.orm.insert(climateProducts).values(
    ['2025-07-01', '2026-08-01'].map((date) => ({
      station: 'KMIA',
      kind: 'daily_maximum' as const,
      date,
      issuedAt: new Date(`${date}T08:00:00Z`),
      value: 90,
      isFirstFinal: true,
    })),
  );
  await watch.cleanUp();
  expect((await rows()).map((row) => row.split(' ')[2])).toEqual(['2026-08-01']);
});

it('evening reports are kept apart from the final report and its correction, with the time of arrival', async () => {
  now = Date.parse('2026-08-29T19:00:00Z');
  await watch.run();
  add(
    'MIA',
    product('MIA', '29T20:24', { maximum: '88', valid: 'VALID TODAY AS OF 0400 PM LOCAL TIME.' }),
    product('MIA', '29T23:24', { maximum: '91', valid: 'VALID TODAY AS OF 0700 PM LOCAL TIME.' }),
    product('MIA', '30T08:24', { maximum: '90', minimum: '78' }),
    product('MIA', '30T09:10', { issued: '300910 CCA', maximum: '85', minimum: '78' }),
  );
  const observed = async () =>
    (await readObserved(database.db.orm, '2026-08-28')).filter(({ kind }) => kind === 'daily_maximum');
  await runUntil('29T22:00');
  const evening = { kind: 'daily_maximum', stationId: 'KMIA', date: '2026-08-29' };
  expect(await observed()).toEqual([
    {
      ...evening,
      extremeF: 88,
      observedAt: new Date('2026-08-29T20:24:00Z'),
      // Evening reports are read every quarter of an hour from 21:00Z, which is 16:00 in the station's standard time.
      fetchedAt: new Date('2026-08-29T21:00:00Z'),
    },
  ]);
  await runUntil('30T06:00');
  expect(await observed()).toMatchObject([{ ...evening, extremeF: 91 }]);
  expect((await observed())[0]).not.toHaveProperty('isFinal');
  await runUntil('30T11:30');
  // The first final report counts, not its correction or an evening report.
  expect(await observed()).toEqual([
    {
      ...evening,
      extremeF: 90,
      observedAt: new Date('2026-08-30T08:24:00Z'),
      fetchedAt: new Date('2026-08-30T08:30:00Z'),
      isFinal: true,
    },
  ]);
  const all = await database.db.orm.select().from(climateProducts);
  const stages = all
    .filter(({ kind }) => kind === 'daily_maximum')
    .map(({ stage, value }) => `${stage} ${value}`);
  expect(stages.toSorted()).toEqual(['corrected 85', 'final 90', 'preliminary 88', 'preliminary 91']);
});
