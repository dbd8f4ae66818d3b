import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import request from 'supertest';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import { byService, change, recordAudit } from '../../../src/accounts/audit/audit.js';
import { updateKey } from '../../../src/accounts/api-keys/queries.js';
import { systemClock } from '../../../src/core/time.js';
import { isDatabaseUnavailable, type Database } from '../../../src/core/db/client.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { lockOrganization } from '../../../src/accounts/identity/organizations/queries.js';
import { compare } from '../../../src/metering/reconciliation/reconcile.js';
import { createCitusCluster, createCitusDatabase, type CitusCluster } from '../../support/citus-cluster.js';
import { createKey } from '../../support/fixtures.js';
import { createProduct } from '../support/products.js';
import { query, type PostgresServer } from '../../support/postgres-server.js';
import { startTestService, type TestService } from '../../support/service.js';
import { makeTemplate } from '../../support/setup-postgres.js';
import { createSenders, progress, startLoad, type Load, type Sender } from '../support/sharded-load.js';

let cluster: CitusCluster;
let url: string;
let db: Database;
let service: TestService;
let senders: Sender[];
/** Senders whose groups are on the killed worker, and the other senders. */
let theirs: Sender[];
let others: Sender[];
let victim: PostgresServer;
let load: Load | undefined;

beforeAll(async () => {
  cluster = await createCitusCluster({ fsync: 'on' });
  await makeTemplate(cluster.coordinator);
  url = await createCitusDatabase(cluster.urls, 'away');
  db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
  service = await startTestService(db);
  senders = await createSenders(db, 12);
  victim = cluster.workers[0]!;
  const { host } = new URL(victim.url('away'));
  const groups = await Promise.all(senders.map(async ({ secret }) => db.shards.locate(hashSecret(secret))));
  theirs = senders.filter((_sender, i) => groups[i]!.worker === host);
  others = senders.filter((_sender, i) => groups[i]!.worker !== host);
});
afterAll(async () => {
  // Not awaited: after a failed test, the remaining batches may never be acknowledged.
  void load?.stop();
  await service.stop();
  await db.close();
  await cluster.remove();
});

const sumOf = (load: Load) => [...load.acknowledged.values()].reduce((sum, count) => sum + count, 0);
const post = ({ secret, productSlug }: Sender, idempotencyKey: string) =>
  request(service.server)
    .post('/api/usage/events')
    .set('Authorization', `Bearer ${secret}`)
    .send({ events: [{ productSlug, metric: 'calls', quantity: 1, idempotencyKey }] });

async function checkCounts(sent: number): Promise<void> {
  const [row] = await query<Record<string, string>>(
    url,
    `select (select count(*) from usage_events) as events, (select sum(events) from usage_totals) as totals,
      (select sum(events) from usage_hours) as hours`,
  );
  expect(Object.values(row!).map(Number)).toEqual([sent, sent, sent]);
  expect(await compare(db.orm, {})).toEqual({ totals: [], hours: [], subjects: [], settlements: [] });
  for (const server of cluster.urls) expect(await query(server, 'select from pg_prepared_xacts')).toEqual([]);
}

it('a killed worker delays only its own Organizations', async () => {
  expect(Math.min(theirs.length, others.length)).toBeGreaterThan(0);
  load = startLoad(db, senders, { batch: 5, pauseMs: 5 });
  await progress(load, senders);
  await victim.stop('kill');
  await progress(load, others, 20);
  const refused = await post(theirs[0]!, 'while away');
  expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1']);
  // A slow machine may need several tries; the repeated event still counts once.
  await vi.waitFor(async () => expect((await post(others[0]!, 'meanwhile')).status).toBe(202), 50_000);
  const readiness = await request(service.server).get('/readyz');
  expect(readiness.status).toBe(200);
  expect(readiness.body).toMatchObject({ status: 'ready', groupsAway: expect.any(Array) as unknown });
  expect((readiness.body as { groupsAway: string[] }).groupsAway).toHaveLength(2);

  // Revokes a key on the running worker and writes its audit row in the same transaction; the revocation takes effect.
  const { orgId, productSlug, slug } = others[0]!;
  const other = await createKey(db, orgId);
  await change({ db, clock: systemClock }, byService, async (tx) => {
    expect(await lockOrganization(tx, { id: orgId })).toMatchObject({ slug });
    await updateKey(tx, orgId, other.id, { revokedAt: new Date() });
    const entry = { at: new Date(), actor: 'system', target: other.id, action: 'api_key.revoked' };
    await recordAudit(tx, orgId, entry);
  });
  expect((await post({ orgId, productSlug, slug, secret: other.secret }, 'revoked')).body).toMatchObject({
    code: 'key_revoked',
  });

  await victim.start();
  // The coordinator's cached connections to the worker are broken; callers that get one see an outage.
  const errors: unknown[] = [];
  for (let i = 0; i < 10; i++) await createProduct(db).catch((error: unknown) => errors.push(error));
  for (const error of errors) expect(error).toSatisfy(isDatabaseUnavailable);
  expect(errors.length).toBeLessThan(10);
  await progress(load, theirs);
  await load.stop();
  expect(load.early.filter((what) => !/unavailable|57P0|ECONN|terminat/i.test(what))).toEqual([]);
  // The Organization on the running worker has recorded one more event.
  await checkCounts(sumOf(load) + 1);
  expect((await request(service.server).get('/readyz')).status).toBe(200);
});

it('ingestion continues without the coordinator', async () => {
  const before = Number((await query<{ n: string }>(url, 'select count(*) as n from usage_events'))[0]!.n);
  load = startLoad(db, senders, { batch: 5 });
  await progress(load, senders);
  await cluster.coordinator.stop('kill');
  await setTimeout(1_500);
  const readiness = await request(service.server).get('/readyz');
  expect([readiness.status, (readiness.body as { groupsAway: string[] }).groupsAway]).toEqual([200, []]);
  await progress(load, senders);
  await cluster.coordinator.start();
  await load.stop();
  expect(load.early).toEqual([]);
  await checkCounts(before + sumOf(load));
});
