import fc from 'fast-check';
import { sql } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import { createBackfillRunner } from '../../../src/metering/backfills/runner.js';
import { compare } from '../../../src/metering/reconciliation/reconcile.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { operatorToken } from '../../support/operator.js';
import { useService } from '../../support/use.js';

/** Use MODEL_RUNS=300 for a long run and MODEL_SEED to repeat one. */
const numRuns = Number(process.env.MODEL_RUNS ?? 10);
const seed = process.env.MODEL_SEED === undefined ? {} : { seed: Number(process.env.MODEL_SEED) };
const NOW = Date.parse('2031-03-20T12:34:56.789Z');
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const ALL = 999;

const { database, service } = useService();
beforeAll(async () => {
  service.clock.set(new Date(NOW).toISOString());
});

/** Only six keys, so that they collide. Quantities are in thousandths, ages in ms. */
const key = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');
const quantity = fc.constantFrom(0, 1, 500, 1_000, 2_250, 40_000);
const event = fc.record({ key, quantity });
const recent = fc.constantFrom(0, 1, 30 * 60_000, HOUR, DAY, 7 * DAY);
/**
 * Old enough for a backfill, which accepts only events more than 7 days old. Some ages are at the edge of the limit's
 * 31-day window.
 */
const old = fc.constantFrom(7 * DAY + 1, 20 * DAY, 31 * DAY - 1, 31 * DAY, 31 * DAY + HOUR, 80 * DAY);
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('send' as const), event, ago: recent }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('correct' as const), event }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('stage' as const),
      events: fc.array(fc.record({ event, ago: old }), { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constantFrom('apply' as const, 'revert' as const, 'discard' as const) }),
  },
  // With a limited number of turns, a step can stop halfway.
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('work' as const), turns: fc.constantFrom(1, 2, ALL) }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

interface Counted {
  sent: number;
  counts: number;
  at: number;
  /** The backfill that staged the event, if any. */
  backfill: number | undefined;
}

interface Backfill {
  id: string;
  state: 'open' | 'applying' | 'applied' | 'reverting' | 'reverted' | 'discarding' | 'discarded';
  staged: Map<string, { quantity: number; at: number }>;
  /** Keys that the current step has yet to process, in order. */
  left: string[];
}

const isGoing = (state: string) => state.endsWith('ing');

