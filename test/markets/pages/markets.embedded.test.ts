import { desc, eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { newFormId } from '../../../src/core/ids.js';
import { AppError, type ErrorCode } from '../../../src/core/errors.js';
import type { DayForecast } from '../../../src/markets/learning/forecast.js';
import { sureDegree } from '../../../src/markets/market/distribution.js';
import type { MarketEvent } from '../../../src/markets/market/event.js';
import type { ListedMarket, Market, UnplacedMarket } from '../../../src/markets/market/market.js';
import { asksOf, emptyBook } from '../../../src/markets/market/book.js';
import { CENT } from '../../../src/markets/market/money.js';
import { inCents } from '../../../src/markets/pages/addresses.js';
import { requireTradable } from '../../../src/markets/orders/tradable.js';
import type { Orders, PaperOrder } from '../../../src/markets/orders/order.js';
import { unplacedTitle } from '../../../src/markets/pages/overview-view.js';
import { signalsFor } from '../../../src/markets/pages/pages.js';
import { formatDecimal, formatPrice, formatMoney, formatPoints } from '../../../src/core/pages/format.js';
import { tradingOrders } from '../../../src/markets/ledger/orders-table.js';
import {
  tradingAccounts,
  tradingPositions,
  watchedMarkets,
} from '../../../src/markets/ledger/portfolio-table.js';
import { memberships } from '../../../src/accounts/organizations/table.js';
import { tradingSwitches } from '../../../src/markets/ledger/risk-table.js';
import { bracketLabel, bracketPays } from '../../../src/markets/market/brackets.js';
import { climateDayAt } from '../../../src/markets/market/climate-day.js';
import { stations } from '../../../src/markets/market/stations.js';
import type { EventSignals } from '../../../src/markets/signals/signal.js';
import { makeSignals } from '../../../src/markets/signals/signals.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';
import { fieldOf, getPage, linksOf, postForm, textOf } from '../../accounts/api-keys/html.js';
import { everything, leadingStations } from '../../../src/markets/venue/simulation/world.js';
import { addMember, Browser, createUser, signedIn } from '../../support/accounts.js';
import { startTestService, type TestService } from '../../support/service.js';
import type { HourFit, RunningDay } from '../../../src/markets/learning/running-day.js';
import { makeGates, calibrated } from '../support/events.js';
import { useService } from '../../support/use.js';

const PATH = '/dashboard/markets';
/** Grey if the order loses on average. */
const PLACE = /(Place (paper order|anyway)|Sell (on paper|anyway))/;
/** Midday at the stations, when one day is settling, one is in progress and one is still to come. */
const NOON = '2026-07-15T18:00:00.000Z';

/** Only the leading cities: testing all 24 would prove nothing more. */
const selection = { ...everything, stations: leadingStations };

const { database, service } = useService({
  app: { signInLimits: { perAddress: 10_000 } },
  trading: { selection },
});
let owner: Awaited<ReturnType<typeof signedIn>>;
let realOrders: Orders;
beforeAll(async () => {
  service.clock.set(NOON);
  await service.trading.refresher.refresh();
  realOrders = service.trading.orders;
  owner = await signedIn(database.db, service.url);
});
afterEach(async () => {
  service.trading.orders = realOrders;
  service.clock.set(NOON);
});

const snapshot = () => service.trading.snapshots.current!;
/** Finds a New York market for today that has both bids and asks. */
function openMarket(): Market {
  const today = climateDayAt(stations[0]!, new Date(NOON)).date;
  const isWanted = (market: ListedMarket): market is Market =>
    market.station?.id === 'KNYC' &&
    market.date === today &&
    market.yesAsk !== null &&
    market.yesBid !== null;
  return [...snapshot().markets.values()].find(isWanted)!;
}
const form = (market: Market, changes: Record<string, string> = {}) => ({
  id: newFormId(service.clock.now()),
  side: 'yes',
  action: 'buy',
  contracts: '2',
  limitPrice: inCents(market.yesAsk!),
  timeInForce: 'immediate_or_cancel',
  ...changes,
});

it('the desk lists every city of a kind, and links the ones that it does not show', async () => {
  const page = await getPage(owner.browser, PATH);
  expect(page.status).toBe(200);
  const text = textOf(page);
  const listed = snapshot().events.filter(({ kind }) => kind === 'daily_maximum');
  for (const { station } of listed) {
    expect(text).toContain(station.city);
    expect(linksOf(page).some((link) => link.startsWith(`${PATH}?station=${station.id}&date=`))).toBe(true);
  }
  expect(text).toContain(`Highs ${new Set(listed.map(({ station }) => station.id)).size} cities`);
  expect(text).toContain('Prices are 0 s old');
  expect(text).toContain('Simulated');
});

it('each part of the desk opens with the city and day that the page shows', async () => {
  const { station, date } = openMarket();
  const here = `${PATH}?station=${station.id}&date=${date}`;
  const links = linksOf(await getPage(owner.browser, here)).filter((link) => link.includes('show='));
  expect(links).toEqual(['list', 'market', 'orders'].map((part) => `${here}&show=${part}`));
  for (const link of links) expect((await getPage(owner.browser, link)).status).toBe(200);
});

it('a search keeps cities with matching names, ignoring case, and says so if none match', async () => {
  const found = await getPage(owner.browser, `${PATH}?q=new+YORK`);
  const list = (page: typeof found) => page.text.split('class="opportunities"')[1]!.split('</ul>')[0]!;
  expect([...list(found).matchAll(/href="([^"]+)"/g)].map(([, link]) => link)).toEqual([
    `${PATH}?station=KNYC&amp;date=2026-07-15&amp;q=new+YORK`,
  ]);
  expect(fieldOf(found, 'q')).toEqual(['new YORK']);
  const { status, headers } = await owner.browser.send('GET', `${PATH}?station=KMIA&q=new+york&open=first`);
  expect([status, headers.get('location')]).toEqual([303, `${PATH}?station=KNYC&date=2026-07-15&q=new+york`]);
  const none = await getPage(owner.browser, `${PATH}?q=%3Ci%3Eatlantis`);
  expect([none.status, textOf(none)]).toEqual([200, expect.stringContaining('No cities match')]);
  expect(none.text).not.toContain('<i>atlantis');
  // Links between kinds and cities keep the search term.
  expect(linksOf(found)).toContain(`${PATH}?kind=daily_minimum&q=new+YORK`);
  const city = await getPage(owner.browser, `${PATH}?station=KNYC&q=new+YORK`);
  expect(linksOf(city)).toContain(`${PATH}?station=KNYC&kind=daily_minimum&q=new+YORK`);
});

it('a member watches a city for themselves alone', async () => {
  const page = await getPage(owner.browser, `${PATH}?station=KMIA`);
  expect(textOf(page)).toContain('☆ Watch');
  const form = { station: 'KMIA', date: '2026-07-15', watch: 'yes' };
  const { status, headers } = await owner.browser.send('POST', `${PATH}/watched`, { form });
  expect([status, headers.get('location')]).toEqual([303, `${PATH}?station=KMIA&date=2026-07-15`]);
  const watched = textOf(await getPage(owner.browser, `${PATH}?station=KMIA`));
  expect(watched).toContain('★ Watched');
  expect(watched).toMatch(/Watched Miami ★ ?watched/);
  const colleague = new Browser(service.url);
  const user = await createUser(database.db);
  await addMember(database.db, owner.organization.id, user.id, 'member');
  await colleague.signIn(user.email);
  expect(textOf(await getPage(colleague, `${PATH}?station=KMIA`))).toContain('☆ Watch');
  await owner.browser.send('POST', `${PATH}/watched`, { form: { ...form, watch: 'no' } });
  expect(textOf(await getPage(owner.browser, `${PATH}?station=KMIA`))).toContain('☆ Watch');
  const wrong = await owner.browser.send('POST', `${PATH}/watched`, {
    form: { station: 'KXYZ', watch: 'yes' },
  });
  expect(wrong.status).toBe(404);
});

it('watching is for each member, may be repeated, and ends with the membership', async () => {
  const member = await signedIn(database.db, service.url, 'member');
  const stranger = await signedIn(database.db, service.url);
  const watch = (form: Record<string, string>) => member.browser.send('POST', `${PATH}/watched`, { form });
  const kept = () =>
    database.db.orm.select().from(watchedMarkets).where(eq(watchedMarkets.userId, member.user.id));
  for (const station of ['', 'Miami', "KMIA'--", '../KMIA'])
    expect([400, 404]).toContain((await watch({ station, watch: 'yes' })).status);
  expect((await watch({ station: 'KMIA', kind: 'others', watch: 'yes' })).status).toBe(404);
  expect(await kept()).toEqual([]);
  for (let i = 0; i < 2; i++)
    expect((await watch({ station: 'KMIA', watch: 'yes', org_id: stranger.organization.id })).status).toBe(
      303,
    );
  expect(await kept()).toEqual([{ orgId: member.organization.id, userId: member.user.id, city: 'Miami' }]);
  expect(textOf(await getPage(stranger.browser, `${PATH}?station=KMIA`))).toContain('☆ Watch');
  await database.db.orm.delete(memberships).where(eq(memberships.userId, member.user.id));
  expect((await watch({ station: 'KDEN', watch: 'yes' })).status).not.toBe(303);
  expect(await kept()).toHaveLength(1);
});

it('the page of a city shows its current day', async () => {
  const page = await getPage(owner.browser, `${PATH}?station=KNYC`);
  expect(page.status).toBe(200);
  const text = textOf(page);
  const event = snapshot().events.find(
    ({ kind, station, date }) => kind === 'daily_maximum' && station.id === 'KNYC' && date === '2026-07-15',
  )!;
  expect(text).toContain('Today');
  expect(event.markets).toHaveLength(6);
  const links = linksOf(page);
  for (const { ticker, yesAsk } of event.markets) {
    expect(links).toContain(`${PATH}/${ticker}`);
    if (yesAsk === null) continue;
    expect(links).toContain(`${PATH}/${ticker}?side=yes&action=buy`);
    expect(text).toContain(formatPrice(yesAsk));
  }
  expect(text).toMatch(/The 31 members .* expect .*: the raw ensemble, not calibrated/);
  expect(text).toMatch(
    /Peak Based only on the forecast from before the day\. Nothing has been learned of days at this hour yet/,
  );
  // Nothing is said of a chance that would be shown as 0.0%.
  expect(text).not.toContain('0.0% chance that the peak is over');
  expect(text).toContain('CLINYC');
  expect(text).toContain('The Weather Company, which relays');
  const { bracket, yesBid, volume } = openMarket();
  const [bid, traded] = [formatPrice(yesBid!), formatDecimal(volume)];
  expect(text).toMatch(new RegExp(`${bracketLabel(bracket)} \\S+ \\S+ ${bid} ${traded} `));
});

