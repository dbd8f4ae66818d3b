import fc from 'fast-check';
import { expect } from 'vitest';
import { sendUsage } from '../../support/usage.js';
import {
  checkModel,
  entitlementInEffect,
  keyProblem,
  monthOf,
  sendToModel,
  type Model,
  type ModelKey,
  type SentEvent,
} from './model.js';
import * as system from './system.js';
import type { System } from './system.js';

type Command = fc.AsyncCommand<Model, System>;

const MINUTE = 60_000;
const DAY = 1_440 * MINUTE;
/** Runs start within a few days of this time. */
export const TURN_OF_MONTH = Date.parse('2031-03-01T00:00:00Z');

/** A command with one of the existing keys; skipped while no key exists. */
function onKey(
  name: string,
  number: number,
  run: (model: Model, real: System, key: number) => Promise<void>,
): Command {
  return {
    check: (model) => model.keys.length > 0,
    async run(model, real) {
      await run(model, real, number % model.keys.length);
      await expectSameTotals(model, real);
    },
    toString: () => `${name} key:${number}`,
  };
}

function always(name: string, run: (model: Model, real: System) => Promise<void>): Command {
  return {
    check: () => true,
    async run(model, real) {
      await run(model, real);
      await expectSameTotals(model, real);
    },
    toString: () => name,
  };
}

async function expectSameTotals(model: Model, real: System): Promise<void> {
  const sums = new Map<string, { quantity: number; events: number }>();
  for (const [org, events] of model.events.entries()) {
    for (const { product, metric, livemode, occurredAt, quantity } of events.values()) {
      const name = `${org} ${product} ${metric} ${livemode ? 'live' : 'test'} ${monthOf(occurredAt)}`;
      const sum = sums.get(name) ?? { quantity: 0, events: 0 };
      sums.set(name, { quantity: sum.quantity + quantity, events: sum.events + 1 });
    }
  }
  const expected = [...sums].map(
    ([name, { quantity, events }]) => `${name}: ${system.toUnits(quantity)} in ${events}`,
  );
  expect(await system.readTotals(real)).toEqual(expected.sort());
}

/** A time relative to now or to the turn of the month. */
interface When {
  from: 'now' | 'month';
  ms: number;
}

interface SendInput {
  events: (Omit<SentEvent, 'occurredAt'> & { when: When | undefined })[];
  lenient: boolean;
  dryRun: boolean;
  offset: string;
}

function sendCommand(key: number, { events, lenient, dryRun, offset }: SendInput): Command {
  const name = `send ${lenient ? 'lenient ' : ''}${dryRun ? 'dry run ' : ''}${JSON.stringify(events)}`;
  return onKey(name, key, async (model, real, k) => {
    const batch = events.map(({ when, ...event }) => ({
      ...event,
      occurredAt: when && (when.from === 'now' ? model.now : TURN_OF_MONTH) + when.ms,
    }));
    model.lastBatch = batch;
    await sendAndCompare(model, real, k, batch, { lenient, dryRun }, offset);
    // Sends the same batch again, like a client that lost the response.
    if (!dryRun) await sendAndCompare(model, real, k, batch, { lenient, dryRun }, offset);
  });
}

/** Sends the last batch again with another key, perhaps of another mode or Organization. */
function repeatCommand(key: number): Command {
  return onKey('repeat', key, async (model, real, k) => {
    if (!model.lastBatch) return;
    await sendAndCompare(model, real, k, model.lastBatch, { lenient: true, dryRun: false }, 'Z');
  });
}

async function sendAndCompare(
  model: Model,
  real: System,
  k: number,
  batch: SentEvent[],
  options: { lenient: boolean; dryRun: boolean },
  offset: string,
): Promise<void> {
  const wire = batch.map(({ product, metric, quantity, occurredAt, key }) => ({
    productSlug: slugOf(real, product),
    metric,
    idempotencyKey: key,
    ...(quantity === undefined ? {} : { quantity: quantity / 1000 }),
    ...(occurredAt === undefined ? {} : { occurredAt: toLocalTime(occurredAt, offset) }),
  }));
  const { status, body } = await sendUsage(real.service.url, real.keys[k]!.secret, wire, options);
  const actual = {
    status,
    ...(status === 202
      ? {
          accepted: body.accepted,
          deduped: body.deduped,
          warnings: body.warnings.map(warningOf(real)).sort(),
        }
      : { code: body.code }),
    ...(body.errors ? { errors: body.errors.map(indexAndCode) } : {}),
    ...(body.rejected ? { rejected: body.rejected.map(indexAndCode) } : {}),
  };
  expect(actual).toEqual(sendToModel(model, model.keys[k]!, batch, options));
}

const indexAndCode = ({ index, code }: { index: number; code: string }) => `${index} ${code}`;
const slugOf = (real: System, product: number) => real.products[product]?.slug ?? 'unknown-product';

