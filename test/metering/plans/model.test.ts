import { sql } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { byService, change } from '../../../src/accounts/audit/audit.js';
import type { Database, Tx } from '../../../src/core/db/client.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { DAY_MS, HOUR_MS } from '../../../src/core/time.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { createPlanJob } from '../../../src/metering/plans/job.js';
import {
  endOrganizationPlan,
  moveOrganizations,
  putOrganizationPlan,
} from '../../../src/metering/plans/organization-plans.js';
import { periodAt, startOfPeriod } from '../../../src/metering/plans/periods.js';
import { getPlan, putPlan } from '../../../src/metering/plans/plans.js';
import type { PlanGrant } from '../../../src/metering/plans/schema.js';
import { createOrganization } from '../../support/fixtures.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();

const isLeap = (year: number) => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
const daysOf = (year: number, month: number) =>
  [31, isLeap(year) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month]!;

/** Start of the n-th period, by counting months one by one. */
function startOf(every: PlanGrant['every'], anchor: Date, n: number): number {
  if (every !== 'month') return anchor.getTime() + n * (every === 'day' ? 1 : 7) * DAY_MS;
  let [year, month] = [anchor.getUTCFullYear(), anchor.getUTCMonth()];
  for (let left = Math.abs(n); left > 0; left--) {
    month += Math.sign(n);
    if (month === 12) [year, month] = [year + 1, 0];
    if (month === -1) [year, month] = [year - 1, 11];
  }
  const day = Math.min(anchor.getUTCDate(), daysOf(year, month));
  const timeOfDay = anchor.getTime() % DAY_MS;
  return Date.UTC(year, month, day) + timeOfDay;
}

it('periods follow each other without a gap, from any anchor to any time', () => {
  const random = randomFrom(Number(process.env.PROPERTY_SEED ?? 7));
  for (let i = 0; i < 2_000; i++) {
    const anchor = new Date(Date.UTC(2024 + random(4), random(12), 1 + random(31), random(24)));
    const at = new Date(Date.UTC(2020 + random(12), random(12), 1 + random(31), random(24)));
    for (const every of ['month', 'week', 'day'] as const) {
      const n = periodAt(every, anchor, at);
      expect(startOfPeriod(every, anchor, n).getTime()).toBe(startOf(every, anchor, n));
      expect(startOf(every, anchor, n)).toBeLessThanOrEqual(at.getTime());
      expect(startOf(every, anchor, n + 1)).toBeGreaterThan(at.getTime());
    }
  }
});

it('an anchor on the 31st returns to it after shorter months, and finds leap days', () => {
  const days = (anchor: string, months: number[]) =>
    months.map((n) => startOfPeriod('month', new Date(anchor), n).toISOString().slice(5, 10));
  expect(days('2027-12-31T10:00:00Z', [0, 1, 2, 3, 4])).toEqual([
    '12-31',
    '01-31',
    '02-29',
    '03-31',
    '04-30',
  ]);
  expect(days('2028-02-29T10:00:00Z', [-1, 0, 12, 48])).toEqual(['01-29', '02-29', '02-28', '02-29']);
});

/** Park and Miller's generator: whole numbers below a bound. */
function randomFrom(seed: number): (below: number) => number {
  let state = (seed % 2_147_483_646) + 1;
  return (below) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
}

const LEAD = 2 * DAY_MS;

/** The rules in plain code: each period that the terms touch, from the time at which they apply on, has one grant. */
class Model {
  grants = new Map<string, { amount: string; startsMs: number }>();
  terms: { grants: readonly PlanGrant[]; anchor: Date; startsMs: number; fromMs: number } | undefined;

  makeUntil(nowMs: number) {
    if (!this.terms) return;
    const { grants, anchor, startsMs, fromMs } = this.terms;
    for (const { key, every, amount } of grants)
      for (let n = every === 'month' ? -40 : -400; startOf(every, anchor, n) <= nowMs + LEAD; n++) {
        if (startOf(every, anchor, n + 1) <= fromMs) continue;
        const start = startOf(every, anchor, n);
        const name = `plan:${key}:${new Date(start).toISOString()}`;
        if (!this.grants.has(name)) this.grants.set(name, { amount, startsMs: Math.max(start, startsMs) });
      }
  }

  dropComing(nowMs: number) {
    for (const [name, { startsMs }] of this.grants) if (startsMs > nowMs) this.grants.delete(name);
  }

  /** @param terms undefined when the plan ends */
  change(nowMs: number, terms: { grants: readonly PlanGrant[]; anchor: Date; startsMs: number } | undefined) {
    this.makeUntil(nowMs);
    this.dropComing(nowMs);
    this.terms = terms && { ...terms, fromMs: nowMs };
  }
}

const grant = (key: string, amount: string, every: PlanGrant['every']): PlanGrant => ({
  key,
  amount,
  every,
  expires: 'period',
});

