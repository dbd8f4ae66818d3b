import { readdirSync } from 'node:fs';
import request from 'supertest';
import { sql } from 'drizzle-orm';
import { afterEach, describe, expect, it } from 'vitest';
import { requireNewEnough } from '../../src/core/db/migrate.js';
import { createReadiness } from '../../src/health/readiness.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { useService } from '../support/use.js';

const { database, service, startAnother } = useService();

const folder = new URL('../../migrations/', import.meta.url);
const newest = Math.max(...readdirSync(folder).map((name) => Number(/^\d{4}/.exec(name)?.[0] ?? 0)));

const needs = (migration: number) =>
  database.db.orm.execute(sql`update schema_requirement set migration = ${migration}`);
afterEach(() => needs(51));

describe('a database that needs a newer version', () => {
  it('makes a running instance unready within seconds, and its calls get 503 with the reason', async () => {
    const { server, context } = await startAnother();
    await request(server).get('/api/key').expect(401);
    await needs(9000);
    const stop = createReadiness(context).watch();
    try {
      await expect.poll(async () => (await request(server).get('/api/key')).status).toBe(503);
    } finally {
      stop();
    }
    const reason = expect.stringMatching(
      /^This version of Gauge is too old for the database: .* knows 9000\./,
    );
    const { body } = await request(server).get('/readyz').expect(503);
    expect(body).toEqual({ status: 'outdated', reason });
    const answer = await request(server).get('/api/key').expect(503);
    expect(answer.body).toMatchObject({ code: 'unavailable', detail: reason });
    expect(answer.headers).toMatchObject({ 'retry-after': '5', connection: 'close' });
    await request(server).get('/login').expect(503);
    await request(server).get('/healthz').expect(200);
  });

  it('answers 503 to the first call whose statement the migrated database refuses, and 500 if it is new enough', async () => {
    const key = await createKey(database.db, (await createOrganization(database.db)).id);
    const ask = () => request(service.server).get('/api/key').set('Authorization', `Bearer ${key.secret}`);
    const rename = (from: string, to: string) =>
      database.db.orm.execute(sql.raw(`alter table api_keys rename column ${from} to ${to}`));
    await rename('scopes', 'permissions');
    try {
      expect((await ask()).status).toBe(500);
      await needs(9000);
      const answer = await ask();
      expect(answer.body).toMatchObject({
        status: 503,
        code: 'unavailable',
        detail: expect.stringContaining('knows 9000') as string,
      });
      expect(answer.headers['retry-after']).toBe('5');
    } finally {
      await rename('permissions', 'scopes');
    }
  });

  it('is served again when it no longer does', async () => {
    await needs(9000);
    await request(service.server).get('/readyz').expect(503);
    await needs(51);
    await expect.poll(async () => (await request(service.server).get('/readyz')).status).toBe(200);
    await request(service.server).get('/api/key').expect(401);
  });

  it('is not refused by a version that knows exactly the migration that it needs', async () => {
    await needs(newest);
    await requireNewEnough(database.db);
    await needs(newest + 1);
    await expect(requireNewEnough(database.db)).rejects.toThrow(
      new RegExp(`up to ${newest}, .* knows ${newest + 1}\\.`),
    );
  });
});
