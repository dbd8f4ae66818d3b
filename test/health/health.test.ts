import request from 'supertest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { oneShardGroup } from '../../src/core/db/shards.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { startTestService, type TestService } from '../support/service.js';

let database: TestDatabase;
let service: TestService;
beforeAll(async () => {
  database = await createTestDatabase();
  service = await startTestService(database.db);
});
afterAll(async () => {
  await service.stop();
  await database.remove();
});

describe('health', () => {
  it('the process answers without asking the database', async () => {
    await request(service.server).get('/healthz').expect(200, { status: 'ok' });
  });

  it('traffic may come when the service is ready and the database is migrated', async () => {
    await request(service.server).get('/readyz').expect(200, { status: 'ready' });
  });

  it('a database that cannot be reached makes the service not ready, and calls 503 with Retry-After', async () => {
    const away = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    const fail = () => Promise.reject(away);
    const orm = { execute: fail } as unknown as TestDatabase['db']['orm'];
    const shards = oneShardGroup({ orm, parallel: 1, run: fail, dryRun: fail });
    const broken = await startTestService({ ...database.db, orm, shards });
    try {
      await request(broken.server).get('/readyz').expect(503, {
        status: 'database_unreachable',
        reason: 'the database cannot be reached',
      });
      await request(broken.server).get('/healthz').expect(200);
      const answer = await request(broken.server)
        .get('/api/key')
        .set('Authorization', `Bearer org_live_${'a'.repeat(32)}`);
      expect(answer.status).toBe(503);
      expect(answer.body).toMatchObject({ code: 'unavailable', status: 503 });
      expect(answer.headers['retry-after']).toBe('1');
      expect(answer.text).not.toContain('ECONNREFUSED');
    } finally {
      await broken.stop();
    }
  });

  it.each(['starting', 'draining'] as const)(
    'while %s, readiness and every call are 503, health is not',
    async (state) => {
      const other = await startTestService(database.db);
      other.context.lifecycle.state = state;
      try {
        await request(other.server).get('/readyz').expect(503, { status: state });
        await request(other.server).get('/healthz').expect(200);
        const answer = await request(other.server).get('/api/key').expect(503);
        expect(answer.body.code).toBe('unavailable');
        expect(answer.headers).toMatchObject({ 'retry-after': '1', connection: 'close' });
        await request(other.server).get('/login').expect(503);
        await request(other.server).get('/operator/products').expect(503);
      } finally {
        await other.stop();
      }
    },
  );

  it('metrics label requests by the route as mounted, never by what was sent', async () => {
    await request(service.server).get('/api/entitlements/some-secret-slug');
    await request(service.server).get('/nothing/here');
    const { text } = await request(service.server)
      .get('/metrics')
      .expect(200)
      .expect('content-type', /^text\/plain/);
    expect(text).toContain('route="/api/entitlements/:productSlug",status="401"');
    expect(text).toContain('route="unmatched",status="404"');
    expect(text).not.toContain('some-secret-slug');
  });

  it('outcomes that an alert waits for are there before the first of them: 0 to 1 is an increase, and nothing to 1 is none', async () => {
    const { text } = await request(service.server).get('/metrics').expect(200);
    for (const zero of [
      'gauge_usage_events_total{outcome="rejected"} 0',
      'gauge_audit_exports_total{outcome="broken"} 0',
      'gauge_mails_total{outcome="failed"} 0',
      'gauge_webhook_attempts_total{outcome="failed"} 0',
    ])
      expect(text).toContain(`${zero}\n`);
  });
});

describe('every answer', () => {
  it('carries a request id: the caller’s where it is harmless', async () => {
    const own = await request(service.server).get('/healthz');
    expect(own.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    const given = await request(service.server).get('/healthz').set('X-Request-Id', 'trace-42');
    expect(given.headers['x-request-id']).toBe('trace-42');
    const hostile = await request(service.server).get('/healthz').set('X-Request-Id', '<script>');
    expect(hostile.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('of a JSON face may not be framed, sniffed or run', async () => {
    const { headers } = await request(service.server).get('/api/nothing').expect(404);
    expect(headers['content-security-policy']).toContain("default-src 'none'");
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(headers['x-powered-by']).toBeUndefined();
  });
});
