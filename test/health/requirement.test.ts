import request from 'supertest';
import { sql } from 'drizzle-orm';
import { afterEach, describe, expect, it } from 'vitest';
import { requireNewEnough } from '../../src/core/db/migrate.js';
import { createReadiness } from '../../src/health/readiness.js';
import { useService } from '../support/use.js';

const { database, service, startAnother } = useService();

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

  it('is served again when it no longer does', async () => {
    await needs(9000);
    await request(service.server).get('/readyz').expect(503);
    await needs(51);
    await expect.poll(async () => (await request(service.server).get('/readyz')).status).toBe(200);
    await request(service.server).get('/api/key').expect(401);
  });

  it('is not refused by a version that knows exactly the migration that it needs', async () => {
    await needs(51);
    await requireNewEnough(database.db);
    await needs(52);
    await expect(requireNewEnough(database.db)).rejects.toThrow(/up to 51, .* knows 52\./);
  });
});
