import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { newFormId } from '../../../src/core/ids.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { byService, change } from '../../../src/accounts/audit/audit.js';
import { riskLimits, tradingSwitches } from '../../../src/markets/ledger/risk-table.js';
import { CENT } from '../../../src/markets/market/money.js';
import { createHeldTickers } from '../../../src/markets/services/sources.js';
import { checkLedger } from '../../../src/markets/portfolio/ledger-check.js';
import { makeBook } from '../support/events.js';
import {
  useTradingTest,
  createTrader,
  postTrade,
  startTradingTest,
  TICKER,
  usualBook,
  type TradeAnswer,
  type TradeJson,
} from '../support/trade.js';
import { createKey } from '../../support/fixtures.js';
import { fieldOf, getPage, linksOf, postForm, textOf } from '../../accounts/api-keys/html.js';
import { signedIn, type Answer } from '../../support/accounts.js';
import { createListener, readWebhookMessages } from '../../support/webhook-messages.js';

const { database, service } = useTradingTest();
beforeEach(async () => {
  service.markets.change = {};
  service.markets.overrides = {};
  service.markets.error = undefined;
  service.markets.prints = [];
  await database.db.orm.execute(
    sql`update trading_orders set status = 'cancelled', reserved = 0 where status = 'resting'`,
  );
  await service.showBook(usualBook);
});

