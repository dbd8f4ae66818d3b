import { beforeAll, describe, expect, it } from 'vitest';
import { v7 as uuid } from 'uuid';
import { createSimulatedWeatherSource } from '../../../src/markets/weather/simulated.js';
import { findFirstOrder } from '../../../src/markets/orders/first-order.js';
import { portfolioHistory } from '../../../src/markets/ledger/portfolio-table.js';
import { applySettlement } from '../../../src/markets/ledger/positions.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { addMember, Browser, createUser, signedIn } from '../../support/accounts.js';
import { createKey } from '../../support/fixtures.js';
import {
  bookTrade,
  MILD,
  writeWord,
  COLD,
  bookSettlement,
  createFixedVenue,
  WARM,
} from '../support/portfolio.js';
import { useService } from '../../support/use.js';

const venue = createFixedVenue(() => service.clock);
const weather = createSimulatedWeatherSource({
  clock: { now: () => service.clock.now() },
  seed: 'tests',
  weather: simulateWeather('tests'),
});
const { database, service } = useService({ trading: { markets: venue, weather } });

/** A user who may trade, holds COLD and WARM, and has an unfilled order. */
let trader: Awaited<ReturnType<typeof signedIn>>;
let stranger: Awaited<ReturnType<typeof signedIn>>;
let member: Browser;
let bought: string;
let cancelled: string;

const now = () => new Date(service.clock.now());
const html = { accept: 'text/html' };
const PATH = '/dashboard/portfolio';
const ticketPath = (ticker: string) => `/dashboard/markets/${ticker}`;
const sellPath = (ticker: string) => `${ticketPath(ticker)}?side=yes&action=sell`;

beforeAll(async () => {
  const { db } = database;
  await service.trading.refresher.refresh();
  [trader, stranger] = [await signedIn(db, service.url), await signedIn(db, service.url)];
  const orgId = trader.organization.id;
  const user = await createUser(db);
  await addMember(db, orgId, user.id, 'member');
  member = new Browser(service.url);
  await member.signIn(user.email);
  const key = await createKey(db, orgId, { name: 'my <b>bot</b>' });
  bought = await bookTrade(db, {
    orgId,
    by: { apiKeyId: key.id },
    at: new Date(now().getTime() - 3 * 3_600_000),
    fills: [
      ['0.60', 100, '1.68'],
      ['0.61', 20, '0.33'],
    ],
  });
  cancelled = await bookTrade(db, {
    orgId,
    by: { userId: trader.user.id },
    at: now(),
    ticker: WARM,
    contracts: 9,
    status: 'cancelled',
    reason: 'nothing stood within <i>the limit</i>',
  });
});

const sale = (fields: Record<string, string>) => ({
  side: 'yes',
  action: 'sell',
  limitPrice: '55',
  timeInForce: 'immediate_or_cancel',
  ...fields,
});

async function read(browser: Browser, path: string) {
  const { status, text } = await browser.get(path, html);
  const main = text.slice(text.indexOf('<main'));
  const words = main
    .replace(/<[^>]*>/g, ' ')
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&#39;/g, "'")
    .replace(/\s+/g, ' ');
  return { status, text, words };
}