it('a day in progress shows the probability that it has peaked, and the evidence', async () => {
  const current = snapshot();
  const running: RunningDay = {
    hour: 12,
    stays: 0.8834,
    fit: { ...calibrated.fit, n: 1403 } as unknown as HourFit,
    fallback: null,
    dayAheadShare: 0.4,
  };
  const ofNewYork = current.forecasts.get('KNYC')!;
  const days = ofNewYork.days.map((day) =>
    day.running ? { ...day, running, method: 'same_day' as const } : day,
  );
  const forecasts = new Map([...current.forecasts, ['KNYC', { ...ofNewYork, days }] as const]);
  service.trading.snapshots.replace({ ...current, forecasts });
  try {
    const high = textOf(await getPage(owner.browser, `${PATH}?station=KNYC`));
    expect(high).toMatch(
      /Peak 88\.3% chance that the peak is over .*Peak Based on what was known at 12:00 local standard time and on how 1,403 days at all stations continued from that hour, Tue 5 May to Thu 2 Jul; the forecast of all models from before the day has 40% of the weight\./,
    );
    const low = textOf(await getPage(owner.browser, `${PATH}?station=KNYC&kind=daily_minimum`));
    expect(low).toMatch(/Low 88\.3% chance that the low is over/);
  } finally {
    service.trading.snapshots.replace(current);
  }
});

it('every kind has a tab with its number of cities and its own wording', async () => {
  const { events, data } = snapshot();
  const cities = (kind: string) =>
    new Set(events.filter((event) => event.kind === kind).map(({ station }) => station.city)).size;
  const text = textOf(await getPage(owner.browser, `${PATH}?kind=hourly`));
  expect(text).toContain(`Lows ${cities('daily_minimum')} cities`);
  expect(text).toContain(`Hourly ${cities('hourly')} cities`);
  expect(text).toContain(
    `Other ${data.markets.filter(({ station, status }) => station === null && status === 'active').length} markets`,
  );

  const minimum = await getPage(owner.browser, `${PATH}?station=KMIA&kind=daily_minimum&date=2026-07-15`);
  const words = textOf(minimum);
  expect(words).toContain('low of Wed 15 Jul');
  expect(words).not.toContain('Expected high');
  expect(words).toContain('the lowest temperature in whole °F');
  expect(words).toMatch(/The venue’s rules .* minimum temperature recorded at Miami \(CLIMIA\)/);
});

it('an hour is a ladder of thresholds, each with its own probability', async () => {
  const event = snapshot().events.find(
    ({ kind, station, markets }) =>
      kind === 'hourly' && station.id === 'INDEX-MIAMI' && markets.some(({ status }) => status === 'active'),
  )!;
  const clock = `${String(event.hour).padStart(2, '0')}:00`;
  const address = `${PATH}?station=INDEX-MIAMI&kind=hourly&date=${event.date}&hour=${event.hour}`;
  const page = await getPage(owner.browser, address);
  expect(page.status).toBe(200);
  const text = textOf(page);
  expect(text).toContain(`temperature at ${clock} on `);
  for (const { bracket, ticker } of event.markets) {
    expect(text).toContain(bracketLabel(bracket));
    expect(linksOf(page)).toContain(`${PATH}/${ticker}`);
  }
  expect(text).not.toContain('Likeliest');
  expect(text).toMatch(/temperature at \d\d:00 on \w{3} \d+ \w{3} /);
  expect(page.text).toContain('aria-label="Hours, local time"');
  const example = /Each threshold settles on its own: at (\d+)\.20°/.exec(text)?.[1];
  expect(event.markets.map(({ bracket }) => bracketLabel(bracket))).toContain(`${example}° or above`);
  const hours = [...page.text.matchAll(/hour=(\d+)[^>]*>(\d\d):00( <small>(?:over|next)<\/small>)?/g)];
  expect(hours.map(([, hour]) => Number(hour))).toEqual(
    hours.map(([, hour]) => Number(hour)).toSorted((a, b) => a - b),
  );
  expect(hours.some(([, , , note]) => note?.includes('next'))).toBe(true);
  expect(text).toContain('The venue’s own temperature index');
  expect(text).toMatch(/Expected temperature \d+\.\d°F/);
  // The city's hourly and daily pages link to each other.
  expect(linksOf(page)).toContain(`${PATH}?station=KMIA`);
  const ofDay = await getPage(owner.browser, `${PATH}?station=KMIA`);
  expect(linksOf(ofDay)).toContain(`${PATH}?station=INDEX-MIAMI&kind=hourly`);
  const ticket = textOf(await getPage(owner.browser, `${PATH}/${event.markets[0]!.ticker}`));
  expect(ticket).toContain(`Paper Temperature at ${clock} on `);
});

it('the page of an unlisted hour says so', async () => {
  const missing = await getPage(
    owner.browser,
    `${PATH}?station=INDEX-MIAMI&kind=hourly&date=2026-07-01&hour=3`,
  );
  expect([missing.status, textOf(missing)]).toEqual([
    404,
    expect.stringContaining('No markets for 03:00 on Wed 1 Jul'),
  ]);
});

it('the venue’s agreement with the first final report is shown for the station and kind', async () => {
  const checks = { compared: 30, agreed: 29, since: '2026-06-01', disagreements: [] };
  service.trading.climate = {
    crossChecks: new Map([['KMIA', { daily_minimum: checks }]]),
  } as unknown as NonNullable<TestService['trading']['climate']>;
  try {
    const of = async (query: string) => textOf(await getPage(owner.browser, `${PATH}?station=${query}`));
    expect(await of('KMIA&kind=daily_minimum')).toContain('first final report on 29 of 30 days.');
    expect(await of('KMIA')).not.toContain('first final report');
    expect(await of('KNYC&kind=daily_minimum')).toContain('not yet against past days');
  } finally {
    service.trading.climate = undefined;
  }
});

it('a polling page is not sized again before the account or the prices change', async () => {
  const now = new Date(NOON);
  const account = { cash: 500_000_000n, holdings: new Map() };
  const first = await signalsFor(snapshot(), account, now);
  expect(first.bankroll).toBe(500_000_000n);
  expect(await signalsFor(snapshot(), { ...account, holdings: new Map() }, now)).toBe(first);
  expect(await signalsFor(snapshot(), { ...account, cash: 400_000_000n }, now)).not.toBe(first);
  const next = { ...snapshot(), signals: { ...snapshot().signals } };
  expect(await signalsFor(next, account, now)).not.toBe(first);
});

it('the page of an area’s hours subscribes to the area’s stream', async () => {
  const page = await getPage(owner.browser, `${PATH}?station=INDEX-MIAMI&kind=hourly`);
  expect(page.text).toContain('data-stream="/stream?station=INDEX-MIAMI"');
  const head = (station: string) => fetch(`${service.url}/stream?station=${station}`, { method: 'HEAD' });
  expect((await head('index-miami')).status).toBe(200);
  expect((await head('INDEX-ATLANTIS')).status).toBe(404);
});

it('a market that takes no orders says why and has no purchase links', async () => {
  const real = snapshot();
  const market = { ...openMarket(), untradable: 'YES always pays $0.0500 or more' };
  const replaced = (one: ListedMarket) => (one.ticker === market.ticker ? market : one);
  const markets = real.data.markets.map(replaced);
  const events = real.events.map((event) => ({ ...event, markets: event.markets.map(replaced) as Market[] }));
  const path = `${PATH}/${market.ticker}`;
  const buys = (page: Awaited<ReturnType<typeof getPage>>) =>
    linksOf(page).filter((link) => link.startsWith(`${path}?side=yes&action=buy`));
  const ladder = `${PATH}?station=${market.station.id}&date=${market.date}`;
  expect(buys(await getPage(owner.browser, ladder))).toHaveLength(1);
  service.trading.snapshots.replace({
    ...real,
    data: { ...real.data, markets },
    events,
    markets: new Map(markets.map((one) => [one.ticker, one])),
  });
  try {
    const page = await getPage(owner.browser, ladder);
    expect(textOf(page)).toContain('No orders');
    expect(buys(page)).toEqual([]);
    const ticket = textOf(await getPage(owner.browser, `${path}?contracts=1`));
    expect(ticket).toContain('This market takes no orders: YES always pays $0.0500 or more.');
    expect(ticket).not.toMatch(PLACE);
  } finally {
    service.trading.snapshots.replace(real);
  }
});