interface Warning {
  code: string;
  index: number;
  differs?: string[];
  productSlug: string;
  period: { start: string };
  used: number;
  unitCap: number;
}

const warningOf = (real: System) => (w: Warning) =>
  w.code === 'duplicate_mismatch'
    ? [w.code, w.index, ...(w.differs ?? [])].join(' ')
    : `${w.code} ${real.products.findIndex(({ slug }) => slug === w.productSlug)} ${w.period.start.slice(0, 10)} ${Math.round(w.used * 1000)}/${w.unitCap * 1000}`;

/** Formats an instant with a UTC offset. */
function toLocalTime(ms: number, offset: string): string {
  if (offset === 'Z') return new Date(ms).toISOString();
  const minutes = Number(`${offset[0]}1`) * (Number(offset.slice(1, 3)) * 60 + Number(offset.slice(4)));
  return new Date(ms + minutes * MINUTE).toISOString().replace('Z', offset);
}

function checkCommand(key: number, products: number[]): Command {
  return onKey(`check ${products.join()}`, key, async (model, real, k) => {
    const response = await fetch(`${real.service.url}/api/entitlements/check`, {
      method: 'POST',
      headers: { authorization: `Bearer ${real.keys[k]!.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ productSlugs: products.map((product) => slugOf(real, product)) }),
    });
    const body = (await response.json()) as { code?: string };
    const problem = keyProblem(model, model.keys[k]!, 'entitlements:read');
    if (problem) expect(body.code).toBe(problem);
    else {
      const expected = products.map((product) => ({
        productSlug: slugOf(real, product),
        ...checkModel(model, model.keys[k]!, product),
        limits: [],
        features: {},
      }));
      expect(body).toEqual({ results: expected });
    }
  });
}

function listCommand(key: number): Command {
  return onKey('list', key, async (model, real, k) => {
    const response = await fetch(`${real.service.url}/api/entitlements`, {
      headers: { authorization: `Bearer ${real.keys[k]!.secret}` },
    });
    const body = (await response.json()) as { code?: string; entitlements: Record<string, unknown>[] };
    const modelKey = model.keys[k]!;
    const problem = keyProblem(model, modelKey, 'entitlements:read');
    if (problem) {
      expect(body.code).toBe(problem);
      return;
    }
    const expected = model.products.flatMap((_, product) => {
      if (!entitlementInEffect(model, modelKey.org, product)) return [];
      const { kind, unitCap, used, remaining } = checkModel(model, modelKey, product);
      return [{ productSlug: slugOf(real, product), kind, unitCap, used, remaining }];
    });
    const actual = body.entitlements.map(({ productSlug, kind, unitCap, used, remaining }) => ({
      productSlug: productSlug as string,
      kind,
      unitCap,
      used,
      remaining,
    }));
    const bySlug = (a: { productSlug: string }, b: { productSlug: string }) =>
      a.productSlug < b.productSlug ? -1 : 1;
    expect(actual).toEqual(expected.sort(bySlug));
  });
}

function createCommand(
  org: number,
  livemode: boolean,
  scopes: string[],
  expiresInMs: number | undefined,
): Command {
  return always(`create org:${org} ${livemode} ${scopes.join()} ${expiresInMs}`, async (model, real) => {
    const expiresAt = expiresInMs === undefined ? null : model.now + expiresInMs;
    const key: ModelKey = { org, livemode, scopes, expiresAt, isRevoked: false, isRotated: false };
    model.keys.push(key);
    await system.addKey(real, key);
  });
}

function rotateCommand(key: number, graceMs: number): Command {
  return onKey(`rotate ${graceMs}`, key, async (model, real, k) => {
    const old = model.keys[k]!;
    const isActive =
      !old.isRevoked && !old.isRotated && (old.expiresAt === null || old.expiresAt > model.now);
    if (!isActive) return;
    const oldExpiresAt = Math.min(old.expiresAt ?? Infinity, model.now + graceMs);
    await system.rotateKey(real, k, oldExpiresAt);
    model.keys.push({ ...old });
    old.expiresAt = oldExpiresAt;
    old.isRotated = true;
  });
}

function revokeCommand(key: number): Command {
  return onKey('revoke', key, async (model, real, k) => {
    model.keys[k]!.isRevoked = true;
    await system.revokeKey(real, k, model.now);
  });
}

interface Grant {
  kind: 'live' | 'read_only';
  startsInMs: number;
  lastsMs: number | undefined;
  ownCap: number | null | undefined;
}

function grantCommand(org: number, product: number, { kind, startsInMs, lastsMs, ownCap }: Grant): Command {
  return always(
    `grant org:${org} product:${product} ${kind} ${startsInMs} ${lastsMs} cap:${ownCap}`,
    async (model, real) => {
      const startsAt = model.now + startsInMs;
      const entitlement = {
        kind,
        startsAt,
        endsAt: lastsMs === undefined ? null : startsAt + lastsMs,
        ownCap,
      };
      model.entitlements.set(`${org} ${product}`, entitlement);
      await system.putEntitlement(real, org, product, entitlement);
    },
  );
}

function withdrawCommand(org: number, product: number): Command {
  return always(`withdraw org:${org} product:${product}`, async (model, real) => {
    model.entitlements.delete(`${org} ${product}`);
    await system.deleteEntitlement(real, org, product);
  });
}

function changeProductCommand(product: number, metric: string, unitCap: number | null): Command {
  return always(`change product:${product} ${metric} cap:${unitCap}`, async (model, real) => {
    model.products[product] = { metric, unitCap };
    await system.changeProduct(real, product, { metric, unitCap });
  });
}

function advanceCommand(ms: number): Command {
  return always(`advance ${ms}`, async (model, real) => {
    model.now += ms;
    real.service.clock.advance(ms);
  });
}

const before = (ms: number): When => ({ from: 'now', ms });
const aroundMonth = (ms: number): When => ({ from: 'month', ms });

/** Generates commands of every kind, most often sends. `organizations` and `products` are counts. */
export function anyCommand(organizations: number, products: number): fc.Arbitrary<Command>[] {
  const org = fc.nat(organizations - 1);
  const product = fc.nat(products - 1);
  const productOrUnknown = fc.nat(products);
  const key = fc.nat(7);
  const event = fc.record({
    product: fc.oneof({ weight: 12, arbitrary: product }, { weight: 1, arbitrary: productOrUnknown }),
    metric: fc.oneof(
      { weight: 12, arbitrary: fc.constant('calls') },
      { weight: 1, arbitrary: fc.constant('bytes') },
    ),
    quantity: fc.option(
      fc.oneof(
        fc.integer({ min: 0, max: 9 }).map((n) => n * 1000),
        fc.nat(9_999),
      ),
      { nil: undefined },
    ),
    when: fc.oneof(
      { weight: 4, arbitrary: fc.constant(undefined) },
      { weight: 3, arbitrary: fc.integer({ min: -7 * DAY, max: 0 }).map(before) },
      { weight: 2, arbitrary: fc.constantFrom(-30 * MINUTE, -1, 0, 30 * MINUTE).map(aroundMonth) },
      {
        weight: 1,
        arbitrary: fc.constantFrom(-7 * DAY, -7 * DAY - 1, 5 * MINUTE, 5 * MINUTE + 1).map(before),
      },
    ),
    key: fc.nat(14).map((n) => `key ${n}`),
  });
  const grantKind = fc.constantFrom('live' as const, 'live' as const, 'live' as const, 'read_only' as const);
  const startsInMs = fc.constantFrom(0, 0, 0, -DAY, DAY);
  const lastsMs = fc.constantFrom(undefined, undefined, 1, DAY);
  const ownCap = fc.constantFrom(undefined, undefined, null, 0, 5_000, 12_500);
  const send = fc
    .tuple(
      key,
      fc.record({
        events: fc.array(event, { minLength: 1, maxLength: 12 }),
        lenient: fc.boolean(),
        dryRun: fc.constantFrom(false, false, false, true),
        offset: fc.constantFrom('Z', 'Z', '+02:00', '-11:30', '+18:45'),
      }),
    )
    .map(([k, input]) => sendCommand(k, input));
  const scopes = fc.constantFrom<string[][]>(
    ['usage:write', 'entitlements:read'],
    ['usage:write', 'entitlements:read'],
    ['usage:write'],
    ['entitlements:read'],
  );
  return [
    send,
    send,
    send,
    send,
    fc
      .tuple(key, fc.array(productOrUnknown, { minLength: 1, maxLength: 5 }))
      .map(([k, list]) => checkCommand(k, list)),
    key.map(repeatCommand),
    key.map(listCommand),
    fc
      .tuple(org, fc.boolean(), scopes, fc.constantFrom(undefined, undefined, 1, DAY))
      .map(([o, livemode, list, expires]) => createCommand(o, livemode, list, expires)),
    fc.tuple(key, fc.constantFrom(0, 60 * MINUTE, 2 * DAY)).map(([k, grace]) => rotateCommand(k, grace)),
    key.map(revokeCommand),
    fc
      .tuple(org, product, fc.record({ kind: grantKind, startsInMs, lastsMs, ownCap }))
      .map(([o, p, input]) => grantCommand(o, p, input)),
    fc.tuple(org, product).map(([o, p]) => withdrawCommand(o, p)),
    fc
      .tuple(
        product,
        fc.constantFrom('calls', 'calls', 'calls', 'bytes'),
        fc.option(fc.nat(20).map((n) => n * 1000)),
      )
      .map(([p, metric, cap]) => changeProductCommand(p, metric, cap)),
    fc.constantFrom(1, MINUTE, 59 * MINUTE, 60 * MINUTE, DAY, 3 * DAY).map(advanceCommand),
  ];
}
