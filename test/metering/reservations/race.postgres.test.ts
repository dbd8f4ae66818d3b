import { expect, it } from 'vitest';
import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import type { Database, Run, Template, TextRow } from '../../../src/core/db/client.js';
import { openDatabase } from '../../../src/core/db/open.js';
import type { AppError } from '../../../src/core/errors.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { createReservations } from '../../../src/metering/reservations/reservations.js';
import { createSettlements } from '../../../src/metering/reservations/settlements.js';
import { reserve } from '../../../src/metering/reservations/hold-statements.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { createPostgresServer } from '../../support/postgres-server.js';
import { useDatabase, useOtherConnections } from '../../support/use.js';

/** Use TEST_RESERVES=10000 for a long run. */
const RESERVES = Number(process.env.TEST_RESERVES ?? 2_000);

const database = useDatabase();

const other = useOtherConnections(database);

it('a race over two instances, replayed in commit order, holds no unit too many and refuses none that had room', async () => {
  const server = await createPostgresServer({ track_commit_timestamp: 'on' });
  const log = pino({ level: 'silent' });
  const [db, second] = [
    await openDatabase({ databaseUrl: server.url('postgres'), dataDir: '' }, log),
    await openDatabase({ databaseUrl: server.url('postgres'), dataDir: '' }, log),
  ];
  try {
    await keepHistory(db);
    const { id: orgId } = await createOrganization(db);
    const product = await createProduct(db);
    const limit = RESERVES;
    const limits = ['PT1H', 'calendar_month'].map((window) => ({
      quantity: String(limit),
      window,
      enforcement: 'block' as const,
    }));
    await grant(db, orgId, product.id, { limits });
    const hashedSecret = hashSecret((await createKey(db, orgId)).secret);
    const attempts = new Map<string, Attempt>();
    let again = 0;
    const deps = {
      clock: { now: Date.now },
      metrics: createMetrics([createMeteringMetrics], { ofProcess: false }),
    };
    const instances = [db, second].map((own) => ({
      ...createReservations({
        db: watchSnapshots(own, (attempt, key) => {
          attempts.set(key, attempt);
          if (attempt.outcomes.get(key) === 'retry') again++;
        }),
        ...deps,
      }),
      ...createSettlements({ db: own, ...deps }),
    }));
    const refused: string[] = [];
    const work = async (i: number) => {
      const quantity = 1 + ((i * 7_919) % 13);
      const [one, another] = [instances[i % 2]!, instances[(i >> 1) % 2]!];
      const made = await one
        .reserve({
          hashedSecret,
          slug: product.slug,
          metric: 'calls',
          quantity: String(quantity),
          idempotencyKey: `r-${i}`,
          ttlSeconds: i % 4 === 0 ? 1 : 600,
        })
        .catch((error: unknown) => {
          expect((error as AppError).code).toBe('limit_reached');
          refused.push(`r-${i}`);
        });
      if (!made || i % 4 === 0 || i % 4 === 3) return;
      const { id } = made.reservation;
      if (i % 4 === 1) await another.release(hashedSecret, id);
      else await another.settle({ hashedSecret, id, quantity: String(quantity % 3), occurredAt: undefined });
    };
    let next = 0;
    const wave = (size: number) => Promise.all(Array.from({ length: size }, () => work(next++)));
    // Small waves, so that both instances decide at the same moment.
    for (let i = 0; i < 20; i++) await wave(20);
    // Two large waves: reservations that end in the first, and holds that expire in between, make room for the second.
    const half = (RESERVES - next) / 2;
    await wave(half);
    await setTimeout(500);
    await wave(half);

    const history = await readHistory(db);
    let commits: Change[] = [];
    for (const { changes } of history) {
      commits = [...commits, ...changes];
      const nowMs = Math.max(...changes.map(({ heldAtMs }) => heldAtMs ?? 0));
      if (nowMs > 0) expect(takenBy(commits, nowMs)).toBeLessThanOrEqual(limit);
    }
    const all = history.flatMap(({ changes }) => changes);
    const known = new Map<Attempt, number>();
    const takenAt = (attempt: Attempt): number => {
      const { sees, nowMs } = attempt;
      const taken =
        known.get(attempt) ??
        takenBy(
          all.filter(({ xid }) => sees(xid)),
          nowMs,
        );
      known.set(attempt, taken);
      return taken;
    };
    for (const key of refused) {
      const attempt = attempts.get(key)!;
      const { quantities, outcomes } = attempt;
      expect(outcomes.get(key)).toBe('limit_reached');
      const before = [...quantities.keys()].slice(0, [...quantities.keys()].indexOf(key));
      const own = before.filter((other) => outcomes.get(other) === 'held');
      const taken = takenAt(attempt) + own.reduce((sum, other) => sum + quantities.get(other)!, 0);
      expect(taken + quantities.get(key)!).toBeGreaterThan(limit);
    }
    // This test is meaningful only if the instances conflicted and every kind of change occurred.
    expect(again).toBeGreaterThan(0);
    expect(refused.length).toBeGreaterThan(RESERVES / 20);
    expect(all.filter(({ heldAtMs }) => heldAtMs !== undefined).length).toBe(RESERVES - refused.length);
    expect(all.filter(({ used }) => used !== undefined).length).toBeGreaterThan(RESERVES / 20);
  } finally {
    await Promise.all([db.close(), second.close()]);
    await server.remove();
  }
});