describe('a market without a place', () => {
  const rain = () =>
    snapshot().data.markets.find(
      ({ station, status, yesAsk }) => station === null && status === 'active' && yesAsk !== null,
    ) as UnplacedMarket;

  it('is listed and searchable, with its prices and the reason for the missing forecast', async () => {
    const page = await getPage(owner.browser, `${PATH}?kind=others`);
    const text = textOf(page);
    expect(text).toContain(unplacedTitle(rain()).replace(/ on .*/, '?'));
    // The day is a heading, so that no question repeats it.
    expect(text).toMatch(
      /[A-Z][a-z]{2} \d{1,2} [A-Z][a-z]{2} YES \/ NO ask Will it rain in [A-Z][\w ]+\? YES \S+ \/ NO \S+/,
    );
    const days = [...page.text.matchAll(/<h3>(\w{3} \d+ \w{3}) <span aria-hidden="true">Y/g)].map(
      ([, day]) => day,
    );
    expect(days.length).toBeGreaterThan(0);
    expect(new Set(days).size).toBe(days.length);
    const sorted = await getPage(owner.browser, `${PATH}?kind=others&sort=price`);
    const firstDay = textOf(sorted).split('YES / NO ask')[1]!;
    const prices = [...firstDay.matchAll(/\? YES ([\d.]+)¢/g)].map(([, price]) => Number(price));
    expect(prices.length).toBeGreaterThan(1);
    expect(prices).toEqual(prices.toSorted((a, b) => b - a));
    // A reason that all share is stated once, and in the chosen market.
    expect(text.match(/Gauge does not forecast rain\./g)).toHaveLength(2);
    expect(page.text.indexOf('id="closed-markets"')).toBeGreaterThan(page.text.indexOf('YES / NO ask'));
    // Other is chosen, and so is the first of its markets, with its price line.
    expect(page.text).toMatch(/href="[^"]*kind=others" aria-current="true"/);
    expect(page.text).toContain('id="price-title"');
    // Its question is the heading, and the ticket names it in short.
    expect(page.text.match(/<h2[^>]*>Will it rain/g)).toHaveLength(1);
    expect(page.text).toMatch(/<h2>Rain, [A-Z][\w ]+<\/h2>/);
    expect(page.text.match(/<blockquote/g)).toHaveLength(1);
    expect(linksOf(page)).toContain(`${PATH}/${rain().ticker}?side=yes&action=buy`);
    const found = textOf(await getPage(owner.browser, `${PATH}?kind=others&q=RAIN+denver`));
    expect(found).toContain('Denver');
    expect(found).not.toContain('Will it rain in Chicago');
    expect(textOf(await getPage(owner.browser, `${PATH}?kind=others&q=atlantis`))).toContain(
      'No markets match',
    );
  });

  it('is listed once, on pages of at most 200', async () => {
    const real = snapshot();
    const many = Array.from({ length: 450 }, (_, i) => ({
      ...rain(),
      ticker: `KXOTHER-${i}`,
      title: `Other ${i}.`,
    }));
    service.trading.snapshots.replace({ ...real, data: { ...real.data, markets: many } });
    try {
      const seen: string[] = [];
      for (let next: string | undefined = `${PATH}?kind=others&q=other`; next !== undefined;) {
        const page = await getPage(owner.browser, next);
        const own = [...page.text.matchAll(/<a href="[^"?]*\/(KXOTHER-\d+)"/g)].map(([, ticker]) => ticker!);
        expect(own.length).toBeLessThanOrEqual(200);
        seen.push(...own);
        next = linksOf(page).find((link) => link.includes('cursor='));
      }
      expect(seen).toEqual(many.map(({ ticker }) => ticker));
    } finally {
      service.trading.snapshots.replace(real);
    }
  });

  it('can be bought on paper from its ticket, and has a name in the portfolio', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const market = rain();
    const path = `${PATH}/${market.ticker}`;
    const text = textOf(await getPage(browser, `${path}?contracts=2.5`));
    expect(text).toContain('No forecast or signal: Gauge does not forecast rain.');
    expect(text).toContain('Buy 2.5 YES at');
    expect(text).toContain('There is no forecast. It is worth its cost if YES is more likely than');
    const placed = await postForm(browser, path, {
      ...form(openMarket(), { contracts: '2.5' }),
      limitPrice: inCents(market.yesAsk!),
    });
    expect(placed.status).toBe(303);
    const order = textOf(await getPage(browser, placed.headers.get('location')!));
    expect(order).toContain('Buy 2.5 YES');
    expect(order).toContain(`${market.city} rain, `);
  });

  it('takes no live order', () => {
    const order = {
      ticker: rain().ticker,
      side: 'yes',
      action: 'buy',
      contracts: 1,
      limitPrice: rain().yesAsk!,
    } as const;
    const now = service.clock.now();
    const view = (mode: 'paper' | 'live') =>
      requireTradable(service.trading.snapshots, { ...order, mode }, now);
    expect(view('paper').market).toBe(rain());
    expect(() => view('live')).toThrow(
      expect.objectContaining({
        code: 'live_trading_disabled',
        message: `${rain().ticker} can be traded only on paper: Gauge does not forecast rain.`,
      }),
    );
    const placed = { ...order, ticker: openMarket().ticker, limitPrice: openMarket().yesAsk! };
    expect(requireTradable(service.trading.snapshots, { ...placed, mode: 'live' }, now).market).toBe(
      openMarket(),
    );
  });
});

it('tradable days come first, and the page opens on the first of them', async () => {
  const late = await startTestService(database.db, { trading: { selection } });
  try {
    late.clock.set(NOON);
    await late.trading.refresher.refresh();
    const real = late.trading.snapshots.current!;
    const close = (event: MarketEvent): MarketEvent =>
      event.station.id === 'KNYC' && event.kind === 'daily_maximum' && event.date <= '2026-07-15'
        ? { ...event, markets: event.markets.map((market) => ({ ...market, status: 'closed' as const })) }
        : event;
    const today = real.events.find(({ station, date }) => station.id === 'KNYC' && date === '2026-07-15');
    const tomorrow = {
      ...today!,
      date: '2026-07-16',
      eventTicker: 'KXHIGHNY-26JUL16',
      markets: today!.markets.map((market) => ({ ...market, date: '2026-07-16', status: 'active' as const })),
    };
    late.trading.snapshots.replace({ ...real, events: [...real.events.map(close), tomorrow] });
    const page = await getPage(owner.browser.copy(late.url), `${PATH}?station=KNYC`);
    const days = page.text.split('aria-label="Days"')[1]!.split('</ul>')[0]!;
    expect([...days.matchAll(/href="([^"]+)"/g)].map(([, link]) => link!.replace('&amp;', '&'))).toEqual(
      ['2026-07-16', '2026-07-15', '2026-07-14'].map((date) => `${PATH}?station=KNYC&date=${date}`),
    );
    const text = textOf(page);
    expect(text).toContain('high of Thu 16 Jul');
    expect(text).toContain('Today closed');
    const cards = textOf(await getPage(owner.browser.copy(late.url), `${PATH}?q=new+york`));
    expect(cards).toMatch(/New York Tomorrow/);
  } finally {
    await late.stop();
  }
});

it('the climate day runs from midnight to midnight in standard time, also in summer', async () => {
  const page = await getPage(owner.browser, `${PATH}?station=KDEN&date=2026-07-15`);
  // Denver's climate days use UTC−7 all year.
  expect(page.text).toContain('datetime="2026-07-15T07:00:00.000Z"');
  expect(page.text).toContain('datetime="2026-07-16T07:00:00.000Z"');
  expect(textOf(page)).toContain('local standard time (UTC−7)');
});

it('a past day shows its temperature and winner as far as the venue has reported them', async () => {
  const settled = snapshot().events.find(
    ({ station, date }) => station.id === 'KNYC' && date === '2026-07-14',
  )!;
  const { settledTemperature } = settled.markets[0]!;
  const page = await getPage(owner.browser, `${PATH}?station=KNYC&date=2026-07-14`);
  const text = textOf(page);
  expect(text).toContain(`${settledTemperature}°`);
  expect(text).toContain('has won. The result is final');
  expect(text.match(/\bWon\b/g)).toHaveLength(1);
  expect(text.match(/\bLost\b/g)).toHaveLength(5);
  expect(linksOf(page).filter((link) => link.includes('side='))).toEqual([]);

  const winner = settled.markets.find(({ settlementValue }) => settlementValue! > 0n)!;
  const ticket = await getPage(owner.browser, `${PATH}/${winner.ticker}?contracts=10&limitPrice=40`);
  expect(textOf(ticket)).toContain('Won This market is not open for orders. Each YES paid 100¢.');
  expect(ticket.text).not.toMatch(/id="field-contracts"|Maximum payout|aria-label="What to do"/);
});

it('a reported temperature names the winner, and does not say that the venue has determined it', async () => {
  // Daily reports come seven hours after the day, and the venue's result an hour later.
  const morning = await startTestService(database.db, { trading: { selection } });
  try {
    const path = `${PATH}?station=KNYC&date=2026-07-14`;
    morning.clock.set('2026-07-15T06:00:00Z');
    await morning.trading.refresher.refresh();
    const closed = textOf(await getPage(owner.browser.copy(morning.url), path)).split('This day is over.')[1];
    expect(closed).toMatch(/^ Its markets are closed until .* High Forecast [^M]/);
    expect(closed).not.toMatch(/YES NO|\bClosed\b/);
    morning.clock.set('2026-07-15T12:30:00Z');
    await morning.trading.refresher.refresh();
    const page = await getPage(owner.browser.copy(morning.url), path);
    const text = textOf(page);
    const { events } = morning.trading.snapshots.current!;
    const { markets } = events.find(({ station, date }) => station.id === 'KNYC' && date === '2026-07-14')!;
    const winner = markets.find(({ bracket }) => bracketPays(bracket, markets[0]!.settledTemperature!))!;
    expect(winner.settlementValue).toBe(null);
    expect(text).toContain(`${bracketLabel(winner.bracket)} wins if the result stands.`);
    expect(text).toContain('The venue has not determined its result yet.');
    expect(text).not.toContain('not known yet');
    expect(text).toContain(`${bracketLabel(winner.bracket)} Won, not final`);
  } finally {
    await morning.stop();
  }
});

it('ruled-out brackets say so and do not offer YES', async () => {
  // By evening the maximum so far rules out colder brackets.
  const evening = await startTestService(database.db, { trading: { selection } });
  try {
    evening.clock.set('2026-07-16T01:00:00Z');
    await evening.trading.refresher.refresh();
    const { forecasts, events } = evening.trading.snapshots.current!;
    const { observed } = forecasts.get('KMIA')!.days.find(({ date }) => date === '2026-07-15')!;
    const event = events.find(({ station, date }) => station.id === 'KMIA' && date === '2026-07-15')!;
    const reached = sureDegree(observed!.extremeF);
    const passed = event.markets.filter(
      ({ bracket: { kind, cap } }) => cap !== null && (kind === 'less' ? cap - 1 : cap) < reached,
    );
    expect(passed.length).toBeGreaterThan(0);
    const path = `${PATH}?station=KMIA&date=2026-07-15`;
    const page = await getPage(owner.browser.copy(evening.url), path);
    const measured = `Impossible: ${observed!.extremeF.toFixed(1).replace('.0', '')}° already measured`;
    // Neighbours without anything to trade share a row.
    expect(textOf(page)).toContain(
      `${passed.map(({ bracket }) => bracketLabel(bracket)).join(' ')} ${measured}`,
    );
    for (const { ticker } of passed)
      expect(
        linksOf(page).filter((link) => link.startsWith(`${PATH}/${ticker}?side=yes&action=buy`)),
      ).toEqual([]);
  } finally {
    await evening.stop();
  }
});