const plans: Record<string, PlanGrant[]> = {
  small: [grant('credits', '10', 'month'), grant('bonus', '1', 'week')],
  large: [grant('credits', '50', 'month'), grant('extra', '2', 'month')],
  daily: [grant('daily', '1', 'day'), grant('bonus', '3', 'week')],
};

class Killed extends Error {}

/** Its transactions end before or after their commit, as if the process had been killed, while `isKilling`. */
function killable(db: Database) {
  const state = { kill: (): 'before' | 'after' | undefined => undefined };
  const orm = new Proxy(db.orm, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (name !== 'transaction')
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      return async (work: (tx: Tx) => Promise<unknown>, options: object) => {
        const kill = state.kill();
        const result = await db.orm.transaction(async (tx) => {
          const done = await work(tx as unknown as Tx);
          if (kill === 'before') throw new Killed();
          return done;
        }, options);
        if (kill === 'after') throw new Killed();
        return result;
      };
    },
  });
  return { db: { ...db, orm } as Database, state };
}

it('each period has its grant exactly once through two years of changes and kills', async () => {
  const random = randomFrom(Number(process.env.PROPERTY_SEED ?? 41));
  const clock = { ms: Date.UTC(2027, 0, 31, 5), now: () => clock.ms };
  const { db, state } = killable(database.db);
  const deps = { db, clock, metrics: createMetrics([createMeteringMetrics]) };
  const source = () => ({ actor: 'operator', at: new Date(clock.ms) });
  const act = <T>(work: (tx: Tx) => Promise<T>) => change(deps, byService, work);
  const job = createPlanJob(deps);
  const name = (word: string) => `model-${word}`;
  const current = new Map(Object.entries(plans));
  for (const [word, grants] of current)
    await act((tx) =>
      putPlan(tx, name(word), { name: word, definition: { entitlements: [], grants } }, source()),
    );
  const { id, slug } = await createOrganization(database.db);
  const other = await createOrganization(database.db);
  const model = new Model();
  let on: string | undefined;
  let startsMs = 0;
  let anchor = new Date(0);

  const compare = async () => {
    const rows = await selectRows<{ key: string; amount: string; starts: string }>(
      database.db.orm,
      sql`select grant_key as key, amount::text as amount, starts_at::text as starts from credit_grants
        where org_id = ${id}::uuid and voided_at is null`,
    );
    const found = rows.map(({ key, amount, starts }) => [key, amount, new Date(starts).getTime()] as const);
    const wanted = [...model.grants].map(([key, one]) => [key, one.amount, one.startsMs] as const);
    const sorted = (list: (readonly [string, string, number])[]) =>
      list.toSorted((a, b) => (a[0] < b[0] ? -1 : 1));
    expect(sorted(found)).toEqual(sorted(wanted));
  };

  while (clock.ms < Date.UTC(2029, 2, 10)) {
    const step = random(12);
    if (step === 0 && on) {
      await act((tx) => endOrganizationPlan(tx, slug, source()));
      model.change(clock.ms, undefined);
      on = undefined;
    } else if (step <= 2) {
      const word = [...current.keys()][random(3)]!;
      const own = on === word ? [] : current.get(word)!;
      const isNew = on === undefined;
      if (isNew) {
        startsMs = clock.ms;
        anchor =
          random(2) === 0 ? new Date(clock.ms) : new Date(Date.UTC(2027, random(12), 29 + random(3), 5));
      }
      const input = { plan: name(word), anchor, trial: false, voidGrants: false, replace: false };
      await act((tx) => putOrganizationPlan(tx, slug, input, source()));
      if (on !== word) model.change(clock.ms, { grants: own, anchor, startsMs });
      on = word;
    } else if (step === 3 && on) {
      const grants = current.get(on)!.map((one) => ({ ...one, amount: String(1 + random(90)) }));
      const definition = { entitlements: [], grants };
      await act((tx) => putPlan(tx, name(on!), { name: on!, definition }, source()));
      current.set(on, grants);
      const plan = await getPlan(database.db.orm, name(on));
      const movable = { plan: plan.slug, version: plan.version, orgIds: [id, other.id] };
      const moved = await act((tx) => moveOrganizations(tx, movable, definition, source()));
      if (moved > 0) model.change(clock.ms, { grants, anchor, startsMs });
    }
    // The instance runs, is killed, or is down for weeks.
    const kills = random(4);
    let left = kills;
    state.kill = () => (left-- > 0 ? (left % 2 === 0 ? 'before' : 'after') : undefined);
    for (let i = 0; i <= kills; i++)
      await job().catch((error: unknown) => {
        if (!(error instanceof Killed)) throw error;
      });
    state.kill = () => undefined;
    await job();
    model.makeUntil(clock.ms);
    await compare();
    clock.ms += random(5) === 0 ? (20 + random(40)) * DAY_MS : random(9 * 24) * HOUR_MS;
  }
  expect(model.grants.size).toBeGreaterThan(50);
  const others = await selectRows(
    database.db.orm,
    sql`select from credit_grants where org_id = ${other.id}::uuid`,
  );
  expect(others).toEqual([]);
});
