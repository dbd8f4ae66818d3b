import { eq, sql } from 'drizzle-orm';
import { beforeEach, describe, expect, it } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/core/time.js';
import { products } from '../../../src/metering/entitlements/table.js';
import { compare } from '../../../src/metering/reconciliation/reconcile.js';
import { makeFaulty, type FaultyDatabase } from '../../support/faulty-database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { useDatabase, useServiceOn } from '../../support/use.js';
import { addGrant, findCreditDrift, readAccount, readLedger, type NewGrant } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent, type SendOptions } from '../support/usage.js';

const database = useDatabase();
let texts: string[] = [];
let faulty: FaultyDatabase | undefined;
const service = useServiceOn(() => {
  faulty ??= makeFaulty(database.db);
  faulty.before = ({ name }) => void texts.push(name);
  return faulty.db;
});
const other = useServiceOn(() => database.db);

/** Half past the current hour. */
const START_MS = Math.floor(Date.now() / HOUR_MS) * HOUR_MS + 30 * MINUTE_MS;
beforeEach(() => {
  for (const { clock } of [service, other]) clock.set(new Date(START_MS).toISOString());
  texts = [];
});
const at = (ms: number) => new Date(START_MS + ms);

async function createScene(price: Parameters<typeof createProduct>[1] = {}) {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  const createPriced = async (values: Parameters<typeof createProduct>[1] = {}) => {
    const product = await createProduct(db, { creditPrice: '1', creditEnforcement: 'warn', ...values });
    await grant(db, orgId, product.id);
    return product;
  };
  const product = await createPriced(price);
  const { secret } = await createKey(db, orgId);
  let sent = 0;
  const event = (more: object = {}, { slug } = product) => usageEvent(slug, `e${sent++}`, more);
  const post = (
    events: unknown[],
    options: SendOptions & { secret?: string; instance?: typeof service } = {},
  ) => sendUsage((options.instance ?? service).url, options.secret ?? secret, events, options);
  return {
    orgId,
    product,
    createPriced,
    event,
    post,
    /** Sends events that must be accepted and returns their warnings. */
    send: async (...events: unknown[]): Promise<unknown[]> => {
      const { status, body } = await post(events);
      expect({ status, accepted: body.accepted }).toEqual({ status: 202, accepted: events.length });
      return body.warnings as unknown[];
    },
    add: (amount: string, more: Omit<NewGrant, 'amount'> = {}) =>
      addGrant(db, orgId, { amount, ...more }, new Date(service.clock.now())),
    account: (livemode?: boolean) => readAccount(db, orgId, livemode),
    ledger: async () =>
      (await readLedger(db, orgId)).map(({ kind, grantId, amount }) => [kind, grantId, amount]),
    prices: () =>
      selectRows<{ price: string; events: number }>(
        db.orm,
        sql`select trim_scale(credit_price)::text as price, count(*)::int as events from usage_events
          where org_id = ${orgId}::uuid group by 1 order by 1`,
      ),
    expectNoDrift: async () => {
      expect(await findCreditDrift(db, orgId)).toEqual([]);
      expect(await compare(db.orm, { orgId })).toMatchObject({ totals: [], hours: [], subjects: [] });
    },
  };
}

const overdrawn = (productSlug: string, overdraft: number) => ({
  code: 'credits_overdrawn',
  productSlug,
  overdraft,
});

describe('what burns', () => {
  it('is the lowest priority first, then the soonest expiry, then the oldest grant, then the overdraft', async () => {
    const { product, event, send, add, ledger, account, expectNoDrift } = await createScene();
    const last = await add('1', { priority: 60, expiresAt: at(DAY_MS) });
    const third = await add('1');
    const second = await add('1', { expiresAt: at(30 * DAY_MS) });
    const first = await add('1', { priority: 40 });
    const fourth = await add('1');
    expect(await send(event({ quantity: 4.5 }))).toEqual([]);
    expect(await ledger()).toEqual(
      expect.arrayContaining([
        ['burn', first, '1'],
        ['burn', second, '1'],
        ['burn', third, '1'],
        ['burn', fourth, '1'],
        ['burn', last, '0.5'],
      ]),
    );
    expect(await send(event({ quantity: 2 }))).toEqual([overdrawn(product.slug, 1.5)]);
    expect(await account()).toMatchObject({ debts: { [product.id]: '1.5' } });
    await expectNoDrift();
  });

  it.each(['warn', 'block'] as const)(
    'is the same for a product that says %s: no event is refused',
    async (creditEnforcement) => {
      const { product, event, send, expectNoDrift } = await createScene({ creditEnforcement });
      expect(await send(event())).toEqual([overdrawn(product.slug, 1)]);
      await expectNoDrift();
    },
  );
});