/** A transaction's change to one reservation: either the hold was created, or it ended and `used` was recorded. */
interface Change {
  xid: bigint;
  id: string;
  quantity: number;
  expiresAtMs: number;
  heldAtMs: number | undefined;
  used: number | undefined;
}

/** Makes the database record each change with its transaction id. */
const keepHistory = ({ orm }: Database) =>
  orm.execute(`
    create table test_history (xid xid8, id uuid, quantity numeric, expires_at timestamptz, held_at timestamptz, used numeric);
    create function test_note() returns trigger language plpgsql as $$ begin
      insert into test_history values (pg_current_xact_id(), new.id, new.quantity, new.expires_at,
        case when tg_op = 'INSERT' then new.created_at end,
        case when tg_op = 'UPDATE' then coalesce(new.settled_quantity, 0) end);
      return null;
    end $$;
    create trigger test_note after insert or update on usage_reservations for each row execute function test_note();`);

/** Reads all changes grouped by transaction, in commit order. */
async function readHistory(db: Database): Promise<{ changes: Change[] }[]> {
  const rows = await db.run(
    {
      name: 'test_history',
      text: `select xid::text, id::text, quantity::text, (extract(epoch from expires_at) * 1000)::bigint::text as "expiresAtMs",
          (extract(epoch from held_at) * 1000)::bigint::text as "heldAtMs", used::text
        from test_history order by pg_xact_commit_timestamp(xid::xid), xid`,
    },
    [],
  );
  const commits = new Map<string, Change[]>();
  for (const { xid, id, quantity, expiresAtMs, heldAtMs, used } of rows) {
    const changes = commits.get(xid!) ?? [];
    commits.set(xid!, changes);
    changes.push({
      xid: BigInt(xid!),
      id: id!,
      quantity: Number(quantity),
      expiresAtMs: Number(expiresAtMs),
      heldAtMs: heldAtMs == null ? undefined : Number(heldAtMs),
      used: used == null ? undefined : Number(used),
    });
  }
  return [...commits.values()].map((changes) => ({ changes }));
}

/** Returns the quantity used and held after these changes. Both windows are longer than the test. */
function takenBy(changes: Change[], nowMs: number): number {
  const ended = new Map(changes.flatMap(({ id, used }) => (used === undefined ? [] : [[id, used]])));
  return changes.reduce((sum, { id, quantity, expiresAtMs, heldAtMs }) => {
    if (heldAtMs === undefined) return sum;
    return sum + (ended.get(id) ?? (expiresAtMs > nowMs ? quantity : 0));
  }, 0);
}

/**
 * One execution of the statement: the transactions that it could see, its time, and the outcome for each key, in order.
 */
interface Attempt {
  sees: (xid: bigint) => boolean;
  nowMs: number;
  quantities: Map<string, number>;
  outcomes: Map<string, string>;
}

/** Reports, for each key, the attempt that decided it, with that attempt's database snapshot. */
function watchSnapshots(db: Database, onAttempt: (attempt: Attempt, key: string) => void): Database {
  const [group] = db.shards.groups;
  const text: Template['text'] = (t) =>
    `${reserve.text(t)}\nunion all select 'snapshot', pg_current_snapshot()::text, null, null, null, null, null, null, null, null, null, null`;
  const watched: Template = { name: 'test_reserve', text };
  const run: Run = async <Row>(template: Template, values: unknown[]) => {
    if (template !== reserve) return group!.run<Row>(template, values);
    const rows = await group!.run(watched, values);
    const isSnapshot = ({ number }: TextRow) => number === 'snapshot';
    const [xmin, xmax, running] = rows.find(isSnapshot)!.limits!.split(':');
    const open = new Set(running!.split(','));
    const list = (place: number) =>
      String(values[place])
        .slice(1, -1)
        .split(',')
        .map((item) => item.replaceAll('"', ''));
    const keys = list(5);
    const attempt: Attempt = {
      sees: (xid) => xid < BigInt(xmin!) || (xid < BigInt(xmax!) && !open.has(String(xid))),
      nowMs: Date.parse(String(values[8])),
      quantities: new Map(list(6).map((quantity, i) => [keys[i]!, Number(quantity)])),
      outcomes: new Map(
        rows.flatMap(({ place, outcome }) => (place == null ? [] : [[keys[Number(place)]!, outcome!]])),
      ),
    };
    for (const key of keys) onAttempt(attempt, key);
    return rows.filter((row) => !isSnapshot(row)) as Row[];
  };
  const own = { ...group!, run };
  return { ...db, shards: { ...db.shards, groups: [own], locate: () => own } };
}

