import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../../src/core/db/client.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { createPostgresServer, type PostgresServer } from '../../support/postgres-server.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createTenant, readUsage, sendUsage, usageEvent as one, type UsageReply } from '../support/usage.js';

/** This file has its own Postgres with default settings, so that its tests can crash it. */
let server: PostgresServer;
let db: Database;
let service: TestService;
beforeAll(async () => {
  server = await createPostgresServer();
  db = await openDatabase({ databaseUrl: server.url('postgres'), dataDir: '' }, pino({ level: 'silent' }));
  service = await startTestService(db);
});
afterAll(async () => {
  await service.stop();
  await db.close();
  await server.remove();
});

const send = (secret: string, events: unknown[]) => sendUsage(service.url, secret, events);

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: server.url('postgres') });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Terminates connections whose flush waits for a lock; resolves once at least one has been terminated. */
async function terminateWaitingFlushes(): Promise<void> {
  const killer = await connect();
  for (let ended = 0; ended === 0; await setTimeout(10)) {
    const { rowCount } = await killer.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'gauge' and wait_event_type = 'Lock' and query like '%with pair as%'`,
    );
    ended = rowCount ?? 0;
  }
  await killer.end();
}

describe('a flush whose connection is killed halfway', () => {
  it('is retried on another connection and counted once', async () => {
    const { organization, product, key } = await createTenant(db);
    await send(key.secret, [one(product.slug, 'first')]);
    const holder = await connect();
    await holder.query('begin');
    await holder.query('select from usage_totals where org_id = $1 for update', [organization.id]);
    const answer = send(key.secret, [one(product.slug, 'a'), one(product.slug, 'b')]);
    await terminateWaitingFlushes();
    await holder.query('rollback');
    await holder.end();
    expect(await answer).toMatchObject({ status: 202, body: { accepted: 2, deduped: 0 } });
    expect(await readUsage(db, organization.id)).toMatchObject({ keys: ['a', 'b', 'first'], drift: [] });
  });
});

describe('Postgres', () => {
  it('may crash and come back quickly: requests wait for it', async () => {
    const { organization, product, key } = await createTenant(db);
    await send(key.secret, [one(product.slug, 'first')]);
    await server.stop('immediate');
    const starting = server.start();
    const answers: UsageReply[] = [];
    // If recovery takes longer than a request waits, the server responds with 503, and clients retry.
    const deadline = Date.now() + 30_000;
    while (answers.at(-1)?.status !== 202 && Date.now() < deadline) {
      if (answers.length > 0) await setTimeout(100);
      answers.push(await send(key.secret, [one(product.slug, 'a', { quantity: 2 })]));
    }
    await starting;
    expect(answers.at(-1)).toMatchObject({ status: 202 });
    expect(answers.slice(0, -1).map(({ status }) => status)).toEqual(answers.slice(1).map(() => 503));
    expect(await readUsage(db, organization.id)).toMatchObject({ keys: ['a', 'first'], drift: [] });
  });

  it(
    'may stay away: each request gets a 503 in time, and service resumes without help',
    { timeout: 60_000 },
    async () => {
      const { organization, product, key } = await createTenant(db);
      const acknowledged = new Set<string>();
      const sent = new Set<string>();
      let isOver = false;
      const answers: UsageReply[] = [];
      const refused = new Set<number>();
      const senders = Array.from({ length: 8 }, async (_, s) => {
        for (let i = 0; !isOver; i++) {
          const keys = [`${s} ${i}`, `${s} ${Math.max(0, i - 1)}`, `shared ${i}`];
          for (const name of keys) sent.add(name);
          const answer = await send(
            key.secret,
            keys.map((name) => one(product.slug, name)),
          );
          answers.push(answer);
          if (answer.status === 503) refused.add(s);
          if (answer.status === 202) for (const name of keys) acknowledged.add(name);
          await setTimeout(5);
        }
      });
      while (acknowledged.size < 100) await setTimeout(5);
      await server.stop('immediate');
      const unavailable = () => answers.filter(({ status }) => status === 503).length;
      // Requests fail instead of waiting until the server is back.
      while (unavailable() < 50 || refused.size < senders.length) await setTimeout(5);
      await server.start();
      const before = acknowledged.size;
      while (acknowledged.size < before + 100) await setTimeout(5);
      isOver = true;
      await Promise.all(senders);
      for (const { status, body, headers } of answers.filter((answer) => answer.status !== 202)) {
        expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'unavailable', '1']);
      }
      const { keys, drift } = await readUsage(db, organization.id);
      expect([...acknowledged].filter((name) => !keys.includes(name))).toEqual([]);
      expect(keys.filter((name) => !sent.has(name))).toEqual([]);
      expect(drift).toEqual([]);
    },
  );

  it(
    'answers the first call of an unknown key with 503 while it is down, not with 401',
    { timeout: 60_000 },
    async () => {
      const { product, key } = await createTenant(db);
      await server.stop('immediate');
      expect(await send(key.secret, [one(product.slug, 'a')])).toMatchObject({
        status: 503,
        body: { code: 'unavailable' },
      });
      await server.start();
      expect((await send(key.secret, [one(product.slug, 'a')])).status).toBe(202);
    },
  );
});