describe('the price', () => {
  const values = { dimensions: ['model'], creditDimension: 'model' };
  const prices = (own: Record<string, string>) => ({ ...values, creditPrices: own });

  it('is that of each event’s dimension value', async () => {
    const scene = await createScene({
      creditPrice: '0.5',
      ...prices({ large: '2', ['__proto__']: '7', free: '0' }),
    });
    const { event, send, add, account, expectNoDrift } = scene;
    const grantId = await add('100');
    const of = (model: string) => ({ dimensions: JSON.parse(JSON.stringify({ model })) as object });
    await send(
      event(of('large')),
      event(of('__proto__')),
      event(of('constructor')),
      event(of('free')),
      event({ quantity: 3 }),
      event({ ...of('large'), subject: 'ann' }),
    );
    expect(await scene.prices()).toEqual([
      { price: '0', events: 1 },
      { price: '0.5', events: 2 },
      { price: '2', events: 2 },
      { price: '7', events: 1 },
    ]);
    expect((await account()).rests).toEqual({ [grantId]: String(100 - 2 - 7 - 0.5 - 1.5 - 2) });
    await expectNoDrift();
  });

  it('of recorded events stays when the product gets another one, or none', async () => {
    const { product, prices, event, send, add, account, expectNoDrift } = await createScene();
    const grantId = await add('10');
    const change = (creditPrice: string | null) =>
      database.db.orm
        .update(products)
        .set({ creditPrice, creditEnforcement: creditPrice === null ? null : 'warn' })
        .where(eq(products.id, product.id));
    await send(event());
    await change('2.5');
    await send(event());
    await change(null);
    await send(event());
    expect(await prices()).toEqual([
      { price: '0', events: 1 },
      { price: '1', events: 1 },
      { price: '2.5', events: 1 },
    ]);
    expect((await account()).rests).toEqual({ [grantId]: '6.5' });
    await expectNoDrift();
  });

  it('is exact to 12 places, and for a million units', async () => {
    const { product, event, send, add, account, expectNoDrift } = await createScene({
      creditPrice: '0.000000000001',
    });
    const grantId = await add('1');
    await send(event(), event({ quantity: 1_000_000 }), event({ quantity: 0.000001 }));
    expect((await account()).rests).toEqual({ [grantId]: '0.999998999998999999' });
    await database.db.orm
      .update(products)
      .set({ creditPrice: '999999.999999999999' })
      .where(eq(products.id, product.id));
    expect(await send(event({ quantity: 1_000_000 }))).toHaveLength(1);
    expect(await account()).toEqual({
      rests: { [grantId]: '0' },
      debts: { [product.id]: '999999999999.000000000001000001' },
    });
    await expectNoDrift();
  });
});