it.each([
  '?station=KXXX',
  '?station=knyc',
  '?kind=weekly',
  '?kind=others&station=KNYC',
  '?station=KNYC&date=2026-07-15&hour=12',
  '?station=INDEX-MIAMI&kind=hourly&date=2026-07-15&hour=24',
  '?hour=12',
  '?station=%00',
  '?station=KNYC&date=2026-02-30',
  '?station=KNYC&date=tomorrow',
  `?date=${'9'.repeat(300)}`,
  `/${'X'.repeat(300)}`,
  '/%3Cscript%3Ealert(1)%3C%2Fscript%3E',
  '/%01',
  '/KXHIGHNY-26JUL15',
  '/__proto__',
])('an unknown address is a not-found page: %s', async (address) => {
  const page = await getPage(owner.browser, PATH + address);
  expect(page.status).toBe(404);
  expect(page.text).toContain('Page not found');
  expect(page.text).not.toContain('<script>alert');
});

it('a day that is no longer listed says so and links to the listed ones', async () => {
  const page = await getPage(owner.browser, `${PATH}?station=KNYC&date=2026-07-01`);
  expect(page.status).toBe(404);
  expect(textOf(page)).toContain('No markets for Wed 1 Jul');
  expect(linksOf(page)).toContain(`${PATH}?station=KNYC&date=2026-07-15`);
});

it('pages show that they are waiting before the first prices', async () => {
  const early = await startTestService(database.db, { trading: { selection } });
  early.clock.set(NOON);
  try {
    const browser = owner.browser.copy(early.url);
    for (const path of [PATH, `${PATH}/${openMarket().ticker}`]) {
      const page = await getPage(browser, path);
      expect([page.status, textOf(page)]).toEqual([200, expect.stringContaining('Markets are loading')]);
      expect(page.text).toMatch(/id="markets"[^>]* data-live="2"/);
    }
    const posted = await postForm(browser, `${PATH}/${openMarket().ticker}`, form(openMarket()));
    expect(posted.status).toBe(503);
  } finally {
    await early.stop();
  }
});

it('stale prices are labelled, and close the ticket once too old to trade on', async () => {
  const ticket = `${PATH}/${openMarket().ticker}`;
  service.clock.advance(31_000);
  // At 31 s the page has missed one 30-second refresh; missing a second one makes prices stale.
  expect(textOf(await getPage(owner.browser, PATH))).toContain('Current Prices are 31 s old');
  expect(textOf(await getPage(owner.browser, ticket))).toMatch(PLACE);
  service.clock.advance(30_000);
  expect(textOf(await getPage(owner.browser, PATH))).toContain('Closed to orders');
  const closed = textOf(await getPage(owner.browser, ticket));
  expect(closed).toContain('too old to trade on');
  expect(closed).not.toMatch(PLACE);
});

it('both pages show closed trading with its reason, and halted trading offers no order', async () => {
  const { browser, organization } = await signedIn(database.db, service.url);
  const ticket = `${PATH}/${openMarket().ticker}`;
  const close = (ownState: 'reduce_only' | 'halt') => {
    const values = { ownState, ownReason: '<i>storm</i>', updatedAt: new Date(NOON) };
    return database.db.orm
      .insert(tradingSwitches)
      .values({ orgId: organization.id, ...values })
      .onConflictDoUpdate({ target: tradingSwitches.orgId, set: values });
  };
  await close('reduce_only');
  for (const path of [PATH, ticket]) {
    const page = await getPage(browser, path);
    expect(textOf(page)).toContain('Only orders that reduce positions are accepted.');
    expect(textOf(page)).toContain('<i>storm</i>');
    expect(page.text).not.toContain('<i>storm');
  }
  // A purchase cannot reduce anything here, because nothing is held.
  const reducing = textOf(await getPage(browser, ticket));
  expect(reducing).toContain(
    "A limit stops this order. The Organization's own switch allows only orders that reduce a position",
  );
  expect(reducing).not.toMatch(PLACE);
  await close('halt');
  expect(textOf(await getPage(browser, PATH))).toContain('Trading is halted');
  expect(textOf(await getPage(browser, ticket))).not.toMatch(PLACE);
  const refused = await postForm(browser, ticket, form(openMarket()));
  expect([refused.status, textOf(refused)]).toEqual([
    422,
    expect.stringContaining('A limit stops this order'),
  ]);
});

it('the ticket starts with the best ask and shows the cost before the order is sent', async () => {
  const market = openMarket();
  const page = await getPage(owner.browser, `${PATH}/${market.ticker}?side=yes&action=buy&contracts=1`);
  expect(fieldOf(page, 'limitPrice')[0]).toBe(inCents(market.yesAsk!));
  const text = textOf(page);
  expect(text).toContain(`Buy 1 YES at ${formatPrice(market.yesAsk!)} or less`);
  for (const word of ['Fee', 'Cost', 'Maximum payout $1.00', 'Break-even', 'Forecast', 'Cash after'])
    expect(text).toContain(word);
  expect(text).toMatch(/The forecast says [\d.]+%, but it is not proven: .*? The market says [\d.]+%\./);
  expect(text).toContain('Place anyway');
  expect(text).not.toContain('buying gains');
});

it.each([
  {
    query: 'contracts=0',
    says: 'From 0.01 to 1,000 (your risk limit for one order), at most two decimals.',
  },
  {
    query: 'contracts=%00',
    says: 'From 0.01 to 1,000 (your risk limit for one order), at most two decimals.',
  },
  { query: 'limitPrice=55.5', says: 'Must be a multiple of 1¢ here.' },
  { query: 'limitPrice=%3Cb%3E', says: 'Must be more than 0 and less than 100 cents, like 42.' },
  { query: 'contracts=1&contracts=2', says: 'Must appear only once.' },
])('a ticket with $query shows the error beside the field', async ({ query, says }) => {
  const page = await getPage(owner.browser, `${PATH}/${openMarket().ticker}?${query}`);
  expect([page.status, textOf(page)]).toEqual([400, expect.stringContaining(says)]);
  expect(page.text).not.toContain('<b>');
});

it('a limit follows the price until it is chosen, by hand or by a signal, and the page says so', async () => {
  const market = openMarket();
  const open = async (limit: string) => {
    const page = await getPage(
      owner.browser,
      `${PATH}/${market.ticker}?side=yes&action=buy&contracts=1${limit}`,
    );
    return {
      limit: fieldOf(page, 'limitPrice')[0],
      follows: page.text.includes('data-follows'),
      text: textOf(page),
    };
  };
  expect(await open('')).toMatchObject({ limit: inCents(market.yesAsk!), follows: true });
  const left = inCents(market.yesAsk! - CENT);
  const chosen = await open(`&limitPrice=${left}`);
  expect(chosen).toMatchObject({ limit: left, follows: false });
  expect(chosen.text).toContain(`Your limit does not fit the order book`);
});

