import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import { compareCredits } from '../../../src/metering/reconciliation/credits.js';
import { compare } from '../../../src/metering/reconciliation/reconcile.js';
import { isEmbedded } from '../../support/database.js';
import { createKey, createOrganization, uniqueSlug } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';
import { hourOf, Model, toCredits, type Event, type Hold } from './model/model.js';
import { anyStep, DAY, examples, MINUTE, starts, type SentEvent, type Step } from './model/steps.js';

/** Use MODEL_RUNS=2000 for a long run and MODEL_SEED to repeat one. */
const numRuns = Number(process.env.MODEL_RUNS ?? (isEmbedded ? 8 : 20));
const seed = process.env.MODEL_SEED === undefined ? {} : { seed: Number(process.env.MODEL_SEED) };

const { database, service } = useService();
const operate = operatorClient(() => service);

/** Parses JSON with numbers as text, because a double cannot hold all their digits. */
const parseExactly = (text: string) =>
  JSON.parse(
    text.replaceAll(
      /("(?:[^"\\]|\\.)*")|(-?\d[\d.eE+-]*)/g,
      (_, quoted: string | undefined, number: string) => quoted ?? `"${number}"`,
    ),
  );

const iso = (ms: number) => new Date(ms).toISOString();

/** Creates a service and a model of the service, which perform the same steps. */
async function setUp(start: string) {
  const { db } = database;
  const { orm } = db;
  service.clock.set(start);
  const organization = await createOrganization(db);
  const scopes = ['usage:write', 'usage:read', 'usage:correct', 'entitlements:read'];
  const { secret } = await createKey(db, organization.id, { scopes });
  const model = new Model(Date.parse(start), [
    { price: '1', prices: { large: '2.5' }, blocks: false },
    { price: '0.1', prices: {}, blocks: true },
  ]);
  const slugs = [uniqueSlug('p0'), uniqueSlug('p1')];
  const root = `/organizations/${organization.slug}`;
  let names = 0;

  async function price(product: number): Promise<void> {
    const { price: one, prices, blocks } = model.products[product]!;
    const by = Object.entries(prices).map(([value, digits]) => `"${value}":${digits}`);
    const credits = `{"price":${one},"enforcement":"${blocks ? 'block' : 'warn'}"${by.length > 0 ? `,"by":{"dimension":"model","prices":{${by.join(',')}}}` : ''}}`;
    const { status } = await operate(
      'PUT',
      `/products/${slugs[product]}`,
      `{"name":"P","usageMetric":"calls","dimensions":["model"],"countsSubjects":true,"credits":${credits}}`,
    );
    expect([200, 201]).toContain(status);
  }
  for (const product of [0, 1]) {
    await price(product);
    await operate('PUT', `${root}/entitlements/${slugs[product]}`, {
      kind: 'live',
      startsAt: '2020-01-01T00:00:00Z',
    });
  }
  const rows = await selectRows<{ slug: string; id: string }>(
    orm,
    sql`select slug, id::text from products where slug in (${slugs[0]}, ${slugs[1]})`,
  );
  const productOf = new Map(rows.map(({ slug, id }) => [id, slugs.indexOf(slug)]));

  async function call(method: string, path: string, body?: object) {
    const response = await fetch(`${service.url}/api${path}`, {
      method,
      headers: {
        authorization: `Bearer ${secret}`,
        ...(body ? { 'content-type': 'application/json' } : {}),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return { status: response.status, body: parseExactly(await response.text()) };
  }

  const toBody = ({ product, quantity, ago, model: name, subject }: SentEvent, idempotencyKey: string) => ({
    productSlug: slugs[product],
    metric: 'calls',
    quantity,
    idempotencyKey,
    ...(ago === undefined ? {} : { occurredAt: iso(model.now - ago) }),
    ...(name ? { dimensions: { model: name } } : {}),
    ...(subject ? { subject } : {}),
  });
  const toEvent = ({ product, quantity, ago = 0, model: name, subject }: SentEvent, key: string): Event => ({
    key,
    product,
    quantity,
    at: model.now - ago,
    receivedAt: model.now,
    price: model.priceOf(product, name),
    model: name,
    subject,
  });

  async function grant(step: Extract<Step, { do: 'grant' }>): Promise<void> {
    const key = `g${++names}`;
    const from = model.now + (step.starts ?? 0);
    const ends = step.lasts === undefined ? Infinity : Math.ceil((from + step.lasts) / 3_600_000) * 3_600_000;
    const roll = ends === Infinity ? undefined : step.roll;
    const { status } = await operate(
      'PUT',
      `${root}/credits/grants/${key}`,
      `{"amount":${step.amount},"priority":${step.priority},"reason":"test"${
        step.starts === undefined ? '' : `,"startsAt":"${iso(from)}"`
      }${step.lasts === undefined ? '' : `,"expiresAt":"${iso(from + step.lasts)}"`}${
        step.products ? `,"productSlugs":${JSON.stringify(step.products.map((one) => slugs[one]))}` : ''
      }${roll ? `,"rollover":{"percent":${roll.percent},"for":"P${roll.days}D"}` : ''}}`,
    );
    expect(status).toBe(201);
    const { priority, products } = step;
    model.add({ key, amount: toCredits(step.amount), priority, starts: from, ends, products, roll });
  }

  async function send({ events: sent, isRepeated }: Extract<Step, { do: 'send' }>): Promise<void> {
    const named = sent.map((one) => ({ one, key: `e${++names}` }));
    const events = named.map(({ one, key }) => toBody(one, key));
    const first = await call('POST', '/usage/events', { events });
    expect([first.status, first.body.accepted]).toEqual([202, String(sent.length)]);
    const debts = model.record(named.map(({ one, key }) => toEvent(one, key)));
    const overdrawn = (body: { warnings: { code: string; productSlug: string; overdraft: string }[] }) =>
      new Map(
        body.warnings
          .filter(({ code }) => code === 'credits_overdrawn')
          .map(({ productSlug, overdraft }) => [slugs.indexOf(productSlug), toCredits(overdraft)]),
      );
    const ofSent = (all: Map<number, bigint>) =>
      new Map([...all].filter(([product]) => sent.some((one) => one.product === product)));
    expect(overdrawn(first.body)).toEqual(ofSent(debts));
    if (!isRepeated) return;
    const again = await call('POST', '/usage/events', { events });
    expect([again.status, again.body.deduped]).toEqual([202, String(sent.length)]);
    expect(overdrawn(again.body)).toEqual(ofSent(model.read().debts));
  }

  async function reserve({ event, ttl }: Extract<Step, { do: 'reserve' }>): Promise<void> {
    const key = `r${++names}`;
    const body = { ...toBody({ ...event, ago: undefined }, key), ttlSeconds: ttl };
    const { product, quantity, model: name, subject } = event;
    const lack = model.lacks(product, quantity, name);
    const answer = await call('POST', '/usage/reservations', body);
    // While the other product holds credits, the service may refuse more than the model, but it never grants credits
    // that the model lacks.
    const isBeside = model.holds.some((hold) => model.isHeld(hold) && hold.product !== product);
    if (lack || (answer.status === 409 && isBeside && model.products[product]!.blocks)) {
      expect([answer.status, answer.body.code]).toEqual([409, 'credits_exhausted']);
      if (lack) expect(toCredits(answer.body.required)).toBe(lack.required);
      if (lack && !isBeside) expect(toCredits(answer.body.available)).toBe(lack.available);
      return;
    }
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
    const expiresAt = model.now + ttl * 1000;
    const unit = model.priceOf(product, name);
    const hold: Hold = {
      key,
      product,
      quantity,
      price: unit,
      model: name,
      subject,
      expiresAt,
      state: 'held',
    };
    model.holds.push(hold);
    ids.set(key, answer.body.reservation.id as string);
  }
  const ids = new Map<string, string>();

  async function settle(hold: Hold, share: number | undefined, ago: number | undefined): Promise<void> {
    if (hold.state === 'settled') return;
    const quantity = share === undefined ? hold.quantity : Math.round(hold.quantity * share * 1000) / 1000;
    const { status } = await call('POST', `/usage/reservations/${ids.get(hold.key)}/settle`, {
      ...(share === undefined ? {} : { quantity }),
      ...(ago === undefined ? {} : { occurredAt: iso(model.now - ago) }),
    });
    expect(status).toBe(200);
    hold.state = 'settled';
    const { key, product, price: unit, model: name, subject } = hold;
    const at = model.now - (ago ?? 0);
    model.record([{ key, product, quantity, at, receivedAt: model.now, price: unit, model: name, subject }]);
  }

  function wait(ms: number): void {
    model.now += ms;
    service.clock.advance(ms);
  }

  async function take(step: Step): Promise<void> {
    const hold = 'which' in step ? model.holds[step.which % Math.max(1, model.holds.length)] : undefined;
    switch (step.do) {
      case 'grant':
        return grant(step);
      case 'void': {
        const { grants } = model.read();
        const one = grants[step.which % Math.max(1, grants.length)];
        if (!one) return;
        const { status } = await operate('POST', `${root}/credits/grants/${one.key}/void`, {
          reason: 'test',
        });
        return expect(status).toBe(model.void(one.key) ? 200 : 409);
      }
      case 'forgive': {
        const path = `${root}/credits/overdrafts/${slugs[step.product]}/forgive`;
        expect((await operate('POST', path, { reason: 'test' })).status).toBe(200);
        return model.forgive(step.product);
      }
      case 'price': {
        const { large, price: one, blocks } = step;
        model.products[step.product] = { price: one, prices: large === undefined ? {} : { large }, blocks };
        return price(step.product);
      }
      case 'send':
        return send(step);
      case 'correct':
        return correct(step);
      case 'reserve':
        return reserve(step);
      case 'settle':
        return hold && settle(hold, step.share, step.ago);
      case 'release':
        if (!hold) return;
        expect((await call('DELETE', `/usage/reservations/${ids.get(hold.key)}`)).status).toBe(200);
        if (hold.state === 'held') hold.state = 'released';
        return;
      case 'old':
        return sendOld(step);
      case 'wait':
        return wait(step.ms);
    }
  }

  async function correct({ which, quantity, again }: Extract<Step, { do: 'correct' }>): Promise<void> {
    const event = model.events[which % Math.max(1, model.events.length)];
    if (!event || model.now - event.receivedAt > 35 * DAY) return;
    // The correction must be later than the burn, because the ledger merges entries with the same time.
    wait(1);
    const corrections = [quantity, ...(again === undefined ? [] : [again])].map((to) => ({
      idempotencyKey: event.key,
      quantity: to,
      reason: 'test',
      correctionKey: `c${++names}`,
    }));
    for (let repeat = 0; repeat < 2; repeat++)
      expect((await call('POST', '/usage/corrections', { corrections })).status).toBe(200);
    model.correct(
      event,
      corrections.map((one) => one.quantity),
    );
  }

  async function sendOld(step: Extract<Step, { do: 'old' }>): Promise<void> {
    const named = step.events.map((one) => ({
      one: { ...one, ago: 20 * DAY + Math.abs(one.ago ?? 0) },
      key: `b${String(++names).padStart(3, '0')}`,
    }));
    const events = named.map(({ one, key }) => toBody(one, key));
    const sent = await operate('POST', `${root}/usage/events`, { events });
    expect([sent.status, sent.body.accepted]).toEqual([202, events.length]);
    model.record(named.map(({ one, key }) => toEvent(one, key)));
  }

  /** Compares the account as a key can read it, and the stored ledger, with the model. */
  async function expectSame(): Promise<void> {
    const expected = model.read();
    const { body } = await call('GET', '/credits');
    expect({
      balance: toCredits(body.balance),
      held: toCredits(body.held),
      debts: new Map(
        body.overdrafts.map((one: { productSlug: string; quantity: string }) => [
          slugs.indexOf(one.productSlug),
          toCredits(one.quantity),
        ]),
      ),
      grants: body.grants
        .map((one: { grantKey: string; status: string; burned: string; remaining: string }) => ({
          key: one.grantKey,
          status: one.status,
          burned: toCredits(one.burned),
          remaining: toCredits(one.remaining),
        }))
        .toSorted(
          (a: { key: string }, b: { key: string }) => Number(a.key.slice(1)) - Number(b.key.slice(1)),
        ),
    }).toEqual(expected);
    // While credits are held, the service may report fewer available credits than the model.
    if (expected.held === 0n) {
      const { entitlements } = (await call('GET', '/entitlements')).body;
      for (const { productSlug, credits } of entitlements)
        expect(toCredits(credits.available)).toBe(model.roomFor(slugs.indexOf(productSlug)));
    }
    const ledger = await selectRows<{
      kind: string;
      product: string;
      from: string;
      key: string;
      amount: string;
    }>(
      orm,
      sql`select e.kind, e.product_id::text as product, e.grant_id::text as from, g.grant_key as key, trim_scale(sum(e.amount))::text as amount
      from credit_entries e left join credit_grants g on g.org_id = e.org_id and g.id = e.grant_id
      where e.org_id = ${organization.id}::uuid group by 1, 2, 3, 4`,
    );
    const nameOf = (id: string) => (productOf.has(id) ? `p${productOf.get(id)}` : '-');
    expect(
      new Map(
        ledger.map(({ kind, product, from, key, amount }) => [
          `${kind} ${nameOf(product)} ${key ?? nameOf(from)}`,
          toCredits(amount),
        ]),
      ),
    ).toEqual(model.ledger);
  }

  /** Compares the stored sums, by subject and by hour and dimensions, with the model's events. */
  async function expectSameAtTheEnd(): Promise<void> {
    expect(await compareCredits(orm, organization.id)).toEqual([]);
    expect(await compare(orm, { orgId: organization.id })).toEqual({
      totals: [],
      hours: [],
      subjects: [],
      settlements: [],
    });
    const sums = new Map<string, number>();
    const add = (name: string, quantity: number) =>
      sums.set(name, (sums.get(name) ?? 0) + Math.round(quantity * 1000));
    for (const { product, at, model: name, subject, quantity } of model.events) {
      add(`hour ${iso(hourOf(at))} p${product} ${name}`, quantity);
      if (subject)
        add(`slot ${iso(Math.floor(at / (5 * MINUTE)) * 5 * MINUTE)} p${product} ${subject}`, quantity);
    }
    const found = await selectRows<{
      kind: string;
      at: string;
      product: string;
      part: string;
      quantity: number;
    }>(
      orm,
      sql`select 'hour' as kind, to_char(hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, product_id::text as product, dimensions as part, sum(quantity * 1000)::float8 as quantity
      from usage_hours where org_id = ${organization.id}::uuid group by 1, 2, 3, 4
      union all select 'slot', to_char(slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), product_id::text, subject, sum(quantity * 1000)::float8
      from usage_subjects where org_id = ${organization.id}::uuid group by 1, 2, 3, 4`,
    );
    const names = found.map(({ kind, at, product, part, quantity }) => [
      `${kind} ${at} p${productOf.get(product)} ${part}`,
      quantity,
    ]);
    expect(new Map(names as [string, number][])).toEqual(sums);
  }

  return { take, expectSame, expectSameAtTheEnd };
}

it(
  'balances, grants, overdrafts, holds and the ledger match a plain model',
  { timeout: 3_000_000 },
  async () => {
    const steps = fc.array(anyStep, { minLength: 5, maxLength: 25, size: 'max' });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...starts), steps, async (start, sequence) => {
        const both = await setUp(start);
        for (const step of sequence) {
          await both.take(step);
          await both.expectSame();
        }
        await both.expectSameAtTheEnd();
      }),
      { numRuns, examples, ...seed },
    );
  },
);