it('simultaneous settlements, releases and expiries neither let too much through nor block room', async () => {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  const product = await createProduct(db);
  const limit = RESERVES / 2;
  const limits = [
    { quantity: String(limit), window: 'PT1H', enforcement: 'block' as const },
    { quantity: String(limit), window: 'calendar_month', enforcement: 'block' as const },
  ];
  await grant(db, orgId, product.id, { limits });
  const hashedSecret = hashSecret((await createKey(db, orgId)).secret);
  const deps = {
    clock: { now: Date.now },
    metrics: createMetrics([createMeteringMetrics], { ofProcess: false }),
  };
  const instances = [db, other].map((own) => ({
    ...createReservations({ db: own, ...deps }),
    ...createSettlements({ db: own, ...deps }),
  }));
  let [refused, isOver, most] = [0, false, 0];

  /** Reads usage and all holds in one snapshot. A hold that has since expired may have made room. */
  const watch = async () => {
    while (!isOver) {
      const [row] = await db.run(
        {
          name: 'test_taken',
          text: `select (select coalesce(sum(quantity), 0)::text from usage_events where org_id = $1) as used,
            (select coalesce(json_agg(json_build_array(extract(epoch from expires_at) * 1000, quantity)), '[]')::text
             from usage_reservations where org_id = $1 and settled_at is null and released_at is null) as holds`,
        },
        [orgId],
      );
      const holds = JSON.parse(row!.holds!) as [number, number][];
      const held = holds.filter(([expiresAt]) => expiresAt > Date.now());
      most = Math.max(
        most,
        held.reduce((sum, [, quantity]) => sum + quantity, Number(row!.used)),
      );
    }
  };

  const work = async (worker: number) => {
    for (let i = 0; i < RESERVES / 40; i++) {
      const [one, another] = [instances[(worker + i) % 2]!, instances[worker % 2]!];
      const quantity = 1 + ((worker * 31 + i * 7_919) % 40);
      const kind = (worker + i) % 4;
      const made = await one
        .reserve({
          hashedSecret,
          slug: product.slug,
          metric: 'calls',
          quantity: String(quantity),
          idempotencyKey: `m-${worker}-${i}`,
          ttlSeconds: kind === 0 ? 1 : 600,
        })
        .catch((error: unknown) => {
          const { code, members } = error as AppError & { members: { limit: { remaining: number } } };
          expect(code).toBe('limit_reached');
          expect(members.limit.remaining).toBeLessThan(quantity);
          refused++;
        });
      if (!made || kind === 0) continue;
      const { id } = made.reservation;
      if (kind === 1) await another.release(hashedSecret, id);
      else await another.settle({ hashedSecret, id, quantity: String(quantity % 3), occurredAt: undefined });
    }
  };

  const watching = watch();
  await Promise.all(Array.from({ length: 40 }, (_, worker) => work(worker)));
  isOver = true;
  await watching;
  expect(most).toBeLessThanOrEqual(limit);
  expect(refused).toBeGreaterThan(0);
  // After a second, all holds have expired, and the remaining room is available down to the last unit.
  await setTimeout(1_001);
  const rest = async (quantity: number) =>
    instances[0]!.reserve({
      hashedSecret,
      slug: product.slug,
      metric: 'calls',
      quantity: String(quantity),
      idempotencyKey: `rest-${quantity}`,
      ttlSeconds: 600,
    });
  const [row] = await db.run(
    { name: 'test_used', text: 'select sum(quantity)::text as used from usage_events where org_id = $1' },
    [orgId],
  );
  const left = limit - Number(row!.used);
  await expect(rest(left + 1)).rejects.toMatchObject({ code: 'limit_reached' });
  expect((await rest(left)).limits).toMatchObject([{ used: row!.used }, { used: row!.used }]);
});
