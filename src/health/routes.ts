import { createHash, timingSafeEqual } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import type { RequestHandler } from 'express';
import { z } from 'zod';
import type { Database } from '../core/db/client.js';
import { isMigrated } from '../core/db/migrate.js';
import { describeOutage, readOnly } from '../core/db/outage.js';
import { selectRows } from '../core/db/sql.js';
import { AppError } from '../core/errors.js';
import type { Context } from '../core/http/context.js';
import { notFound } from '../core/http/problem.js';
import { defineRoute, json } from '../core/reference/define-route.js';
import { problemExample } from '../core/reference/problem-examples.js';
import { systemClock } from '../core/time.js';
import { createClockWatch } from './clock.js';
import { findGroupsAway } from './database.js';

const databaseStates = [
  'ready',
  'database_unreachable',
  'database_read_only',
  'not_migrated',
  'clock_off',
] as const;
type DatabaseState = (typeof databaseStates)[number];

interface Readiness {
  status: DatabaseState;
  reason?: string;
  /** Unreachable shard groups. Calls for their Organizations get 503. */
  groupsAway?: string[];
}

/** How long a response is reused for all callers. */
const CACHE_MS = 1_000;
/** Time limit for the whole check. Load balancers wait only a few seconds. */
const WAIT_MS = 2_000;
/** Time limit for the database. Shorter than `WAIT_MS`, so that other findings can still be reported. */
const DATABASE_WAIT_MS = 1_800;

type ReadinessDeps = Pick<Context, 'db' | 'log' | 'metrics'>;
type ClockWatch = ReturnType<typeof createClockWatch>;

/**
 * Checks that the database can serve requests and that its clock agrees with this instance's. The route needs no
 * credential, so callers share one check, at most one per second. Changes are logged.
 */
function createReadiness({ db, log, metrics }: ReadinessDeps): () => Promise<Readiness> {
  const compareClocks = createClockWatch({ log, metrics });
  let known: { at: number; readiness: Promise<Readiness> } | undefined;
  let last: DatabaseState = 'ready';
  async function ask(): Promise<Readiness> {
    const readiness = await Promise.race([
      checkReadiness(db, compareClocks),
      setTimeout(WAIT_MS, unreachable('the database does not answer'), { ref: false }),
    ]);
    if (readiness.status !== last) log.warn(readiness, 'readiness changed');
    last = readiness.status;
    return readiness;
  }
  return () => {
    const now = performance.now();
    if (!known || now - known.at >= CACHE_MS) known = { at: now, readiness: ask() };
    return known.readiness;
  };
}

const unreachable = (reason: string): Readiness => ({ status: 'database_unreachable', reason });

async function checkReadiness(db: Database, compareClocks: ClockWatch): Promise<Readiness> {
  const [away, whole] = await Promise.all([
    findGroupsAway(db.shards),
    Promise.race([
      checkDatabase(db, compareClocks),
      setTimeout(DATABASE_WAIT_MS, unreachable('the database does not answer'), { ref: false }),
    ]),
  ]);
  if (!away) return whole;
  // Calls with known keys do not need the coordinator.
  if (whole.status === 'database_unreachable' && away.groups.length < db.shards.groups.length)
    return {
      status: 'ready',
      reason: `the coordinator: ${whole.reason}; pages and unknown keys have to wait for it`,
      groupsAway: away.groups,
    };
  return away.groups.length === 0
    ? whole
    : {
        reason: `shard groups on ${away.workers.join(', ')} cannot be reached`,
        ...whole,
        groupsAway: away.groups,
      };
}

async function checkDatabase(db: Database, compareClocks: ClockWatch): Promise<Readiness> {
  try {
    if (!(await isMigrated(db))) return { status: 'not_migrated' };
    // Uses the system clock, because the injected clock may replay a tape.
    const askedMs = systemClock.now();
    const [row] = await selectRows<{ isReadOnly: boolean; databaseMs: number }>(
      db.orm,
      sql`select current_setting('transaction_read_only')::boolean as "isReadOnly",
        (extract(epoch from clock_timestamp()) * 1000)::float8 as "databaseMs"`,
    );
    const { isReadOnly, databaseMs } = row!;
    const { isOff, reason } = compareClocks({ databaseMs, askedMs, answeredMs: systemClock.now() });
    if (isReadOnly) return { status: 'database_read_only', reason: readOnly };
    return { status: isOff ? 'clock_off' : 'ready', ...(reason === undefined ? {} : { reason }) };
  } catch (error) {
    return unreachable(describeOutage(error) ?? 'the database cannot be queried');
  }
}

const healthSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Health' });