async function setUp() {
  const { db } = database;
  const organization = await createOrganization(db);
  const product = await createProduct(db, { maxQuantity: '1000000' });
  const windows = ['PT1H', 'P31D', 'calendar_month', 'calendar_week'];
  const limits = windows.map((window) => ({ quantity: '1000000', window, enforcement: 'block' as const }));
  await grant(db, organization.id, product.id, { limits, startsAt: new Date('2020-01-01') });
  const { secret } = await createKey(db, organization.id, { scopes: ['usage:write', 'entitlements:read'] });
  const recorded = new Map<string, Counted>();
  const backfills: Backfill[] = [];
  let names = 0;
  const root = `/operator/organizations/${organization.slug}/usage`;

  async function call(method: string, path: string, body?: object) {
    const response = await fetch(`${service.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${path.startsWith('/operator') ? operatorToken : secret}`,
        ...(body ? { 'content-type': 'application/json' } : {}),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return { status: response.status, body: (await response.json()) as Record<string, any> };
  }

  const sendable = (one: { key: string; quantity: number }, at: number) => ({
    productSlug: product.slug,
    metric: 'calls',
    quantity: one.quantity / 1000,
    idempotencyKey: one.key,
    occurredAt: new Date(at).toISOString(),
  });

  async function send(
    { key: name, quantity: sent }: { key: string; quantity: number },
    at: number,
  ): Promise<void> {
    const before = recorded.get(name);
    const { status, body } = await call('POST', '/api/usage/events', {
      events: [sendable({ key: name, quantity: sent }, at)],
    });
    const differs = before !== undefined && (before.sent !== sent || before.at !== at);
    expect([status, body.accepted, body.warnings.map(({ code }: { code: string }) => code)]).toEqual([
      202,
      before ? 0 : 1,
      differs ? ['duplicate_mismatch'] : [],
    ]);
    if (!before) recorded.set(name, { sent, counts: sent, at, backfill: undefined });
  }

  async function correct({ key: name, quantity: to }: { key: string; quantity: number }): Promise<void> {
    const before = recorded.get(name);
    const correction = {
      idempotencyKey: name,
      quantity: to / 1000,
      reason: 'model',
      correctionKey: `c-${++names}`,
    };
    const { status, body } = await call('POST', `${root}/corrections`, { corrections: [correction] });
    if (!before) return expect([status, body.code]).toEqual([404, 'event_not_found']);
    const result = { idempotencyKey: name, previousQuantity: before.counts / 1000, quantity: to / 1000 };
    expect([status, body]).toEqual([200, { applied: 1, deduped: 0, results: [result] }]);
    before.counts = to;
  }

  async function open(): Promise<Backfill> {
    const range = { from: '2030-01-01T00:00:00Z', to: '2031-12-01T00:00:00Z' };
    const { status, body } = await call('POST', `${root}/backfills`, { reason: 'model', ...range });
    expect(status).toBe(201);
    const backfill: Backfill = { id: body.id, state: 'open', staged: new Map(), left: [] };
    backfills.push(backfill);
    return backfill;
  }

  async function stage(events: { event: { key: string; quantity: number }; ago: number }[]): Promise<void> {
    const backfill = backfills.find(({ state }) => state === 'open') ?? (await open());
    const { status, body } = await call('POST', `${root}/backfills/${backfill.id}/events`, {
      events: events.map((one) => sendable(one.event, NOW - one.ago)),
    });
    let accepted = 0;
    for (const { event: one, ago } of events)
      if (!backfill.staged.has(one.key)) {
        accepted++;
        backfill.staged.set(one.key, { quantity: one.quantity, at: NOW - ago });
      }
    expect([status, body.accepted, body.deduped]).toEqual([202, accepted, events.length - accepted]);
  }

  async function begin(what: 'apply' | 'revert' | 'discard'): Promise<void> {
    const from = what === 'revert' ? 'applied' : 'open';
    const backfill = backfills.find(({ state }) => state === from);
    if (!backfill) return;
    const path = `${root}/backfills/${backfill.id}`;
    const { status } = await (what === 'discard' ? call('DELETE', path) : call('POST', `${path}/${what}`));
    expect(status).toBe(202);
    backfill.state = ({ apply: 'applying', revert: 'reverting', discard: 'discarding' } as const)[what];
    backfill.left = [...backfill.staged.keys()].sort();
  }

  /** Runs up to `turns` turns of one event each; ALL completes every step. */
  async function work(turns: number): Promise<void> {
    const run = createBackfillRunner({ db, clock: service.clock }, { chunk: 1, turnMs: 0 });
    for (let i = 0; i < turns && backfills.some(({ state }) => isGoing(state)); i++) {
      await run();
      for (const backfill of backfills.filter(({ state }) => isGoing(state))) await catchUp(backfill);
    }
    if (turns === ALL) expect(backfills.filter(({ state }) => isGoing(state))).toEqual([]);
  }

  /** Updates the model with the progress that the service reports. */
  async function catchUp(backfill: Backfill): Promise<void> {
    const { state, progress } = (await call('GET', `${root}/backfills/${backfill.id}`)).body.backfill;
    while (backfill.staged.size - backfill.left.length < progress.done)
      settle(backfill, backfill.left.shift()!);
    if (state === backfill.state) return;
    expect([state, backfill.left]).toEqual([
      { applying: 'applied', reverting: 'reverted', discarding: 'discarded' }[backfill.state as 'applying'],
      [],
    ]);
    backfill.state = state;
  }

  function settle(backfill: Backfill, name: string): void {
    const own = backfill.staged.get(name)!;
    const before = recorded.get(name);
    const number = backfills.indexOf(backfill);
    if (backfill.state === 'applying' && !before)
      recorded.set(name, { sent: own.quantity, counts: own.quantity, at: own.at, backfill: number });
    if (backfill.state === 'reverting' && before?.backfill === number) before.counts = 0;
  }

  async function take(one: Step): Promise<void> {
    switch (one.do) {
      case 'send':
        return send(one.event, NOW - one.ago);
      case 'correct':
        return correct(one.event);
      case 'stage':
        return stage(one.events);
      case 'work':
        return work(one.turns);
      default:
        return begin(one.do);
    }
  }

  const sumBy = (nameOf: (one: Counted) => string) => {
    const sums: Record<string, [number, number]> = {};
    for (const one of recorded.values()) {
      const [counts, events] = sums[nameOf(one)] ?? [0, 0];
      sums[nameOf(one)] = [counts + one.counts, events + 1];
    }
    return sums;
  };

  async function expectSame(): Promise<void> {
    const read = async (table: string, column: string) => {
      const rows = await selectRows<{ name: string; quantity: string; events: string }>(
        db.orm,
        sql.raw(`select to_char(${column}, 'YYYY-MM-DD"T"HH24') as name, sum(quantity)::text as quantity, sum(events)::text as events
        from ${table} where org_id = '${organization.id}' group by 1`),
      );
      return Object.fromEntries(
        rows.map((row) => [row.name, [Math.round(Number(row.quantity) * 1000), Number(row.events)]]),
      );
    };
    const time = (ms: number) => new Date(ms).toISOString();
    expect(await read('usage_totals', 'period')).toEqual(sumBy(({ at }) => `${time(at).slice(0, 7)}-01T00`));
    expect(await read('usage_hours', `hour at time zone 'UTC'`)).toEqual(
      sumBy(({ at }) => time(at).slice(0, 13)),
    );
    const { body } = await call('GET', `/api/entitlements/${product.slug}`);
    const within = (counts: (at: number) => boolean) =>
      [...recorded.values()].reduce((sum, one) => sum + (counts(one.at) ? one.counts : 0), 0) / 1000;
    const monday = Date.parse('2031-03-17T00:00:00Z');
    expect(body.limits.map(({ used }: { used: number }) => used)).toEqual([
      within((at) => at > NOW - HOUR),
      within((at) => at > NOW - 31 * DAY),
      within((at) => at >= Date.parse('2031-03-01T00:00:00Z')),
      within((at) => at >= monday),
    ]);
    const drift = await compare(db.orm, { orgId: organization.id });
    expect(drift).toEqual({ totals: [], hours: [], subjects: [], settlements: [] });
  }

  return { take, expectSame };
}

it(
  'totals, hours and windows match a plain model through sends, repeats, corrections, backfills and reverts',
  { timeout: 900_000 },
  async () => {
    const steps = fc.array(step, { minLength: 5, maxLength: 30, size: 'max' });
    await fc.assert(
      fc.asyncProperty(steps, async (sequence) => {
        const both = await setUp();
        for (const one of sequence) {
          await both.take(one);
          await both.expectSame();
        }
      }),
      { numRuns, ...seed },
    );
  },
);