describe('an event burns once', () => {
  it('and a repeat only warns of the overdraft', async () => {
    const { product, event, post, account, ledger, expectNoDrift } = await createScene();
    const one = event();
    expect((await post([one, one])).body).toMatchObject({
      accepted: 1,
      deduped: 1,
      warnings: [overdrawn(product.slug, 1)],
    });
    const before = await ledger();
    for (const instance of [service, other])
      expect((await post([one], { instance })).body).toEqual({
        accepted: 0,
        deduped: 1,
        warnings: [overdrawn(product.slug, 1)],
      });
    expect((await post([event({ quantity: 0 })])).body.warnings).toEqual([overdrawn(product.slug, 1)]);
    expect(await ledger()).toEqual(before);
    expect((await account()).debts).toEqual({ [product.id]: '1' });
    await expectNoDrift();
  });

  it('while refused events, failed batches and dry runs burn nothing', async () => {
    const { product, event, post, add, account, expectNoDrift } = await createScene({ maxQuantity: '10' });
    const grantId = await add('100');
    const unknown = usageEvent('unknown', 'u');
    const late = event({ occurredAt: at(-8 * DAY_MS).toISOString() });
    const high = event({ quantity: 11 });
    expect(await post([event(), unknown, late, high], { lenient: true })).toMatchObject({
      body: { accepted: 1, rejected: [{ index: 1 }, { index: 2 }, { index: 3 }] },
    });
    for (const bad of [unknown, late, high])
      expect((await post([event(), bad])).status).toBeGreaterThanOrEqual(400);
    expect((await account()).rests).toEqual({ [grantId]: '99' });
    const all = event({ quantity: 10 });
    const dry = await post(
      Array.from({ length: 11 }, (_, i) => ({ ...all, idempotencyKey: `d${i}` })),
      { dryRun: true },
    );
    expect(dry.body).toEqual({ accepted: 11, deduped: 0, warnings: [overdrawn(product.slug, 11)] });
    expect((await account()).rests).toEqual({ [grantId]: '99' });
    await expectNoDrift();
  });

  it('in its own mode', async () => {
    const { orgId, product, event, post, send, add, account, expectNoDrift } = await createScene();
    const live = await add('10');
    const test = await add('5', { livemode: false });
    const { secret } = await createKey(database.db, orgId, { livemode: false });
    await send(event());
    expect((await post([event({ quantity: 6 })], { secret })).body.warnings).toEqual([
      overdrawn(product.slug, 1),
    ]);
    expect(await account()).toEqual({ rests: { [live]: '9' }, debts: {} });
    expect(await account(false)).toEqual({ rests: { [test]: '0' }, debts: { [product.id]: '1' } });
    await expectNoDrift();
  });

  it('also as a CloudEvent', async () => {
    const { product, add, account, expectNoDrift, orgId } = await createScene({
      dimensions: ['model'],
      creditDimension: 'model',
      creditPrices: { large: '4' },
    });
    const grantId = await add('10');
    const { secret } = await createKey(database.db, orgId);
    const response = await fetch(`${service.url}/api/usage/events`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/cloudevents+json' },
      body: JSON.stringify({
        specversion: '1.0',
        id: '1',
        source: 'test',
        type: 'calls',
        subject: product.slug,
        data: { quantity: 2, dimensions: { model: 'large' } },
      }),
    });
    expect(response.status).toBe(202);
    expect((await account()).rests).toEqual({ [grantId]: '2' });
    await expectNoDrift();
  });

  it('however many batches two instances record at the same time', async () => {
    const scene = await createScene({ creditPrice: '0.1' });
    const { event, post, add, account, createPriced, expectNoDrift } = scene;
    const second = await createPriced({ creditPrice: '0.7' });
    await add('11.3', { priority: 10, productIds: [second.id] });
    await add('20');
    const batches = Array.from({ length: 40 }, () => [
      event(),
      event({ quantity: 3 }, second),
      event({ quantity: 2 }),
    ]);
    // Sends every batch twice, so that half of the events are repeats.
    const replies = await Promise.all(
      [...batches, ...batches].map((events, i) => post(events, { instance: i % 3 === 0 ? other : service })),
    );
    expect(replies.reduce((sum, { body }) => sum + Number(body.accepted), 0)).toBe(120);
    const { rests, debts } = await account();
    // A spent grant leaves the account with the next write, and the batch that spent it may have been the last.
    expect(Object.values(rests).filter((rest) => rest !== '0')).toEqual([]);
    const total = Object.values(debts).reduce((sum, debt) => sum + Number(debt), 0);
    expect(total).toBeCloseTo(40 * (0.1 + 2.1 + 0.2) - 31.3, 9);
    // Whether the first product is overdrawn, too, depends on which batches were recorded together.
    expect(debts).toHaveProperty([second.id]);
    await expectNoDrift();
  });
});

it('the statement that burns is remembered for a minute, and a price that is added or removed applies at once', async () => {
  const { product, event, send } = await createScene();
  const change = (creditPrice: string | null) =>
    database.db.orm
      .update(products)
      .set({ creditPrice, creditEnforcement: creditPrice === null ? null : 'warn' })
      .where(eq(products.id, product.id));
  const sendOne = async () => {
    texts = [];
    const warnings = await send(event());
    return [warnings.length, ...texts.filter((name) => name.startsWith('usage_ingest'))];
  };
  await change(null);
  // A minute later, repeats sent by earlier tests no longer affect the choice of statement.
  service.clock.advance(MINUTE_MS);
  expect(await sendOne()).toEqual([0, 'usage_ingest_new']);
  await change('1');
  expect(await sendOne()).toEqual([1, 'usage_ingest_new', 'usage_ingest_priced_new']);
  expect(await sendOne()).toEqual([1, 'usage_ingest_priced_new']);
  await change(null);
  expect(await sendOne()).toEqual([0, 'usage_ingest_priced_new']);
  service.clock.advance(MINUTE_MS);
  expect(await sendOne()).toEqual([0, 'usage_ingest_new']);
});