it('each form and link of the desk keeps the order that is composed for its market', async () => {
  const { ticker } = openMarket();
  const { browser } = await signedIn(database.db, service.url);
  const fields = {
    side: 'no',
    action: 'buy',
    contracts: '7',
    limitPrice: '1',
    timeInForce: 'good_till_cancelled',
    observed: 'keep',
  };
  const path = `${PATH}/${ticker}?${new URLSearchParams(fields).toString()}`;
  const valuesOf = (address: string) => {
    const given = new URLSearchParams(address.split(/[?#]/)[1]);
    return Object.fromEntries(Object.keys(fields).map((name) => [name, given.get(name)]));
  };
  const page = await getPage(browser, path);
  const [back] = fieldOf(page, 'back');
  expect(back).toMatch(new RegExp(`^${PATH}/${ticker}\\?`));
  const links = linksOf(page).filter((link) => link.startsWith(`${PATH}/${ticker}?`));
  const kept = links.filter((link) => /show=|limitPrice=1&/.test(link));
  // The parts of the page, and the name of the market in the ladder.
  expect(kept.length).toBeGreaterThanOrEqual(4);
  for (const address of [back!, ...kept]) expect(valuesOf(address)).toEqual(fields);
  expect(/action="([^"]*)" class="search"/.exec(page.text)![1]).toBe(`${PATH}/${ticker}`);
  const searched = await getPage(browser, `${back}&q=chicago&show=list`);
  expect(fieldOf(searched, 'q')).toEqual(['chicago']);
  expect(searched.text).toContain('value="good_till_cancelled" selected');
  const watched = await postForm(browser, `${PATH}/watched`, { station: 'KNYC', watch: 'yes', back: back! });
  expect(watched.headers.get('location')).toBe(back);
  const placed = await postForm(browser, `${PATH}/${ticker}`, {
    ...fields,
    id: newFormId(service.clock.now()),
  });
  const id = new URLSearchParams(placed.headers.get('location')!.split(/[?#]/)[1]).get('order');
  for (const from of ['ticket', 'desk']) {
    const cancelled = await postForm(browser, `/dashboard/portfolio/orders/${id}/cancel`, {
      from,
      back: back!,
    });
    expect(valuesOf(cancelled.headers.get('location')!)).toEqual(fields);
    const answer = await getPage(browser, cancelled.headers.get('location')!);
    expect(answer.text).toContain('value="good_till_cancelled" selected');
    expect(fieldOf(answer, 'contracts')).toContain('7');
  }
  for (const foreign of [
    '//evil.example',
    '/dashboard/marketsevil',
    'https://evil.example/dashboard/markets',
  ]) {
    const away = await postForm(browser, `${PATH}/watched`, { station: 'KNYC', watch: 'yes', back: foreign });
    expect(away.headers.get('location')).toBe(`${PATH}?station=KNYC`);
  }
});

it('a typed size stays for every other purchase, and one that the page chose does not', async () => {
  const { ticker, eventTicker } = openMarket();
  const { browser } = await signedIn(database.db, service.url);
  const sizesAt = async (query: string) => {
    const page = await getPage(browser, `${PATH}/${ticker}?side=no&action=buy${query}`);
    const links = linksOf(page).filter(
      (link) => link.startsWith(`${PATH}/${eventTicker}-`) && /action=buy(?!.*timeInForce)/.test(link),
    );
    expect(links.some((link) => !link.includes(ticker))).toBe(true);
    return {
      sizes: [...new Set(links.map((link) => new URL(link, 'http://x').searchParams.get('contracts')))],
      isSuggested: page.text.includes('data-suggested'),
      size: fieldOf(page, 'contracts').at(-1),
    };
  };
  expect(await sizesAt('&contracts=5')).toEqual({ sizes: ['5'], isSuggested: false, size: '5' });
  expect(await sizesAt('&contracts=5&size=suggested')).toEqual({
    sizes: [null],
    isSuggested: true,
    size: '5',
  });
  expect(await sizesAt('')).toMatchObject({ sizes: [null], isSuggested: true });
  expect(await sizesAt('&contracts=x')).toMatchObject({ sizes: [null] });
});

it('a bid of the order book becomes the limit of a resting purchase or of a sale, and an ask one that fills', async () => {
  const { ticker, eventTicker } = openMarket();
  const { browser, organization } = await signedIn(database.db, service.url);
  const book = async (query = '') => {
    const page = await getPage(
      browser,
      `${PATH}/${ticker}?side=yes&observed=keep${query || '&action=buy&contracts=5'}`,
    );
    return ['bid', 'ask'].map((part) => {
      const [, href] = new RegExp(`class="${part} price">\\s*<a href="([^"]+)"`).exec(page.text)!;
      return href!.replaceAll('&amp;', '&');
    }) as [string, string];
  };
  const [bid, ask] = await book();
  const rests = await getPage(browser, bid);
  expect(rests.text).toContain('value="good_till_cancelled" selected');
  expect(textOf(rests)).toMatch(/Nothing fills now\. All 5 rest in the book.* If it fills \+\$/);
  const terms = Object.fromEntries(new URL(bid, service.url).searchParams);
  await postForm(browser, `${PATH}/${ticker}`, { ...terms, id: newFormId(service.clock.now()) });
  // The level is the venue's, without the order.
  expect(textOf(await getPage(browser, bid))).toMatch(/\d \+ 5 yours/);
  expect(ask).toContain('timeInForce=immediate_or_cancel');
  expect(textOf(await getPage(browser, ask))).toMatch(PLACE);
  const [, afterPostOnly] = await book(
    '&action=buy&timeInForce=good_till_cancelled&postOnly=yes&limitPrice=1',
  );
  expect(afterPostOnly).toContain('postOnly=no');
  const at = new Date(NOON);
  await database.db.orm.insert(tradingPositions).values({
    orgId: organization.id,
    mode: 'paper',
    ticker,
    eventTicker,
    side: 'yes',
    contracts: 3,
    cost: 1_200_000n,
    realised: 0n,
    fees: 0n,
    openedAt: at,
    updatedAt: at,
  });
  expect((await book())[0]).toBe(bid);
  const [sale] = await book('&action=sell&contracts=3');
  const sold = await getPage(browser, sale);
  expect(textOf(sold)).toContain('Sell 3 YES at');
  expect(textOf(sold)).toMatch(PLACE);
});

it('a ticket for a market that is no longer listed opens its day', async () => {
  const gone = await getPage(owner.browser, `${PATH}/KXHIGHNY-20JAN05-B60.5`);
  expect([gone.status, gone.headers.get('location')]).toEqual([303, `${PATH}?station=KNYC&date=2020-01-05`]);
  expect((await getPage(owner.browser, `${PATH}/KXHIGHNY`)).status).toBe(404);
  expect((await getPage(owner.browser, `${PATH}/%3Cb%3E-20JAN05`)).status).toBe(404);
});

it('the stake has a label, an amount and ends that stay, whatever is typed', async () => {
  const { ticker } = openMarket();
  const { browser } = await signedIn(database.db, service.url);
  const sliderOf = async (contracts: string) => {
    const page = await getPage(browser, `${PATH}/${ticker}?side=yes&action=buy&contracts=${contracts}`);
    const [, most] = /type="range" min="1" max="(\d+)"/.exec(page.text)!;
    expect(textOf(page)).toMatch(
      new RegExp(`Cost \\$\\d+\\.\\d\\d 1 to ${most}: (all that is offered|your risk limit|all your cash)`),
    );
    return Number(most);
  };
  const most = await sliderOf('1');
  expect(most).toBeGreaterThan(1);
  expect(await sliderOf('2')).toBe(most);
  const rests = 'contracts=2&limitPrice=1&timeInForce=good_till_cancelled';
  const below = await getPage(browser, `${PATH}/${ticker}?side=yes&action=buy&${rests}`);
  expect(below.text).toContain('type="range" min="1"');
  expect(textOf(below)).not.toMatch(/all that is offered|all your cash/);
});

it.each(['member', 'billing'] as const)('%s sees every quote and cannot order', async (role) => {
  const { browser, organization } = await signedIn(database.db, service.url, role);
  const market = openMarket();
  const at = new Date(NOON);
  await database.db.orm.insert(tradingPositions).values({
    orgId: organization.id,
    mode: 'paper',
    ticker: market.ticker,
    eventTicker: market.eventTicker,
    side: 'yes',
    contracts: 7,
    cost: 2_800_000n,
    realised: 0n,
    fees: 0n,
    openedAt: at,
    updatedAt: at,
  });
  const desk = await getPage(browser, `${PATH}?station=${market.station.id}&date=${market.date}`);
  expect(textOf(desk)).toContain('You hold 7 YES');
  expect(desk.text).not.toMatch(/href="[^"]*action=sell[^"]*">(Sell|Close)</);
  const page = await getPage(browser, `${PATH}/${market.ticker}`);
  expect(page.status).toBe(200);
  expect(textOf(page)).toContain('Maximum payout');
  expect(textOf(page)).toContain(`Your role is ${role}.`);
  expect(textOf(page)).not.toMatch(PLACE);
  expect((await postForm(browser, `${PATH}/${market.ticker}`, form(market))).status).toBe(403);
});

it('cash and positions belong to the viewer’s Organization', async () => {
  const { ticker, eventTicker } = openMarket();
  const other = await signedIn(database.db, service.url);
  const at = new Date(NOON);
  const account = { orgId: other.organization.id, mode: 'paper' as const };
  await database.db.orm.insert(tradingAccounts).values({ ...account, cash: 123_450_000n, openedAt: at });
  await database.db.orm.insert(tradingPositions).values({
    ...account,
    ticker,
    eventTicker,
    side: 'yes',
    contracts: 77,
    cost: 30_800_000n,
    realised: 0n,
    fees: 0n,
    openedAt: at,
    updatedAt: at,
  });
  const pages = async (browser: Browser) =>
    textOf(await getPage(browser, `${PATH}?station=KNYC`)) +
    textOf(await getPage(browser, `${PATH}/${ticker}`));
  const theirs = await pages(other.browser);
  expect(theirs).toContain('You hold 77 YES at 40¢');
  expect(theirs).toContain('$123.45');
  const own = await pages(owner.browser);
  expect(own).not.toContain('77 YES');
  // Beside the heading, with a link to the table.
  expect(theirs).toMatch(/Shortcuts\? Cash \$123\.45 · 1 position \$[\d.]+, [+−]\$[\d.]+/);
  expect(own).not.toContain('Cash $');
  expect(own).not.toContain('$123.45');
});

it('a form sent twice places one order and redirects to it both times', async () => {
  const market = openMarket();
  const { browser, organization } = await signedIn(database.db, service.url);
  const sent = form(market);
  const path = `${PATH}/${market.ticker}`;
  const [first, second] = await Promise.all([postForm(browser, path, sent), postForm(browser, path, sent)]);
  const third = await postForm(browser, path, sent);
  expect([first.status, second.status, third.status]).toEqual([303, 303, 303]);
  const { trades } = await service.trading.orders.list({ orgId: organization.id, limit: 10 });
  expect(trades).toHaveLength(1);
  expect(trades[0]).toMatchObject({ ticker: market.ticker, mode: 'paper', contracts: 2, filledContracts: 2 });
  const terms = `limitPrice=${sent.limitPrice}&timeInForce=${sent.timeInForce}`;
  const desk = `${path}?side=yes&action=buy&contracts=2&${terms}&order=${trades[0]!.id}`;
  const told = [first, second, third].map(({ headers }) => headers.get('location')!);
  expect(told.toSorted()).toEqual([
    `${desk}&done=placed#review`,
    `${desk}&done=repeated#review`,
    `${desk}&done=repeated#review`,
  ]);
  expect(told[2]).toContain('done=repeated');
  const { balanceChange } = trades[0]!;
  const placed = textOf(await getPage(browser, `${desk}&done=placed`));
  expect(placed).toContain(`Bought 2 YES for ${formatMoney(-balanceChange)}, fee included.`);
  expect(placed).toMatch(/Buy 2 YES limit .* Filled 2 at /);
  expect(textOf(await getPage(browser, `${desk}&done=repeated`))).toContain('It was not placed again.');
  // Another Organization sees neither the order nor its notice.
  const others = textOf(await getPage(owner.browser, `${desk}&done=placed`));
  expect(others).not.toContain('Bought 2 YES');
});

const linksBack = (text: string) =>
  [...text.matchAll(/\/cancel" data-in-place.*?name="back" value="([^"]*)"/gs)].map(([, back]) => back!);

it('a resting order can be placed, decreased and cancelled without scripts', async () => {
  const market = openMarket();
  const { browser, organization } = await signedIn(database.db, service.url);
  const path = `${PATH}/${market.ticker}`;
  const kept = { timeInForce: 'good_till_canceled', postOnly: 'yes', observed: 'keep' };
  const waits = { ...kept, limitPrice: '1', contracts: '8' };
  const query = new URLSearchParams({ side: 'yes', action: 'buy', ...waits });
  const reviewed = await getPage(browser, `${path}?${query.toString()}`);
  expect(textOf(reviewed)).toMatch(/Nothing fills now\. All 8 rest in the book/);
  expect(fieldOf(reviewed, 'postOnly').at(-1)).toBe('yes');
  expect(fieldOf(reviewed, 'observed').at(-1)).toBe('keep');
  // The maximum so far is two degrees below the bracket.
  const refused = await postForm(browser, path, form(market, { ...waits, observed: 'cancel' }));
  expect(textOf(refused)).toContain('one minute at 95 °F would decide it');
  const placed = await postForm(browser, path, form(market, waits));
  expect(placed.status).toBe(303);
  const desk = placed.headers.get('location')!;
  const order = `/dashboard/portfolio/orders/${new URLSearchParams(desk.split(/[?#]/)[1]).get('order')}`;
  const shown = await getPage(browser, desk);
  expect(textOf(shown)).toContain('Buy 8 YES at 1¢ rests in the book.');
  expect(textOf(shown)).toMatch(/Free cash \$999\.\d\d, besides \$0\.\d\d reserved by resting orders/);
  expect(textOf(shown)).toMatch(/Open 0 of 8 filled reserved \$0\.\d\d \d/);
  expect(shown.text).toMatch(/<a href="[^"]*">All outcomes<\/a>/);
  // A cancellation returns to the part of the page that it was made in.
  const backs = async (address: string) =>
    linksBack((await getPage(browser, address)).text).map((back) => back.includes('show=orders'));
  expect(await backs(desk.replace('#', '&show=orders#'))).toEqual([false, true]);
  expect(await backs(desk)).toEqual([false, false]);
  // Beside the receipt, and in the order's row.
  expect(shown.text.split(`action="${order}/cancel"`)).toHaveLength(3);
  expect([fieldOf(shown, 'contracts')[0], fieldOf(shown, 'limitPrice')[0]]).toEqual(['8', '1']);
  const portfolio = await getPage(browser, '/dashboard/portfolio');
  // The portfolio cancels in place too, and every row of an outcome opens its ticket with its side.
  expect(portfolio.text).toMatch(
    new RegExp(`action="${order}/cancel" data-in-place="book-title">\\s+.*"portfolio">`),
  );
  expect(linksOf(portfolio)).toContain(`${path}?side=yes`);
  expect(shown.text).toContain('value="good_till_cancelled" selected');
  expect(shown.text).toMatch(/name="observed"\s+value="keep"\s+checked/);

  for (const remainingContracts of ['', '9', '-1', '<b>']) {
    const refused = await postForm(browser, `${order}/decrease`, { remainingContracts });
    expect([remainingContracts, refused.status]).toEqual([remainingContracts, 400]);
    expect(textOf(refused)).toMatch(/Remaining contracts: Must be (at most 8|a number of contracts)/);
    expect(refused.text).not.toContain('<b>');
  }
  for (let i = 0; i < 2; i++) {
    const decreased = await postForm(browser, `${order}/decrease`, { remainingContracts: '3' });
    expect(decreased.headers.get('location')).toBe(`${order}?done=decreased`);
  }
  expect(textOf(await getPage(browser, order))).toContain('Remaining 3');

  const user = await createUser(database.db);
  await addMember(database.db, organization.id, user.id, 'member');
  const member = { browser: new Browser(service.url) };
  await member.browser.signIn(user.email);
  expect((await getPage(member.browser, order)).text).not.toContain('Cancel order');
  expect((await getPage(member.browser, desk)).text).not.toContain(`action="${order}/cancel"`);
  for (const [from, told] of [
    ['desk', `${path}?order=${order.split('/').at(-1)}&done=cancelled`],
    ['ticket', `${path}?order=${order.split('/').at(-1)}&done=cancelled&from=ticket#review`],
    ['portfolio', '/dashboard/portfolio?done=cancelled'],
    ['<b>', `${order}?done=cancelled`],
  ] as const) {
    const cancelled = await postForm(browser, `${order}/cancel`, { from });
    expect(cancelled.headers.get('location')).toBe(told);
  }
  // The answer stands where the button was.
  const answer = textOf(
    await getPage(browser, `${path}?from=ticket&order=${order.split('/').at(-1)}&done=cancelled`),
  );
  expect(answer).toContain('Your order Order cancelled.');
  const told = await getPage(browser, '/dashboard/portfolio?done=cancelled');
  expect(textOf(told)).toContain('All orders Order cancelled. The unfilled part is no longer in the book.');
  expect(textOf(await getPage(browser, desk))).toContain('Order cancelled. Nothing was filled.');
  const { trades } = await service.trading.orders.list({ orgId: organization.id, limit: 10 });
  expect(trades).toMatchObject([{ status: 'cancelled', contracts: 3, reason: 'Cancelled on request.' }]);
});

it('after a purchase, the ladder offers what the ticket offers', async () => {
  const market = openMarket();
  const { browser } = await signedIn(database.db, service.url);
  const [best] = asksOf(snapshot().data.books.get(market.ticker)!, 'yes');
  const offers = async () => {
    const text = textOf(await getPage(browser, `${PATH}/${market.ticker}`));
    const label = bracketLabel(market.bracket);
    return [`Buy YES ${label} at `, 'Buy YES '].map((before) => text.split(before).at(-1)!.split(' ')[0]);
  };
  expect(await offers()).toEqual([formatPrice(best!.price), formatPrice(best!.price)]);
  const all = form(market, { contracts: String(best!.contracts) });
  expect((await postForm(browser, `${PATH}/${market.ticker}`, all)).status).toBe(303);
  const [inLadder, inTicket] = await offers();
  expect(inLadder).toBe(inTicket);
  expect(inTicket).not.toBe(formatPrice(best!.price));
});

it('a ticket promises the reserve that its resting order takes, also if the order closes pairs', async () => {
  const market = openMarket();
  const { ticker, eventTicker } = market;
  const { browser, organization } = await signedIn(database.db, service.url);
  const kept = { timeInForce: 'good_till_canceled', postOnly: 'yes', observed: 'keep' };
  const terms = { ...kept, limitPrice: '1', contracts: '800' };
  const query = new URLSearchParams({ side: 'yes', action: 'buy', ...terms });
  const promised = async () => {
    const text = textOf(await getPage(browser, `${PATH}/${ticker}?${query.toString()}`));
    return /Reserved (?:while it rests|closing your NO pays for it) (\$[\d.]+)/.exec(text)?.[1];
  };
  const place = async () => {
    const before = await promised();
    expect((await postForm(browser, `${PATH}/${ticker}`, form(market, terms))).status).toBe(303);
    const [order] = await database.db.orm
      .select({ id: tradingOrders.id, reserved: tradingOrders.reserved })
      .from(tradingOrders)
      .where(eq(tradingOrders.orgId, organization.id))
      .orderBy(desc(tradingOrders.createdAt))
      .limit(1);
    return [before, formatMoney(order!.reserved), order!.id];
  };
  const [free, taken, id] = await place();
  expect(free).toBe(taken);
  expect(free).not.toBe('$0.00');
  // One amount is the same in the header, in the ticket, in the portfolio and on the order's page.
  const read = async (path: string) => textOf(await getPage(browser, path));
  const desk = await read(`${PATH}/${ticker}?order=${id}&done=placed`);
  const [, cash] = /Free cash (\S+), besides/.exec(desk)!;
  expect(desk).toContain(`cash ${cash}`);
  expect(desk).toContain(`besides ${taken} reserved by resting orders`);
  expect(await read('/dashboard/portfolio')).toContain(`${taken} of it reserved`);
  expect(await read(`/dashboard/portfolio/orders/${id}`)).toContain(`Reserved ${taken}`);
  await database.db.orm.delete(tradingOrders).where(eq(tradingOrders.orgId, organization.id));
  await database.db.orm.insert(tradingPositions).values({
    orgId: organization.id,
    mode: 'paper',
    ticker,
    eventTicker,
    side: 'no',
    contracts: 40,
    cost: 20_000_000n,
    realised: 0n,
    fees: 0n,
    openedAt: new Date(NOON),
    updatedAt: new Date(NOON),
  });
  service.clock.advance(1);
  expect((await place()).slice(0, 2)).toEqual(['$0.00', '$0.00']);
  await database.db.orm.delete(tradingOrders).where(eq(tradingOrders.orgId, organization.id));
});

it.each([
  ['expiresAt', { timeInForce: 'good_till_time' }, /Expires at: Required for good till time/],
  ['expiresAt', { timeInForce: 'good_till_time', expiresAt: 'soon' }, /Expires at: Must be a time/],
  ...['immediate_or_cancel', 'fill_or_kill', 'good_till_cancelled'].map(
    (timeInForce): [string, Record<string, string>, RegExp] => [
      'expiresAt',
      { timeInForce, expiresAt: '2130-01-01T12:00' },
      /Expires at: Filled in, but another option is selected/,
    ],
  ),
  ...['immediate_or_cancel', 'fill_or_kill'].map((timeInForce): [string, Record<string, string>, RegExp] => [
    'postOnly',
    { timeInForce, postOnly: 'yes' },
    /Post only: Only for orders that rest in the book/,
  ]),
  [
    'postOnly',
    { timeInForce: 'good_till_cancelled', postOnly: 'maybe' },
    /Post only: Must be one of the options/,
  ],
  ['timeInForce', { timeInForce: 'good_till_never' }, /Order type .*Must be one of the options/],
])('a resting order is refused for its %s in %j', async (_field, changes, words) => {
  const market = openMarket();
  const page = await postForm(owner.browser, `${PATH}/${market.ticker}`, form(market, changes));
  expect([page.status, textOf(page)]).toEqual([400, expect.stringMatching(words)]);
});

it('a placed order matches its quote', async () => {
  const market = openMarket();
  const { browser, organization } = await signedIn(database.db, service.url);
  const path = `${PATH}/${market.ticker}`;
  const page = await getPage(browser, `${path}?side=yes&action=buy&contracts=3`);
  const [cost, after] = [/Cost \$([\d.]+)/, /Cash after \$([\d.]+)/].map(
    (pattern) => pattern.exec(textOf(page))![1],
  );
  const names = ['side', 'action', 'contracts', 'limitPrice'];
  const placed = Object.fromEntries(names.map((name) => [name, fieldOf(page, name).at(-1)!]));
  const answer = await postForm(browser, path, {
    ...placed,
    id: fieldOf(page, 'id')[0]!,
    timeInForce: 'immediate_or_cancel',
  });
  expect(answer.status).toBe(303);
  const { trades } = await service.trading.orders.list({ orgId: organization.id, limit: 1 });
  expect(formatMoney(-trades[0]!.balanceChange)).toBe(`$${cost}`);
  expect(Number(cost) + Number(after)).toBeCloseTo(1000, 9);
  expect(trades[0]!.balanceChange % 10_000n).not.toBe(0n);
  expect(textOf(await getPage(browser, '/dashboard/portfolio'))).toContain(`$${after}`);
});

it('a quote is checked against the prices of its own page, even if they move during the request', async () => {
  const { organization } = await signedIn(database.db, service.url);
  const { snapshots, orders } = service.trading;
  const [before, { ticker, yesAsk }] = [snapshots.current!, openMarket()];
  const books = new Map([...before.data.books, [ticker, emptyBook] as const]);
  snapshots.replace({ ...before, data: { ...before.data, books } });
  const order = { ticker, side: 'yes', action: 'buy', contracts: 1, limitPrice: yesAsk! } as const;
  const asked = { ...order, orgId: organization.id, mode: 'paper', idempotencyKey: '' };
  const { refusal } = await orders
    .preview({ ...asked, timeInForce: 'immediate_or_cancel' } as PaperOrder, before)
    .finally(() => snapshots.replace(before));
  expect(refusal).toBeUndefined();
});

describe('an order that would be refused', () => {
  const review = async (browser: Browser, query: string) => {
    const page = await getPage(browser, `${PATH}/${openMarket().ticker}?side=yes&action=buy&${query}`);
    const link = /href="([^"]+)">Use /.exec(page.text)?.[1]!.replaceAll('&amp;', '&');
    return { page, text: textOf(page), link };
  };
  const limitOf = (more: bigint) => inCents(openMarket().yesAsk! + more);

  it.each([
    { query: () => `contracts=1&limitPrice=${limitOf(150_000n)}`, says: /Limit: at most \d\d?¢ now\./ },
    {
      query: () => `contracts=1&limitPrice=${limitOf(-10_000n)}`,
      says: /Your limit does not fit the order book\..*Limit: at least \d\d?¢ now\./,
    },
    {
      query: () => `contracts=90000&limitPrice=${limitOf(0n)}`,
      says: /order is for 90,000 contracts of .* the limit is 1,000\..*Contracts: at most \d+ now\. With one more, this order may cost \$\d+\.\d\d; the limit is \$250/,
    },
  ])('is not offered, and names a number that would pass: $says', async ({ query, says }) => {
    const { browser } = await signedIn(database.db, service.url);
    const { page, text, link } = await review(browser, query());
    expect([page.status, text]).toEqual([200, expect.stringMatching(says)]);
    expect(text).not.toMatch(PLACE);
    expect(text).not.toContain(openMarket().ticker);
    const better = await getPage(browser, link!);
    expect(textOf(better)).toMatch(PLACE);
    const names = ['id', 'side', 'action', 'contracts', 'limitPrice', 'timeInForce'];
    const fields = Object.fromEntries(names.map((name) => [name, fieldOf(better, name).at(-1)!]));
    expect((await postForm(browser, `${PATH}/${openMarket().ticker}`, fields)).status).toBe(303);
  });

  it('offers as many contracts as an order may have, at a limit that follows them', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const { link, text } = await review(browser, 'contracts=5000');
    expect(text).toMatch(/A limit stops this order\..* Use [\d,]+/);
    expect(link).toMatch(/contracts=\d+/);
    expect(link).not.toContain('limitPrice');
  });

  it('for a switch or lack of cash says so and writes nothing', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const query = `contracts=1&limitPrice=${limitOf(0n)}`;
    expect((await review(browser, query)).text).toMatch(PLACE);
    const accounts = await database.db.orm.select().from(tradingAccounts);
    expect(accounts.filter(({ orgId }) => orgId === organization.id)).toEqual([]);
    await database.db.orm
      .insert(tradingAccounts)
      .values({ orgId: organization.id, mode: 'paper', cash: 10_000n, openedAt: new Date(NOON) });
    const poor = await review(browser, query);
    expect(poor.text).toContain('The cash does not cover this order');
    expect(poor.text).not.toMatch(PLACE);
    await database.db.orm.insert(tradingSwitches).values({
      orgId: organization.id,
      ownState: 'reduce_only',
      ownReason: 'r',
      ownAt: new Date(NOON),
    });
    const reducing = await review(browser, query);
    expect(reducing.text).toContain(
      "A limit stops this order. The Organization's own switch allows only orders that reduce a position (r).",
    );
    expect(reducing.text).not.toContain('reduce_only');
    expect(reducing.link).toBe(undefined);
  });
});

it('an order beyond the cash is refused with a message, the typed values and a fresh quote', async () => {
  const market = openMarket();
  const { browser, organization } = await signedIn(database.db, service.url);
  const path = `${PATH}/${market.ticker}`;
  const at = new Date(NOON);
  await database.db.orm
    .insert(tradingAccounts)
    .values({ orgId: organization.id, mode: 'paper', cash: 10_000n, openedAt: at });
  const sent = form(market, { contracts: '5' });
  const page = await postForm(browser, path, sent);
  expect(page.status).toBe(422);
  expect(textOf(page)).toContain('The cash does not cover this order');
  expect(fieldOf(page, 'contracts')[0]).toBe('5');
  expect(fieldOf(page, 'id')[0]).not.toBe(sent.id);
});

it.each<{ code: ErrorCode; status: number; says: string }>([
  { code: 'price_moved', status: 422, says: 'The price has moved' },
  { code: 'risk_limit', status: 422, says: 'A limit stops this order' },
  { code: 'insufficient_funds', status: 422, says: 'The cash does not cover this order' },
  { code: 'insufficient_position', status: 422, says: 'You do not hold that many' },
  { code: 'market_closed', status: 409, says: 'This market is not taking orders' },
  { code: 'idempotency_conflict', status: 409, says: 'This form was already used for another order' },
  { code: 'market_data_stale', status: 503, says: 'The prices are too old to trade on' },
])('$code is explained with the reason and a fresh quote', async ({ code, status, says }) => {
  const market = openMarket();
  const reason = `<i>${uuid()}</i>`;
  service.trading.orders = { ...realOrders, place: () => Promise.reject(new AppError(code, reason)) };
  const sent = form(market, { contracts: '4' });
  const page = await postForm(owner.browser, `${PATH}/${market.ticker}`, sent);
  expect(page.status).toBe(status);
  expect(textOf(page)).toContain(says);
  expect(textOf(page)).toContain(reason);
  expect(page.text).not.toContain(reason);
  expect(fieldOf(page, 'contracts')[0]).toBe('4');
  expect(textOf(page)).toContain('Buy 4 YES');
  expect(fieldOf(page, 'id')[0]).not.toBe(sent.id);
});

it('a limit that stops an order is explained in a sentence, without the name of its check', async () => {
  const market = openMarket();
  const refusal = new AppError('risk_limit', 'max_event_loss: with this order it could lose $6.00.');
  service.trading.orders = { ...realOrders, place: () => Promise.reject(refusal) };
  const page = await postForm(owner.browser, `${PATH}/${market.ticker}`, form(market));
  expect(textOf(page)).toContain('With this order it could lose $6.00.');
  expect(textOf(page)).not.toContain('max_event_loss');
});

it.each([
  { changes: { contracts: '1e9' }, says: 'From 0.01 to 1,000 (your risk limit for one order)' },
  { changes: { contracts: '' }, says: 'Required' },
  { changes: { limitPrice: '4\u0000' }, says: 'Must be more than 0 and less than 100 cents, like 42.' },
  { changes: { side: 'both' }, says: 'Nothing was changed. Please correct this field' },
])('a posted form with $changes orders nothing and keeps the typed values', async ({ changes, says }) => {
  const market = openMarket();
  service.trading.orders = { ...realOrders, place: () => Promise.reject(new Error('ordered')) };
  const page = await postForm(owner.browser, `${PATH}/${market.ticker}`, form(market, changes));
  expect([page.status, textOf(page)]).toEqual([400, expect.stringContaining(says)]);
});

it('a form that was open for more than a day orders nothing and is renewed', async () => {
  const market = openMarket();
  service.trading.orders = { ...realOrders, place: () => Promise.reject(new Error('ordered')) };
  const old = newFormId(service.clock.now() - 25 * 3_600_000);
  const page = await postForm(owner.browser, `${PATH}/${market.ticker}`, form(market, { id: old }));
  expect([page.status, textOf(page)]).toEqual([
    400,
    expect.stringContaining('expired and was renewed. No order was placed'),
  ]);
});

async function signalsOn(browser: Browser, { station, date }: MarketEvent): Promise<string> {
  const text = textOf(await getPage(browser, `${PATH}?station=${station.id}&date=${date}`));
  return text.slice(text.search(/Signals (Gate|The prices)/));
}
const eventOf = ({ events, signals }: Snapshot, isWanted: (event: EventSignals) => boolean): MarketEvent => {
  const { eventTicker } = signals.events.find(isWanted)!;
  return events.find((event) => event.eventTicker === eventTicker)!;
};

it('withheld signals show their reason and link to the scores', async () => {
  const event = eventOf(snapshot(), ({ suppressed }) => suppressed.some(({ isWithheld }) => isWithheld));
  const text = await signalsOn(owner.browser, event);
  expect(text).toContain('Gate closed');
  expect(text).toMatch(/Withheld: \d+ purchases? /);
  expect(text).toContain('the forecast is not calibrated');
  expect(text).not.toContain('Open the ticket');
  // With all gates closed, the overview shows the same sentence as the scores page.
  expect(textOf(await getPage(owner.browser, PATH))).toMatch(/Signals are off: no(ne of \d+)? gate/);
  const page = await getPage(owner.browser, `${PATH}?station=${event.station.id}&date=${event.date}`);
  expect(linksOf(page)).toContain(`/dashboard/scores?station=${event.station.id}`);
});

describe('with calibrated forecasts and open gates', () => {
  let open: TestService;
  beforeAll(async () => {
    open = await startTestService(database.db, { trading: { selection } });
    open.clock.set(NOON);
    await open.trading.refresher.refresh();
    const current = open.trading.snapshots.current!;
    const { method, isCalibrated, fit } = calibrated;
    const weights: Record<string, number> = { main: 0.25, single: 0.75 };
    const toModels = ({ models }: DayForecast) =>
      models?.map((part) => ({ ...part, weight: weights[part.model] ?? 0 }));
    const forecasts = new Map(
      [...current.forecasts].map(([id, forecast]) => {
        const days = forecast.days.map((day) => ({
          ...day,
          method,
          isCalibrated,
          fit,
          models: toModels(day),
        }));
        return [id, { ...forecast, days }];
      }),
    );
    const gates = makeGates(
      true,
      stations.map(({ id }) => id),
      new Date(NOON),
    );
    const { data, events, signals } = current;
    const signalsNow = makeSignals({
      data,
      events,
      forecasts,
      gates,
      bankroll: signals.bankroll,
      at: new Date(NOON),
    });
    open.trading.snapshots.replace({ ...current, forecasts, gates, signals: signalsNow });
  });
  afterAll(() => open.stop());
  const opened = () =>
    eventOf(
      open.trading.snapshots.current!,
      ({ signals }) => signals.length > 1 && signals.some(({ contracts }) => contracts > 10),
    );

  it('the desk opens the best signal with its ticket, and counts withheld ones', async () => {
    const browser = owner.browser.copy(open.url);
    const { signals: report } = open.trading.snapshots.current!;
    const best = report.events
      .flatMap(({ signals }) => signals)
      .filter(({ isHedge }) => !isHedge)
      .sort((a, b) => b.edge - a.edge);
    expect(best.length).toBeGreaterThan(0);
    const page = await getPage(browser, PATH);
    const { market, side, contracts } = best[0]!;
    expect(page.text).toContain(`action="${PATH}/${market.ticker}#review"`);
    expect([fieldOf(page, 'side')[0], fieldOf(page, 'contracts')[0]]).toEqual([side, String(contracts)]);
    const text = textOf(page);
    // Market, ticket, what is held, and only then the background.
    const parts = [
      formatPoints(best[0]!.edge).replace('\u00a0', ' '),
      'Maximum payout',
      'Positions and orders',
      'Forecast Calibrated',
    ];
    const places = parts.map((part) => text.indexOf(part));
    expect(places).toEqual(places.filter((place) => place >= 0).toSorted((a, b) => a - b));
    open.clock.advance(61_000);
    const stale = await getPage(browser, PATH);
    open.clock.set(NOON);
    expect(textOf(stale)).toContain('No signals: the prices have expired.');
    expect(linksOf(stale).filter((link) => /limitPrice=\d+$/.test(link))).toEqual([]);
  });

  it('a city’s card, the line above the ladder and the ladder show the same signals', async () => {
    const browser = owner.browser.copy(open.url);
    const current = open.trading.snapshots.current!;
    const event = opened();
    const found = current.signals.events.find(({ eventTicker }) => eventTicker === event.eventTicker)!;
    const best = found.signals.toSorted((a, b) => b.edge - a.edge);
    const page = await getPage(browser, `${PATH}?station=${event.station.id}&date=${event.date}`);
    const text = textOf(page);
    const titles = best.map(
      ({ side, market }) => `Buy ${side.toUpperCase()} ${bracketLabel(market.bracket)}`,
    );
    expect(text).toContain(
      `${best.length} signals: ${titles[0]} ${formatPoints(best[0]!.edge)}`.replace('\u00a0', ' '),
    );
    const ladder = text.slice(
      text.indexOf('Forecast Market Bid Volume Buy YES Buy NO'),
      text.indexOf('Forecast Calibrated'),
    );
    expect(ladder.match(/Signal:/g)).toHaveLength(best.length);
    const card = textOf(await getPage(browser, `${PATH}?kind=${event.kind}&q=${event.station.id}`));
    const edge = formatPoints(best[0]!.edge).replace('\u00a0', ' ');
    expect(card).toMatch(new RegExp(`\\${edge} (Today|Tomorrow) · ${titles[0]!.replace('Buy ', '')}`));
  });

  it('signals show their total cost, possible loss and the forecast’s correction', async () => {
    const event = opened();
    const browser = owner.browser.copy(open.url);
    const { signals, worstCase } = open.trading.snapshots.current!.signals.events.find(
      ({ eventTicker }) => eventTicker === event.eventTicker,
    )!;
    const text = await signalsOn(browser, event);
    expect(text).toContain('Gate open');
    expect(text).toContain('For your paper account: $1,000.00 in cash.');
    expect(text).toContain(`together they lose ${formatMoney(worstCase)}.`);
    expect(text.match(/Open the ticket/g)).toHaveLength(signals.length);
    expect(text).toMatch(/ Stake \d.* Forecast \d.* Price (YES|NO) is .* Size The .* Evidence \w/);
    for (const { market, side, stake, reasons } of signals) {
      expect(text).toContain(`Buy ${side.toUpperCase()} ${bracketLabel(market.bracket)}`);
      expect(text).toContain(`stake ${formatMoney(stake)}`);
      for (const reason of reasons) expect(text).toContain(reason);
    }
    expect(text).not.toContain('not calibrated');
    const page = await getPage(browser, `${PATH}?station=${event.station.id}&date=${event.date}`);
    expect(textOf(page)).toMatch(/members .* expect [^,]+, corrected by 58 days to /);
    expect(textOf(page)).toMatch(
      /Weather models Single run 75% \([^)]+\), Ensemble 25% \([^)]+\), together /,
    );
  });

  it('signals are sized for the cash and positions of the viewer’s paper account', async () => {
    const event = opened();
    const { browser, organization } = await signedIn(database.db, open.url);
    const account = { orgId: organization.id, mode: 'paper' as const };
    const openedAt = new Date(NOON);
    await database.db.orm.insert(tradingAccounts).values({ ...account, cash: 40_000_000n, openedAt });
    const text = await signalsOn(browser, event);
    expect(text).toContain('For your paper account: $40.00 in cash.');
    const stakes = [...text.matchAll(/: stake \$([\d.]+)/g)].map(([, dollars]) => Number(dollars));
    // At most 5% of $40 per market and 10% per event.
    expect(stakes.every((stake) => stake <= 2)).toBe(true);
    expect(stakes.reduce((sum, stake) => sum + stake, 0)).toBeLessThanOrEqual(4);
    // An account whose holdings far exceed the event's cap gets no purchase signals.
    const market = event.markets.find(({ yesBid, status }) => yesBid !== null && status === 'active')!;
    await database.db.orm.insert(tradingPositions).values({
      ...account,
      ticker: market.ticker,
      eventTicker: event.eventTicker,
      side: 'yes',
      contracts: 100,
      cost: 40_000_000n,
      realised: 0n,
      fees: 0n,
      openedAt,
      updatedAt: openedAt,
    });
    const held = await signalsOn(browser, event);
    expect(held).toMatch(/For your paper account: \$40\.00 in cash and \$[\d.]+ in positions\./);
    expect(held).not.toContain('Open the ticket');
  });

  it('resting purchases are not proposed again, and their money counts as spent', async () => {
    const event = opened();
    const { browser, organization } = await signedIn(database.db, open.url);
    const [best] = open.trading.snapshots
      .current!.signals.events.find(({ eventTicker }) => eventTicker === event.eventTicker)!
      .signals.toSorted((a, b) => Number(b.price - a.price));
    const { market, side } = best!;
    const title = `Buy ${side.toUpperCase()} ${bracketLabel(market.bracket)}`;
    expect(await signalsOn(browser, event)).toContain(title);
    const bid = side === 'yes' ? market.yesBid! : market.noBid!;
    // Roughly as many contracts as one market's cap allows.
    const contracts = Math.floor(50_000_000 / Number(bid));
    const placed = await postForm(
      browser,
      `${PATH}/${market.ticker}`,
      form(market, {
        side,
        contracts: String(contracts),
        limitPrice: inCents(bid),
        timeInForce: 'good_till_cancelled',
        postOnly: 'yes',
        observed: 'keep',
      }),
    );
    expect(placed.status).toBe(303);
    const text = await signalsOn(browser, event);
    const [order] = await database.db.orm
      .select()
      .from(tradingOrders)
      .where(eq(tradingOrders.orgId, organization.id));
    expect(text).toContain(
      `For your paper account: ${formatMoney(1_000_000_000n - order!.reserved)} in cash and `,
    );
    expect(text).toContain(' in positions, counting resting orders as filled.');
    // The resting order's price is below the ask, so the signal may still suggest buying a few more contracts.
    const more = new RegExp(`${title} .*? (\\d+) at `).exec(
      text.slice(0, text.indexOf('Why the others have no signal')),
    )?.[1];
    expect(Number(more ?? 0)).toBeLessThan(contracts / 20);
  });

  it('signals from stale prices are not shown', async () => {
    const browser = owner.browser.copy(open.url);
    open.clock.advance(35_000);
    const current = await signalsOn(browser, opened());
    open.clock.advance(26_000);
    const { station, date } = opened();
    const text = textOf(await getPage(browser, `${PATH}?station=${station.id}&date=${date}`));
    open.clock.set(NOON);
    // A refresh that takes some seconds hides no signal.
    expect(current).toContain('Open the ticket');
    expect(text).toContain('No signal: the prices have expired.');
    expect(text).not.toContain('Open the ticket');
  });
});