/** An order at the best bid, which rests behind ten contracts. */
const patient = { limitPrice: '0.42', timeInForce: 'good_till_cancelled' };
const place = async (secret: string, order = {}): Promise<TradeJson> => {
  const { trade, status, detail } = await postTrade(service.url, secret, { ...patient, ...order });
  expect(status, detail).toBe(201);
  return trade!;
};
async function send(
  method: string,
  path: string,
  secret: string | undefined,
  body?: unknown,
): Promise<TradeAnswer> {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: {
      ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const answer = (await response.json()) as Omit<TradeAnswer, 'status' | 'headers'>;
  return { ...answer, status: response.status, headers: response.headers };
}
const read = async (secret: string, { id }: TradeJson) => (await send('GET', `/trades/${id}`, secret)).trade!;
const cancel = (secret: string, { id }: Pick<TradeJson, 'id'>) => send('DELETE', `/trades/${id}`, secret);
const decrease = (secret: string, { id }: Pick<TradeJson, 'id'>, remainingContracts: unknown) =>
  send('POST', `/trades/${id}/decrease`, secret, { remainingContracts });

it('an order may spell its time in force as the venue does', async () => {
  const { secret } = await createTrader(database.db);
  const order = { timeInForce: 'good_till_canceled', postOnly: true };
  expect(await place(secret, order)).toMatchObject({ status: 'resting', timeInForce: 'good_till_cancelled' });
});

let printed = 0;
/** Simulates a YES sale one second later. */
function print(contracts: number, cents = 42): void {
  service.clock.advance(1_000);
  service.markets.prints.push({
    id: `print-${++printed}`,
    ticker: TICKER,
    at: new Date(service.clock.now()),
    yesPrice: BigInt(cents) * CENT,
    contracts,
    takerSide: 'no',
  });
}
async function pass(): Promise<void> {
  service.clock.advance(1_000);
  await service.trading.refresher.refresh();
  await service.trading.resting.pass();
}
const accountOf = async (orgId: string) =>
  (
    await selectRows<{ cash: string; reserved: string }>(
      database.db.orm,
      sql`select cash::text, (select coalesce(sum(reserved), 0)::text from trading_orders where org_id = a.org_id) as reserved
      from trading_accounts a where org_id = ${orgId}`,
    )
  )[0]!;
const ledgerProblems = (orgId: string) => checkLedger(database.db.orm, { orgId }, 10);

describe('a resting paper order', () => {
  it('queues behind the book at its price, and fills from prints only, without a fee', async () => {
    const { secret, orgId } = await createTrader(database.db);
    await createListener(database.db, orgId, { types: ['trade.filled'] });
    const placed = await place(secret);
    expect(placed).toMatchObject({
      status: 'resting',
      reason: null,
      contracts: 5,
      filledContracts: 0,
      remainingContracts: 5,
      queueAhead: 10,
      expiresAt: null,
      postOnly: false,
      // `gate_closed` is dropped, because the gate is already closed.
      cancelOn: ['observation', 'stale'],
      finishedAt: null,
    });
    expect(await accountOf(orgId)).toMatchObject({ reserved: '2185300' });
    print(12);
    await pass();
    expect(await read(secret, placed)).toMatchObject({
      status: 'resting',
      filledContracts: 2,
      remainingContracts: 3,
      queueAhead: 0,
      fees: '0.0000',
      total: '-0.8400',
    });
    expect(await accountOf(orgId)).toMatchObject({ reserved: '1311200' });
    // The best bid moves up, and a sale trades through this order's price.
    await service.showBook(makeBook([[43, 10]], [[55, 5]]));
    await pass();
    expect(await read(secret, placed)).toMatchObject({ filledContracts: 2 });
    print(40, 41);
    await pass();
    const filled = await read(secret, placed);
    expect(filled).toMatchObject({
      status: 'filled',
      filledContracts: 5,
      remainingContracts: 0,
      queueAhead: null,
    });
    expect(filled.fills.map(({ price, contracts }) => [price, contracts])).toEqual([
      ['0.4200', 2],
      ['0.4200', 3],
    ]);
    expect(await accountOf(orgId)).toMatchObject({ reserved: '0' });
    expect(await ledgerProblems(orgId)).toEqual([]);
    const told = await readWebhookMessages(database.db, orgId);
    expect(
      told.map(({ data }) => (data as { status: string; filledContracts: number }).filledContracts),
    ).toContain(2);
  });

  it('waits behind an unknown queue while only the best prices are known, until the whole book is', async () => {
    const { secret } = await createTrader(database.db);
    service.markets.overrides = { shallow: new Map([[TICKER, true]]) };
    await service.showBook(makeBook([[43, 10]], [[55, 5]]));
    const trade = await place(secret);
    expect(trade).toMatchObject({ status: 'resting', queueAhead: null });
    print(50, 42);
    await pass();
    expect(await read(secret, trade)).toMatchObject({
      status: 'resting',
      filledContracts: 0,
      queueAhead: null,
    });
    service.markets.overrides = {};
    await service.showBook(makeBook([[42, 10]], [[55, 5]]));
    await pass();
    await pass();
    expect(await read(secret, trade)).toMatchObject({ filledContracts: 0, queueAhead: 10 });
    print(11);
    await pass();
    expect(await read(secret, trade)).toMatchObject({ filledContracts: 1, queueAhead: 0 });
  });

  it('makes its market’s book one of the first to be read', async () => {
    const { secret } = await createTrader(database.db);
    await place(secret);
    const held = createHeldTickers({ db: database.db, log: pino({ level: 'silent' }) });
    await vi.waitFor(() => expect(held.current()).toContain(TICKER));
  });

  it('takes what is within its limit at once, and only the rest waits', async () => {
    const { secret, orgId } = await createTrader(database.db);
    const trade = await place(secret, { contracts: 9, limitPrice: '0.45' });
    expect(trade).toMatchObject({
      status: 'resting',
      filledContracts: 5,
      remainingContracts: 4,
      queueAhead: 0,
    });
    expect(trade.fees).not.toBe('0.0000');
    print(4, 45);
    await pass();
    expect(await read(secret, trade)).toMatchObject({
      status: 'filled',
      filledContracts: 9,
      fees: trade.fees,
    });
    expect(await ledgerProblems(orgId)).toEqual([]);
  });

  it('is refused if it is post-only and would trade at once', async () => {
    const { secret } = await createTrader(database.db);
    const { status, code, detail } = await postTrade(service.url, secret, {
      ...patient,
      limitPrice: '0.45',
      postOnly: true,
    });
    expect([status, code]).toEqual([422, 'price_moved']);
    expect(detail).toMatch(/offered at 45¢ at best .* and the order is post-only\.$/);
    expect(await place(secret, { limitPrice: '0.44', postOnly: true })).toMatchObject({
      status: 'resting',
      postOnly: true,
      queueAhead: 0,
    });
  });

  it('reserves its cash and contracts like a pending order', async () => {
    const { secret, orgId } = await createTrader(database.db);
    await place(secret, { contracts: 5, limitPrice: '0.45', timeInForce: 'immediate_or_cancel' });
    const sale = await place(secret, { action: 'sell', limitPrice: '0.60', contracts: 4 });
    expect(sale).toMatchObject({ status: 'resting', queueAhead: 0 });
    const twice = await postTrade(service.url, secret, { action: 'sell', contracts: 2, limitPrice: '0.42' });
    expect([twice.status, twice.code]).toEqual([422, 'insufficient_position']);
    expect(twice.detail).toMatch(/besides 4 reserved for open orders/);
    service.clock.advance(1_000);
    service.markets.prints.push({
      id: `print-${++printed}`,
      ticker: TICKER,
      at: new Date(service.clock.now()),
      yesPrice: 61n * CENT,
      contracts: 3,
      takerSide: 'yes',
    });
    await pass();
    expect(await read(secret, sale)).toMatchObject({ filledContracts: 3, total: '1.8000' });
    const more = await postTrade(service.url, secret, { action: 'sell', contracts: 1, limitPrice: '0.42' });
    expect(more.status, more.detail).toBe(201);
    expect(await ledgerProblems(orgId)).toEqual([]);
  });

  it('reserves less as it closes pairs, by what they pay', async () => {
    const { secret, orgId } = await createTrader(database.db);
    await place(secret, { contracts: 5, limitPrice: '0.45', timeInForce: 'immediate_or_cancel' });
    const closing = await place(secret, { side: 'no', limitPrice: '0.50', contracts: 8 });
    expect(closing).toMatchObject({ status: 'resting', queueAhead: 0 });
    service.clock.advance(1_000);
    service.markets.prints.push({
      id: `print-${++printed}`,
      ticker: TICKER,
      at: new Date(service.clock.now()),
      yesPrice: 50n * CENT,
      contracts: 6,
      takerSide: 'yes',
    });
    await pass();
    expect(await read(secret, closing)).toMatchObject({ filledContracts: 6, total: '2.0000' });
    // At most two more contracts can be bought, at 50 cents plus the taker fee.
    expect(await accountOf(orgId)).toMatchObject({ reserved: '1035000' });
    expect(await ledgerProblems(orgId)).toEqual([]);
  });

  it('fills once per print, even with two concurrent instances or after a crash', async () => {
    const { secret, orgId } = await createTrader(database.db);
    const trade = await place(secret);
    const other = await startTradingTest(database.db, { trading: { markets: service.markets } });
    other.clock.set(new Date(service.clock.now()).toISOString());
    print(13);
    other.clock.advance(1_000);
    await Promise.all([
      service.trading.resting.advance(orgId, TICKER),
      other.trading.resting.advance(orgId, TICKER),
      pass(),
    ]);
    await pass();
    expect(await read(secret, trade)).toMatchObject({
      filledContracts: 3,
      remainingContracts: 2,
      queueAhead: 0,
    });
    await other.stop();
    // The database fails after the prints are read and before the commit: nothing is booked, and nothing is lost.
    print(1);
    await database.db.orm.execute(
      sql`alter table ledger_entries add constraint crash check (org_id <> ${sql.raw(`'${orgId}'`)} or at < ${sql.raw(`'${new Date(service.clock.now()).toISOString()}'`)}::timestamptz) not valid`,
    );
    await pass();
    expect(await read(secret, trade)).toMatchObject({ filledContracts: 3, remainingContracts: 2 });
    await database.db.orm.execute(sql`alter table ledger_entries drop constraint crash`);
    await pass();
    expect(await read(secret, trade)).toMatchObject({ filledContracts: 4, remainingContracts: 1 });
    await pass();
    expect(await read(secret, trade)).toMatchObject({ filledContracts: 4 });
    expect(await ledgerProblems(orgId)).toEqual([]);
  });

  it('ends when it expires or its market closes, with the fills of earlier prints', async () => {
    const { secret, orgId } = await createTrader(database.db);
    const expiresAt = new Date(service.clock.now() + 1_500).toISOString();
    const timed = await place(secret, { timeInForce: 'good_till_time', expiresAt });
    expect(timed).toMatchObject({ status: 'resting', expiresAt });
    print(11);
    print(50);
    await pass();
    expect(await read(secret, timed)).toMatchObject({
      status: 'partially_filled',
      filledContracts: 1,
      reason: 'The order expired before it was filled completely.',
    });
    const open = await place(secret);
    service.markets.change = { closeTime: new Date(service.clock.now() + 500) };
    await service.trading.refresher.refresh();
    await pass();
    expect(await read(secret, open)).toMatchObject({
      status: 'cancelled',
      reason: 'The market closed before the order was filled completely.',
    });
    expect(await accountOf(orgId)).toMatchObject({ reserved: '0' });
  });

  it('waits while the prints cannot be read, and then ends as they determine', async () => {
    const { secret } = await createTrader(database.db);
    const trade = await place(secret);
    print(12);
    service.clock.advance(1);
    service.markets.error = new Error('the venue is not there');
    const { status, trade: waiting } = await cancel(secret, trade);
    expect(status).toBe(200);
    expect(waiting).toMatchObject({
      status: 'resting',
      filledContracts: 0,
      reason: 'Cancelled on request. Earlier trades are still being read.',
    });
    service.markets.error = undefined;
    print(50);
    await pass();
    expect(await read(secret, trade)).toMatchObject({
      status: 'partially_filled',
      filledContracts: 2,
      reason: 'Cancelled on request.',
    });
  });
});

describe('a resting order is cancelled automatically', () => {
  it('by a switch; an order that only reduces stays if only increases are blocked', async () => {
    const { secret, orgId } = await createTrader(database.db);
    await place(secret, { contracts: 5, limitPrice: '0.45', timeInForce: 'immediate_or_cancel' });
    const [purchase, sale] = [
      await place(secret, { cancelOn: [] }),
      await place(secret, { action: 'sell', limitPrice: '0.60' }),
    ];
    const setSwitch = (ownState: 'halt' | 'reduce_only') =>
      change(service.context, byService, (tx) =>
        tx
          .insert(tradingSwitches)
          .values({ orgId, ownState, ownAt: new Date() })
          .onConflictDoUpdate({ target: tradingSwitches.orgId, set: { ownState } }),
      );
    await setSwitch('reduce_only');
    await pass();
    await pass();
    expect(await read(secret, purchase)).toMatchObject({
      status: 'cancelled',
      reason: expect.stringMatching(/^Cancelled: the Organization's own switch/) as string,
    });
    expect(await read(secret, sale)).toMatchObject({ status: 'resting' });
    await setSwitch('halt');
    await pass();
    await pass();
    expect(await read(secret, sale)).toMatchObject({
      status: 'cancelled',
      reason: expect.stringMatching(/^Cancelled: the .* is at halt/) as string,
    });
  });

  it('when its market pauses, as at the venue, whatever its cancel conditions', async () => {
    const { secret } = await createTrader(database.db);
    const trade = await place(secret, { cancelOn: [] });
    print(11);
    service.markets.change = { status: 'inactive' };
    await pass();
    service.markets.change = {};
    print(50);
    await pass();
    expect(await read(secret, trade)).toMatchObject({
      status: 'partially_filled',
      filledContracts: 1,
      reason: 'Cancelled because the venue paused the market and clears its book before it resumes.',
    });
  });

  it('when its book is in doubt, unless its cancel conditions exclude that', async () => {
    const { secret } = await createTrader(database.db);
    const [usual, stubborn] = [await place(secret), await place(secret, { cancelOn: ['observation'] })];
    service.markets.overrides = { doubts: new Map([[TICKER, new Date(service.clock.now())]]) };
    await pass();
    await pass();
    expect(await read(secret, usual)).toMatchObject({
      status: 'cancelled',
      reason: expect.stringMatching(/^Cancelled automatically: The order book of/) as string,
    });
    expect(await read(secret, stubborn)).toMatchObject({ status: 'resting', cancelOn: ['observation'] });
  });

  it('when the data are too old, after another instance had a chance to take over', async () => {
    const { secret } = await createTrader(database.db);
    const trade = await place(secret);
    service.markets.error = new Error('the venue is not there');
    service.clock.advance(61_000);
    await service.trading.resting.pass();
    expect(await read(secret, trade)).toMatchObject({ status: 'resting', reason: null });
    await service.trading.resting.pass();
    // Trades up to now are not known yet, so the order is not cancelled until they are.
    expect(await read(secret, trade)).toMatchObject({
      status: 'resting',
      reason: expect.stringMatching(/^Cancelled automatically: The market data is 61 s old/) as string,
    });
    service.markets.error = undefined;
    await pass();
    expect(await read(secret, trade)).toMatchObject({ status: 'cancelled' });
  });
});

describe('DELETE /trades/{id}', () => {
  it('cancels the unfilled rest, releases its reserve, and answers the same when repeated', async () => {
    const { secret, orgId } = await createTrader(database.db);
    const trade = await place(secret);
    print(11);
    service.clock.advance(1);
    const { status, trade: cancelled } = await cancel(secret, trade);
    expect(status).toBe(200);
    // Earlier prints fill the order before it is cancelled.
    expect(cancelled).toMatchObject({
      status: 'partially_filled',
      filledContracts: 1,
      remainingContracts: 0,
      queueAhead: null,
      reason: 'Cancelled on request.',
    });
    expect(await accountOf(orgId)).toMatchObject({ reserved: '0' });
    print(50);
    await pass();
    expect(await cancel(secret, trade)).toMatchObject({ status: 200, trade: cancelled });
    expect(await ledgerProblems(orgId)).toEqual([]);
  });

  it('reports a fill that beat the cancellation', async () => {
    const { secret } = await createTrader(database.db);
    const trade = await place(secret);
    print(30);
    service.clock.advance(1);
    const answers = await Promise.all([cancel(secret, trade), cancel(secret, trade), cancel(secret, trade)]);
    for (const answer of answers)
      expect(answer).toMatchObject({
        status: 200,
        trade: { status: 'filled', filledContracts: 5, reason: null },
      });
  });
});

const DESK = `/dashboard/markets/${TICKER}`;
const ORDERS = '/dashboard/portfolio/orders';

/** An owner who bids 42¢ for 5 YES on the desk. */
async function bidOnDesk() {
  const { browser, organization } = await signedIn(database.db, service.url);
  const send = (fields: Record<string, string>) =>
    postForm(browser, DESK, {
      id: newFormId(service.clock.now()),
      side: 'yes',
      action: 'buy',
      contracts: '5',
      limitPrice: '42',
      timeInForce: 'good_till_cancelled',
      ...fields,
    });
  const idAt = ({ headers }: Answer) =>
    new URLSearchParams(headers.get('location')?.split(/[?#]/)[1]).get('order')!;
  const list = async () => {
    const { trades } = await service.trading.orders.list({ orgId: organization.id, limit: 10 });
    return trades.map((one) => [one.status, one.filledContracts, one.contracts, one.limitPrice / CENT]);
  };
  const id = idAt(await send({}));
  return { browser, orgId: organization.id, id, send, idAt, list, replaces: { replaces: id, filled: '0' } };
}

describe('a change of a resting order on the desk', () => {
  it('opens the ticket with its terms, cancels it and places the new one once', async () => {
    const { browser, orgId, id, send, idAt, list } = await bidOnDesk();
    const link = linksOf(await getPage(browser, DESK)).find((one) => one.includes('replaces='));
    expect(link).toBe(`${DESK}?replaces=${id}#ticket-head`);
    expect(linksOf(await getPage(browser, '/dashboard/portfolio'))).toContain(link);
    expect(fieldOf(await getPage(browser, `${ORDERS}/${id}`), 'limitPrice')).toEqual(['42']);
    const ticket = await getPage(browser, `${DESK}?replaces=${id}&limitPrice=43`);
    expect(textOf(ticket)).toContain('Change your order to buy 5 YES at 42¢');
    const names = ['id', 'side', 'action', 'contracts', 'limitPrice', 'timeInForce', 'replaces', 'filled'];
    const form = Object.fromEntries(names.map((name) => [name, fieldOf(ticket, name).at(-1)!]));
    expect(form).toMatchObject({ contracts: '5', limitPrice: '43', replaces: id, filled: '0' });
    const answers = [await send(form), await send(form)].map(({ headers }) => headers.get('location')!);
    expect(answers.map((to) => /replaces|done=\w+/.exec(to)![0])).toEqual(['done=placed', 'done=repeated']);
    expect(await list()).toEqual([
      ['resting', 0, 5, 43n],
      ['cancelled', 0, 5, 42n],
    ]);
    expect(await ledgerProblems(orgId)).toEqual([]);
    const next = idAt({ headers: new Headers({ location: answers[0]! }) } as Answer);
    for (const [one, says, other] of [
      [id, 'Replaced by Buy 5 YES at 43¢', next],
      [next, 'Replaces Buy 5 YES at 42¢', id],
    ] as const) {
      const page = await getPage(browser, `${ORDERS}/${one}`);
      expect(textOf(page)).toContain(says);
      expect(textOf(page)).toMatch(/Placed \d+ \w+ \d{4}, \d\d:\d\d:\d\d UTC/);
      expect(linksOf(page)).toContain(`${ORDERS}/${other}`);
    }
  });

  it('places nothing if it was filled or cancelled meanwhile, and says so', async () => {
    const { browser, id, send, list, replaces } = await bidOnDesk();
    print(12);
    service.clock.advance(1);
    const partly = await send({ ...replaces, limitPrice: '43' });
    expect([partly.status, textOf(partly)]).toEqual([
      400,
      expect.stringContaining(
        'stays in the book. 2 of its 5 contracts have filled. No other order was placed.',
      ),
    ]);
    expect([fieldOf(partly, 'contracts')[0], fieldOf(partly, 'filled')[0]]).toEqual(['3', '2']);
    expect(await list()).toEqual([['resting', 2, 5, 42n]]);
    print(3);
    service.clock.advance(1);
    const whole = await send({ replaces: id, filled: '2', limitPrice: '43' });
    expect(textOf(whole)).toContain('Your order to buy 5 YES at 42¢ was filled. 5 of its 5');
    expect(fieldOf(whole, 'replaces')).toEqual(['', '']);
    expect(await list()).toEqual([['filled', 5, 5, 42n]]);
    const next = await bidOnDesk();
    await postForm(next.browser, `${ORDERS}/${next.id}/cancel`, {});
    expect(textOf(await next.send({ ...next.replaces, limitPrice: '43' }))).toContain(
      'was cancelled. 0 of its 5',
    );
    expect(await next.list()).toEqual([['cancelled', 0, 5, 42n]]);
    const foreign = await next.send({ ...replaces, limitPrice: '43' });
    const hostile = await getPage(browser, `${DESK}?replaces=${encodeURIComponent("<b>' or 1=1")}`);
    expect([foreign.status, hostile.status]).toEqual([404, 404]);
  });

  it('counts the old order neither twice nor as gone: a limit that refuses the new one leaves the old', async () => {
    const { orgId, send, list, replaces } = await bidOnDesk();
    await database.db.orm
      .insert(riskLimits)
      .values({ orgId, maxOpenOrders: 1, maxOrderContracts: 6, updatedAt: new Date(0) });
    const refused = await send({ ...replaces, contracts: '7' });
    expect([refused.status, textOf(refused)]).toEqual([
      422,
      expect.stringContaining('A limit stops this order'),
    ]);
    expect(await list()).toEqual([['resting', 0, 5, 42n]]);
    expect((await send({ ...replaces, contracts: '6', limitPrice: '41' })).status).toBe(303);
    expect(await list()).toEqual([
      ['resting', 0, 6, 41n],
      ['cancelled', 0, 5, 42n],
    ]);
  });

  it('by two people at once places one order', async () => {
    const { send, list, replaces } = await bidOnDesk();
    const answers = await Promise.all(['40', '41'].map((limitPrice) => send({ ...replaces, limitPrice })));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([303, 400]);
    expect((await list()).map(([status]) => status)).toEqual(['resting', 'cancelled']);
  });
});

it('all resting orders are cancelled with one form, which says which were filled first', async () => {
  const { browser, id, send, idAt, list } = await bidOnDesk();
  const button = 'Cancel all 2 orders';
  expect(textOf(await getPage(browser, DESK))).not.toContain('Cancel all');
  const other = idAt(await send({ limitPrice: '41' }));
  for (const path of [DESK, '/dashboard/portfolio']) {
    const page = await getPage(browser, path);
    expect([textOf(page).includes(button), fieldOf(page, 'ids').toSorted()]).toEqual([
      true,
      [id, other].toSorted(),
    ]);
  }
  print(15);
  service.clock.advance(1);
  const ids = [id, other].map((one): [string, string] => ['ids', one]);
  const stranger = await bidOnDesk();
  for (const [form, status] of [
    [[...ids, ['ids', stranger.id]], 404],
    [[['ids', '<b>']], 404],
    [Array.from({ length: 101 }, () => ids[0]!), 400],
  ] as [[string, string][], number][])
    expect((await postForm(browser, `${ORDERS}/cancel`, form)).status).toBe(status);
  for (let i = 0; i < 2; i++) {
    const told = textOf(await postForm(browser, `${ORDERS}/cancel`, ids));
    expect(told).toMatch(/1 of 2 orders cancelled.*Not cancelled: the first one below.*Filled.*Cancelled/);
  }
  expect(await list()).toEqual([
    ['cancelled', 0, 5, 41n],
    ['filled', 5, 5, 42n],
  ]);
});

describe('POST /trades/{id}/decrease', () => {
  it('leaves fewer contracts at the same place in the queue, and a repeat changes nothing', async () => {
    const { secret, orgId } = await createTrader(database.db);
    const trade = await place(secret);
    print(11);
    service.clock.advance(1);
    for (let i = 0; i < 2; i++)
      expect(await decrease(secret, trade, 1.5)).toMatchObject({
        status: 200,
        trade: {
          status: 'resting',
          contracts: 2.5,
          filledContracts: 1,
          remainingContracts: 1.5,
          queueAhead: 0,
        },
      });
    expect(await accountOf(orgId)).toMatchObject({ reserved: '655600' });
    print(50);
    await pass();
    expect(await read(secret, trade)).toMatchObject({
      status: 'filled',
      contracts: 2.5,
      filledContracts: 2.5,
    });
    expect(await decrease(secret, trade, 0)).toMatchObject({ status: 200, trade: { status: 'filled' } });
    expect(await ledgerProblems(orgId)).toEqual([]);
  });

  it('refuses more than may still fill, and malformed requests', async () => {
    const { secret } = await createTrader(database.db);
    const trade = await place(secret);
    for (const [remaining, detail] of [
      [5.01, /must be at most 5, the number that can still be filled/],
      [-1, /must be 0, or a number of contracts/],
      [0.001, /must be 0, or a number of contracts/],
      ['3', /must be a number/],
    ] as const) {
      const answer = await decrease(secret, trade, remaining);
      expect([answer.status, answer.code]).toEqual([400, 'invalid_request']);
      expect(answer.errors![0]).toMatchObject({
        pointer: '/remainingContracts',
        detail: expect.stringMatching(detail) as string,
      });
    }
    expect((await send('POST', `/trades/${trade.id}/decrease`, secret, '{')).code).toBe('invalid_json');
    expect(
      (await send('POST', `/trades/${trade.id}/decrease`, secret, { remainingContracts: 1, all: true })).code,
    ).toBe('invalid_request');
    expect(await decrease(secret, trade, 0)).toMatchObject({
      status: 200,
      trade: { status: 'cancelled', contracts: 5 },
    });
    expect(await decrease(secret, trade, 1)).toMatchObject({ status: 400, code: 'invalid_request' });
  });
});

describe.each([
  ['DELETE', ''],
  ['POST', '/decrease'],
])('%s /trades/{id}%s', (method, end) => {
  const body = method === 'POST' ? { remainingContracts: 1 } : undefined;

  it('accepts only trades of the key’s Organization', async () => {
    const { secret } = await createTrader(database.db);
    const trade = await place(secret);
    const stranger = await createTrader(database.db);
    for (const [id, sender] of [
      [trade.id, stranger.secret],
      ['none', secret],
    ] as const)
      expect(await send(method, `/trades/${id}${end}`, sender, body)).toMatchObject({ status: 404 });
    expect(await read(secret, trade)).toMatchObject({ status: 'resting', contracts: 5 });
  });

  it('shows a test key only paper trades', async () => {
    const { secret, orgId } = await createTrader(database.db);
    const trade = await place(secret);
    const test = await createKey(database.db, orgId, { scopes: ['trading:write'], livemode: false });
    await database.db.orm.execute(
      sql`update trading_orders set mode = 'live', status = 'cancelled' where id = ${trade.id}`,
    );
    expect(await send(method, `/trades/${trade.id}${end}`, test.secret, body)).toMatchObject({
      status: 404,
      code: 'not_found',
    });
  });
});

describe('the terms of a resting order', () => {
  it.each([
    ['/expiresAt', { timeInForce: 'good_till_time' }, 'is required with good_till_time'],
    ['/expiresAt', { expiresAt: '2030-01-01T00:00:00Z' }, 'is allowed only with good_till_time'],
    [
      '/expiresAt',
      { timeInForce: 'good_till_time', expiresAt: 'soon' },
      'must be an RFC 3339 time with an offset, like 2026-01-31T12:00:00Z',
    ],
    [
      '/expiresAt',
      { timeInForce: 'good_till_time', expiresAt: '9999-12-31T23:59:59-12:00' },
      'must be in the years 1970 to 9999',
    ],
    [
      '/expiresAt',
      { timeInForce: 'good_till_time', expiresAt: '2020-01-01T00:00:00Z' },
      'must be in the future',
    ],
    [
      '/postOnly',
      { timeInForce: 'fill_or_kill', postOnly: true },
      'is allowed only with good_till_cancelled and good_till_time',
    ],
    [
      '/cancelOn',
      { timeInForce: 'immediate_or_cancel', cancelOn: [] },
      'is allowed only with good_till_cancelled and good_till_time',
    ],
    ['/cancelOn/0', { cancelOn: ['whim'] }, /must be "observation" or/],
  ])('are refused at %s for %j', async (pointer, terms, detail) => {
    const { secret } = await createTrader(database.db);
    const answer = await postTrade(service.url, secret, { ...patient, ...terms });
    expect([answer.status, answer.code]).toEqual([400, 'invalid_request']);
    expect(answer.errors).toHaveLength(1);
    expect(answer.errors![0]!.pointer).toBe(pointer);
    expect(answer.errors![0]!.detail).toMatch(detail);
  });

  it('are compared when two orders share an idempotency key', async () => {
    const { secret } = await createTrader(database.db);
    const key = { 'idempotency-key': 'the-same' };
    const ask = (change: object) => postTrade(service.url, secret, { ...patient, ...change }, key);
    const { trade } = await ask({});
    expect(await ask({ cancelOn: ['gate_closed', 'stale', 'observation'] })).toMatchObject({
      status: 200,
      trade: { id: trade!.id },
    });
    for (const change of [
      { cancelOn: ['stale'] },
      { postOnly: true },
      { timeInForce: 'immediate_or_cancel' },
    ])
      expect(await ask(change)).toMatchObject({ status: 409, code: 'idempotency_conflict' });
  });
});