describe('the portfolio', () => {
  it('of a new Organization shows its cash and the first steps', async () => {
    const newcomer = await signedIn(database.db, service.url);
    const { status, text, words } = await read(newcomer.browser, PATH);
    expect(status).toBe(200);
    expect(words).toContain('$1,000.00');
    expect(words).toContain('No paper trades yet');
    expect(text).toContain('href="/dashboard/markets"');
    expect(words).toContain(`curl ${service.url}/trade`);
    // The page's sample order can be placed as shown.
    const { secret } = await createKey(database.db, newcomer.organization.id, { scopes: ['trading:write'] });
    const order = findFirstOrder(service.trading.snapshots.current)!;
    expect(words.replaceAll('&#34;', '"')).toContain(JSON.stringify(order));
    const answer = await fetch(`${service.url}/trade`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${secret}`,
        'content-type': 'application/json',
        'idempotency-key': 'first-trade',
      },
      body: JSON.stringify(order),
    });
    expect(await answer.json()).toMatchObject({ trade: { status: 'filled', filledContracts: 5 } });
    expect((await read(stranger.browser, `${PATH}?mode=live`)).words).toContain('No live trades yet');
  });

  it('shows the balance, what it consists of and the positions, as the desk does', async () => {
    const { words, text } = await read(trader.browser, PATH);
    // 120 contracts were bought for 72.20 plus fees of 2.01. At the bid of 56¢ they are worth 67.20: 1000 − 74.21 +
    // 67.20 = 992.99. They sell for 64.9287.
    expect(words).toContain('$992.99 −$7.01 on $1,000.00 at last prices; −$9.28 if sold to the bids');
    expect(words).toContain('Cash $925.79');
    expect(words).toContain('Positions $67.20 at last prices, cost $72.20');
    expect(words).toContain('Unrealised −$5.00 −$7.27 if sold to the bids');
    expect(words).toContain('Realised $0.00 before fees of $2.01');
    const desk = await read(trader.browser, '/dashboard/markets');
    for (const page of [{ words, text }, desk]) {
      expect(page.words).toContain('New York high 59° or below 21 Nov 2026');
      expect(page.text).toContain(`href="/dashboard/markets/${COLD}?side=yes">`);
      expect(page.words).toMatch(/\$67\.20 −\$5\.00 (\S+ points )?valued at 56¢; sells for \$64\.93 Close/);
      expect(page.text).toContain(
        `href="${sellPath(COLD).replaceAll('&', '&amp;')}&amp;contracts=120#ticket-head"`,
      );
    }
    // Profit counts from the first recorded value: 67.20 − 72.20 − 2.01 is −7.01, and −9.28 if sold.
    await database.db.orm.insert(portfolioHistory).values({
      orgId: trader.organization.id,
      mode: 'paper',
      at: new Date(now().getTime() - 3_600_000),
      cash: 925_790_000n,
      liquidation: 67_200_000n,
      realised: 0n,
      unrealised: -5_000_000n,
      fees: 2_010_000n,
    });
    expect((await read(trader.browser, `${PATH}?range=day`)).words).toMatch(
      /−\$2\.27 since \d+ \w+ \d+, \d\d:\d\d UTC with positions sold to the bids/,
    );
    // The monthly chart has hourly steps, so a new account has no line there yet; the daily chart does.
    expect((await read(trader.browser, `${PATH}?range=day`)).text).toContain(
      '<svg class="plot" height="200" role="img"',
    );
  });

  it('switches between paper and live below the heading of each page, and marks only paper as invented', async () => {
    const { organization, browser } = await signedIn(database.db, service.url);
    await bookTrade(database.db, {
      orgId: organization.id,
      by: { userId: uuid() },
      at: now(),
      mode: 'live',
      fills: [['0.30', 1, '0']],
    });
    for (const page of ['', '/orders', '/risk']) {
      const { text } = await read(browser, `${PATH}${page}?mode=live`);
      expect(text).toMatch(/<\/header>\s*<nav[^>]* aria-label="Account">/);
      expect(text).not.toContain('Demo data');
    }
  });

  it('offers a sale only to roles that may trade', async () => {
    const { status, text } = await read(member, '/dashboard/markets');
    expect(status).toBe(200);
    expect(text).not.toContain('>Close<span');
    const ticket = await read(member, sellPath(COLD));
    expect(ticket.words).toContain('only owners and admins can place orders');
    expect(ticket.text).not.toContain('name="id"');
    const form = { id: uuid(), ...sale({ contracts: '1' }) };
    expect((await member.send('POST', ticketPath(COLD), { form, headers: html })).status).toBe(403);
    expect((await read(trader.browser, `${PATH}?mode=live`)).text).not.toContain('action=sell');
  });

  it.each(['?mode=test', '?range=century', '?mode=paper&mode=live'])('%s is refused', async (query) => {
    expect((await read(trader.browser, PATH + query)).status).toBe(400);
  });
});

describe('orders', () => {
  it('are listed newest first, with state, reason and author as plain text', async () => {
    const { words, text } = await read(trader.browser, `${PATH}/orders`);
    expect(words.indexOf('Buy 9 YES')).toBeLessThan(words.indexOf('Buy 120 YES'));
    expect(words).toContain('Cancelled nothing stood within <i>the limit</i>');
    expect(words).toContain('by my <b>bot</b>');
    expect(words).toContain(`by ${trader.user.name}`);
    expect(text).not.toContain('<b>bot</b>');
    expect((await read(stranger.browser, `${PATH}/orders`)).words).toContain('No paper orders yet');
  });

  it('have a page each, with fills and their author', async () => {
    const { words } = await read(trader.browser, `${PATH}/orders/${bought}`);
    expect(words).toContain('Buy 120 YES');
    expect(words).toContain('120 of 120 60.17¢ on average');
    expect(words).toContain('API key my <b>bot</b>');
    expect(words).toContain('1 60¢ 100 $60.00 $1.68 −$61.68');
    expect((await read(trader.browser, `${PATH}/orders/${cancelled}`)).words).toContain('No fills.');
  });

  it('are paginated', async () => {
    const { organization, browser } = await signedIn(database.db, service.url);
    for (let i = 0; i < 26; i++)
      await bookTrade(database.db, {
        orgId: organization.id,
        by: { userId: uuid() },
        at: new Date(now().getTime() + i),
        contracts: i + 1,
        status: 'cancelled',
      });
    const first = await read(browser, `${PATH}/orders`);
    expect(first.words).toContain('Buy 26 YES');
    expect(first.words).not.toContain('Buy 1 YES');
    const next = /rel="next" href="([^"]+)"/.exec(first.text)![1]!.replaceAll('&amp;', '&');
    const second = await read(browser, next);
    expect(second.words).toContain('Buy 1 YES');
    expect(second.words).toContain('by a former member');
    expect((await read(browser, `${PATH}/orders?cursor=x`)).status).toBe(400);
  });

  it('are filtered by status, city and day, and keep the filters in links', async () => {
    const { organization, browser } = await signedIn(database.db, service.url);
    const book = (order: { ticker?: string; contracts: number; status?: 'resting'; daysAgo?: number }) =>
      bookTrade(database.db, {
        orgId: organization.id,
        by: { userId: uuid() },
        status: 'cancelled',
        ...order,
        at: new Date(now().getTime() - (order.daysAgo ?? 0) * 86_400_000),
      });
    for (let i = 0; i < 26; i++) await book({ contracts: 100 + i });
    await book({ contracts: 1, status: 'resting' });
    await book({ contracts: 2, ticker: 'KXLOWTCHI-26NOV19-T30', daysAgo: 2 });
    await book({ contracts: 3, ticker: 'HIGHNY-26NOV18-T60', daysAgo: 3 });
    const shown = async (query: string) => {
      const { text } = await read(browser, `${PATH}/orders?${query}`);
      return [...text.matchAll(/>Buy (\d+)\s+YES</g)].map(([, contracts]) => Number(contracts));
    };
    expect(await shown('status=open')).toEqual([1]);
    expect(await shown('station=KMDW')).toEqual([2]);
    const day = (daysAgo: number) =>
      new Date(now().getTime() - daysAgo * 86_400_000).toISOString().slice(0, 10);
    expect(await shown(`station=KNYC&to=${day(3)}`)).toEqual([3]);
    expect(await shown(`station=KNYC&status=cancelled&to=${day(2)}`)).toEqual([3]);
    expect(await shown(`from=${day(2)}&to=${day(2)}`)).toEqual([2]);
    expect(await shown('to=today&from=yesterday')).toHaveLength(25);
    expect((await shown('sort=oldest')).slice(0, 2)).toEqual([3, 2]);
    expect((await shown('sort=market')).at(0)).toBe(3);
    expect(await shown('station=KDEN')).toEqual([]);

    for (const sort of ['newest', 'oldest', 'market']) {
      const query = `status=cancelled&station=KNYC&sort=${sort}`;
      const { text } = await read(browser, `${PATH}/orders?${query}`);
      const next = /rel="next" href="([^"]+)"/.exec(text)![1]!.replaceAll('&amp;', '&');
      const second = await shown(next.split('?')[1]!);
      expect([...(await shown(query)), ...second].sort((a, b) => a - b)).toEqual([
        3,
        ...Array.from({ length: 26 }, (_, i) => 100 + i),
      ]);
    }
    expect((await read(browser, `${PATH}/orders?status=rejected`)).words).toContain('No orders match');
    expect((await read(stranger.browser, `${PATH}/orders?sort=market`)).words).toContain(
      'No paper orders yet',
    );
  });

  it.each([
    ['status=none', 'must be one of open'],
    ['station=XXXX', 'Must be one of the cities'],
    ['from=soon', 'Must be a date like 29 Nov 2026'],
    ['from=2026-11-20', 'Must not be after the last day'],
    ['sort=size', 'Must be one of newest'],
    ['mode=test', 'ust be paper or live'],
    ['cursor=x', 'ot a cursor from this list'],
    ['status=open&status=filled', 'ust appear only once'],
    ['station=%00', 'Must be one of the cities'],
    [`cursor=${Buffer.from(`${uuid()} %' or 1=1`).toString('base64url')}`, 'ot a cursor from this list'],
  ])('refuse %s and keep the other filters', async (query, message) => {
    const { status, words, text } = await read(trader.browser, `${PATH}/orders?${query}&to=2026-11-19`);
    expect(status).toBe(400);
    if (!query.includes('&')) expect(text).toContain('value="19 Nov 2026"');
    expect(words.toLowerCase()).toContain(message.toLowerCase());
  });

  it('say how much was filled, and why nothing was', async () => {
    const { organization, browser } = await signedIn(database.db, service.url);
    const reason = 'The book held 3 of 9 contracts at the limit price or better; the rest was cancelled.';
    const order = { by: { userId: uuid() }, at: now(), contracts: 9, reason };
    for (const part of [
      { status: 'cancelled' as const },
      { status: 'partially_filled' as const, fills: [['0.50', 3, '0'] as [string, number, string]] },
    ])
      await bookTrade(database.db, { orgId: organization.id, ...order, ...part });
    const { text } = await read(browser, `${PATH}/orders`);
    expect(text.split(`<bdi>${reason}</bdi>`)).toHaveLength(2);
    expect(text).toContain('>3 of 9 filled</span>');
  });

  it('export as a spreadsheet file with exact values and no formulas', async () => {
    const { text, headers } = await trader.browser.get(`${PATH}/trades.csv`, html);
    const [columns, first] = text.split('\r\n');
    expect(headers.get('content-disposition')).toMatch(/^attachment; filename="trades-paper-[\d-]+\.csv"$/);
    const cells = Object.fromEntries(
      columns!.split(',').map((name, i) => [name, first!.split(',')[i]!.replace(/^"(.*)"$/, '$1')]),
    );
    expect(cells).toMatchObject({
      order_id: bought,
      ticker: COLD,
      action: 'buy',
      filled_contracts: '120',
      value: '72.2000',
      fees: '2.0100',
      cash_change: '-74.2100',
      status: 'filled',
    });
    const { text: empty } = await stranger.browser.get(`${PATH}/trades.csv`, html);
    expect(empty.trim().split('\r\n')).toHaveLength(1);
  });
});

describe('settlements', () => {
  it('show what settled, why, what it paid, and corrections', async () => {
    const { organization, browser } = await signedIn(database.db, service.url);
    const orgId = organization.id;
    const by = { userId: uuid() };
    await bookTrade(database.db, { orgId, by, at: now(), ticker: MILD, fills: [['0.30', 10, '0.15']] });
    expect((await read(browser, PATH)).words).toContain('Nothing has settled yet');
    expect((await read(browser, `${PATH}/settlements?mode=live`)).words).toContain('Nothing has settled yet');
    const at = (seconds: number) => new Date(now().getTime() + seconds * 1000);
    const word = { orgId, ticker: MILD, temperature: 61, cost: '3.00', contracts: 10 };
    await writeWord(database.db, { ...word, at: at(0), n: 0, state: 'provisional', value: null });
    expect((await read(browser, PATH)).words).toContain(
      'Reported 61°F: YES wins The Weather Company says 61°F: each YES of 60° to 61° pays 100¢ if this stands. 10 YES $3.15 fees $0.15 $10.00 expected +$6.85',
    );
    await writeWord(database.db, { ...word, at: at(1), n: 1, state: 'determined', value: 1_000_000n });
    expect((await read(browser, PATH)).words).toContain(
      'Determined 61°F: YES wins The Weather Company says 61°F: each YES of 60° to 61° pays 100¢ if this stands. 10 YES $3.15 fees $0.15 $10.00 expected +$6.85',
    );
    const final = { orgId, ticker: MILD, temperature: 61, at: at(2), n: 2, value: 1_000_000n };
    await bookSettlement(database.db, { ...final, state: 'finalized' }, (held) =>
      applySettlement(held, 1_000_000n),
    );
    const amended = { ...word, temperature: 62, at: at(3), n: 3, value: 0n, cashChange: '-10.00' };
    await writeWord(database.db, { ...amended, state: 'finalized' });
    // It only confirms what was paid.
    await writeWord(database.db, { ...amended, n: 4, state: 'finalized', cashChange: '0' });
    const { words } = await read(browser, PATH);
    expect(words).toContain(
      'Final correction 62°F: NO wins The Weather Company says 62°F: each NO of 60° to 61° pays 100¢. 10 YES $3.15 fees $0.15 −$10.00 −$10.00',
    );
    expect(words).toContain(
      'Final 61°F: YES wins The Weather Company says 61°F: each YES of 60° to 61° pays 100¢. 10 YES $3.15 fees $0.15 $10.00 +$6.85',
    );
    const all = await read(browser, `${PATH}/settlements`);
    expect(all.words).toContain('−$3.15 after fees in 2 settlements: paid $3.15 with fees, payout $0.00');
    // The final result replaces the announced one.
    expect(words).not.toContain('Determined');
    expect((await read(browser, `${PATH}/settlements?cursor=x`)).status).toBe(400);
    expect((await read(stranger.browser, PATH)).words).not.toContain('62°F');

    for (let n = 5; n < 31; n++)
      await writeWord(database.db, { ...amended, at: at(n), n, temperature: 29 + n, state: 'finalized' });
    const shown = async (path: string) =>
      [...(await read(browser, path)).words.matchAll(/(\d\d)°F: NO/g)].map(([, degrees]) => Number(degrees));
    const count = (length: number, from: number) => Array.from({ length }, (_, i) => from - i);
    expect(await shown(PATH)).toEqual(count(5, 59));
    expect(await shown(`${PATH}/settlements`)).toEqual(count(25, 59));
    const { text } = await read(browser, `${PATH}/settlements`);
    const next = /rel="next" href="([^"]+)"/.exec(text)![1]!;
    expect(await shown(next)).toEqual([34, 62]);
    const own = await read(browser, `${PATH}/settlements?station=KNYC`);
    // The sum covers all pages.
    expect(own.words).toContain('−$263.15 after fees in 28 matching settlements: paid $3.15 with fees,');
    expect(own.text).toMatch(/<th scope="row" role="rowheader">\s*<span class="market-name">\s*<a href=/);
    expect(await shown(`${PATH}/settlements?kind=daily_maximum&from=today&to=today`)).toHaveLength(25);
    for (const narrowed of ['station=KMIA', 'kind=hourly', 'to=yesterday', 'from=2099-01-01'])
      expect((await read(browser, `${PATH}/settlements?${narrowed}`)).words).toContain(
        'No settlements match',
      );
    const refused = await read(browser, `${PATH}/settlements?from=soon&station=KNYC`);
    expect(refused.words).toContain('Must be a date like 29 Nov 2026');
    expect((await read(browser, `${PATH}/settlements?station=nowhere`)).status).toBe(400);
  });
});

describe('a sale', () => {
  const idOf = (text: string) => /name="id" value="([^"]+)"/.exec(text)![1]!;
  const post = ({ browser }: typeof trader, form: Record<string, string>) =>
    browser.send('POST', ticketPath(COLD), { form, headers: html });

  it('starts with the whole holding, at a price at which all of it sells, with an exact quote', async () => {
    const { words, text } = await read(trader.browser, sellPath(COLD));
    expect(words).toContain('Sell 120 YES at 55¢ or more');
    expect(words).toContain('120 × 55.83¢ on average');
    expect(words).toContain('You receive $64.93');
    expect(words).toContain('Profit or loss against the average cost, fee included −$7.27');
    expect(words).toContain('Remaining 0 contracts');
    expect(text).toMatch(/name="contracts"[^>]*value="120"/);
    expect(text).toMatch(/name="limitPrice"[^>]*value="55"/);
    const typed = await read(trader.browser, `${sellPath(COLD)}&contracts=110&limitPrice=56`);
    expect(typed.words).toContain('100 of 110 fill now');
    const tooMany = await read(trader.browser, `${sellPath(COLD)}&contracts=121&limitPrice=55`);
    expect(tooMany.words).toContain('121 YES of');
    expect(tooMany.words).toContain('but 120 are held. Use 120');
    expect(tooMany.words).not.toMatch(/Sell (on paper|anyway)/);
    const wrong = await read(trader.browser, `${sellPath(COLD)}&contracts=1&limitPrice=55.5`);
    expect(wrong.status).toBe(400);
  });

  it('that is currently impossible says why', async () => {
    for (const ticker of ['NO-SUCH', '%01'])
      expect((await read(trader.browser, sellPath(ticker))).status).toBe(404);
    expect((await read(trader.browser, sellPath(MILD))).words).toContain('You do not hold that many');
    venue.states.set(COLD, { status: 'closed' });
    await service.trading.refresher.refresh();
    expect((await read(trader.browser, sellPath(COLD))).words).toContain('This market is not open');
    const closed = await post(trader, { id: uuid({ msecs: now().getTime() }), ...sale({ contracts: '5' }) });
    expect([closed.status, closed.text.includes('its status is closed')]).toEqual([409, true]);
    venue.states.clear();
    await service.trading.refresher.refresh();
  });

  it('of another Organization’s holding is refused', async () => {
    expect((await read(stranger.browser, sellPath(COLD))).words).toContain('You do not hold that many');
    const answer = await post(stranger, {
      id: uuid({ msecs: now().getTime() }),
      ...sale({ contracts: '5' }),
    });
    expect([answer.status, answer.text.includes('You do not hold that many')]).toEqual([422, true]);
  });

  it('that is refused keeps the typed values and shows the error', async () => {
    const { text } = await read(trader.browser, sellPath(COLD));
    const send = (fields: Record<string, string>) => post(trader, { id: idOf(text), ...sale(fields) });
    const tooMany = await send({ contracts: '500' });
    expect(tooMany.status).toBe(422);
    expect(tooMany.text).toMatch(/name="contracts"[^>]*value="500"/);
    const tooDear = await send({ contracts: '5', limitPrice: '90' });
    expect(tooDear.status).toBe(422);
    expect(tooDear.text).toContain('The limit price is 90¢');
    expect((await send({ contracts: '5', limitPrice: '55.5' })).status).toBe(400);
    expect((await send({ contracts: '5\0' })).status).toBe(400);
    const old = await send({ id: uuid({ msecs: now().getTime() - 2 * 86_400_000 }), contracts: '5' });
    expect([old.status, old.text.includes('was renewed')]).toEqual([400, true]);
  });

  it('is made once, however often its form is sent, and matches its quote', async () => {
    const { text } = await read(trader.browser, sellPath(COLD));
    const form = { id: idOf(text), ...sale({ contracts: '120' }) };
    const [one, two] = [await post(trader, form), await post(trader, form)];
    expect([one.status, two.status]).toEqual([303, 303]);
    const desk = one.headers.get('location')!;
    expect(desk).toContain('&done=placed#review');
    expect(two.headers.get('location')).toBe(desk.replace('placed', 'repeated'));
    const path = `/dashboard/portfolio/orders/${new URLSearchParams(desk.split(/[?#]/)[1]).get('order')}`;
    const order = await read(trader.browser, path);
    expect(order.words).toContain('Cash +$64.93');
    const sold = await read(trader.browser, desk);
    expect(sold.words).toContain('Sold 120 YES for $64.93 after the fee.');
    expect(sold.text).toMatch(/name="contracts"[^>]*value="120"/);
    expect(order.words).toContain('Sell 120 YES');
    expect(order.words).toContain(`Placed by ${trader.user.name}`);
    expect(order.words).toContain('Profit or loss −$7.27 after fees');
    // 925.79 plus the quoted 64.9287.
    const { words } = await read(trader.browser, PATH);
    expect(words).toContain('$990.72 −$9.28 on $1,000.00');
    expect(words).toContain('Cash $990.72');
    expect((await read(trader.browser, sellPath(COLD))).words).toContain('You do not hold that many');
  });
});