const readinessSchema = z
  .object({
    status: z.enum(['starting', 'draining', ...databaseStates]),
    reason: z.string().optional().meta({ description: "The problem that needs an operator's attention." }),
    groupsAway: z.array(z.string()).optional().meta({
      description:
        'In a sharded database: the groups that cannot be reached. Calls of their Organizations get 503; all others are served.',
    }),
  })
  .meta({ id: 'Readiness' });

/** `/healthz` (process is alive), `/readyz` (ready for traffic), `/metrics` (Prometheus). */
export const healthRoutes = [
  defineRoute({
    method: 'get',
    path: '/healthz',
    operationId: 'getHealth',
    tag: 'Service',
    summary: 'Is the process alive?',
    description:
      'For liveness probes. Responds as long as the process runs, whatever the state of the database.',
    credential: 'none',
    responses: { 200: json('Alive.', healthSchema) },
    examples: [{ name: 'alive', summary: 'Alive', request: {}, answer: { status: 'ok' } }],
    handler: () => (_req, res) => {
      res.json({ status: 'ok' });
    },
  }),
  defineRoute({
    method: 'get',
    path: '/readyz',
    operationId: 'getReadiness',
    tag: 'Service',
    summary: 'Is the service ready?',
    description:
      'For load balancers. Also queries the database, at most once a second. 503 while the service starts or drains before it stops; while the database is unreachable, read-only or lacks a migration; and while the clocks of the instance and the database differ by more than a minute. A difference of more than 5 seconds is reported in `reason`.',
    credential: 'none',
    responses: {
      200: json('Ready.', readinessSchema),
      503: json('Not ready. Send traffic elsewhere.', readinessSchema),
    },
    examples: [
      { name: 'ready', summary: 'Ready', request: {}, answer: { status: 'ready' } },
      {
        name: 'databaseUnreachable',
        summary: 'The database cannot be reached',
        circumstance: 'database_unreachable',
        request: {},
        status: 503,
        answer: { status: 'database_unreachable', reason: 'the database cannot be reached' },
      },
      {
        name: 'draining',
        summary: 'The service is shutting down',
        circumstance: 'draining',
        request: {},
        status: 503,
        answer: { status: 'draining' },
      },
    ],
    handler: ({ db, lifecycle, log, metrics }: Context) => {
      const readDatabase = createReadiness({ db, log, metrics });
      return async (_req, res) => {
        const readiness = lifecycle.state === 'ready' ? await readDatabase() : { status: lifecycle.state };
        res.status(readiness.status === 'ready' ? 200 : 503).json(readiness);
      };
    },
  }),
  defineRoute({
    method: 'get',
    path: '/metrics',
    operationId: 'getMetrics',
    tag: 'Service',
    summary: 'Metrics for Prometheus',
    description:
      'Request durations by route and status, usage events by outcome, sizes and durations of ingestion statements, job runs by outcome, the state of the limit store, and process metrics. Names of Organizations, products or keys never appear. If METRICS_TOKEN is set, it is the bearer token. Without it, this route is 404 in production.',
    credential: 'none',
    responses: {
      200: { description: 'Prometheus text format, version 0.0.4.', content: { 'text/plain': null } },
    },
    examples: [
      {
        name: 'metrics',
        summary: 'One of many lines',
        request: {},
        answer: '# HELP gauge_usage_events_total Usage events by outcome: accepted, deduped, rejected.',
      },
      problemExample('missing_key', {
        summary: 'No token',
        circumstance: 'metrics_protected',
        detail: 'Send the token of METRICS_TOKEN as `Authorization: Bearer …`.',
        request: {},
      }),
      problemExample('invalid_key', {
        summary: 'A wrong token',
        circumstance: 'metrics_protected',
        detail: 'Send the token of METRICS_TOKEN as `Authorization: Bearer …`.',
        request: { credential: 'wrongOperator' },
      }),
    ],
    handler: ({ config, metrics }: Context) => [
      requireMetricsToken(config),
      async (_req, res) => {
        res.type(metrics.registry.contentType).send(await metrics.registry.metrics());
      },
    ],
  }),
];

/** Requires the configured token. Without one, production hides the metrics. */
function requireMetricsToken({ metricsToken, production }: Context['config']): RequestHandler {
  if (metricsToken === undefined && production) return notFound;
  const expected = metricsToken === undefined ? undefined : digest(metricsToken);
  return (req, _res, next) => {
    const given = /^bearer +(.+)$/i.exec(req.headers.authorization ?? '')?.[1];
    if (expected && !(given !== undefined && timingSafeEqual(digest(given), expected)))
      throw new AppError(
        given === undefined ? 'missing_key' : 'invalid_key',
        'Send the token of METRICS_TOKEN as `Authorization: Bearer …`.',
      );
    next();
  };
}

const digest = (value: string) => createHash('sha256').update(value).digest();
