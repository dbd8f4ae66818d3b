import request from 'supertest';
import { pino } from 'pino';
import { describe, expect, it, vi } from 'vitest';
import { createApp, healthApp } from '../../src/app.js';
import { oneShardGroup } from '../../src/core/db/shards.js';
import type { Database } from '../../src/core/db/client.js';
import { HOUR_MS } from '../../src/core/time.js';
import { type TestDatabase } from '../support/database.js';
import { startTestService } from '../support/service.js';
import { useService } from '../support/use.js';

const { database, service } = useService();

/** Wraps the database so that its clock appears to be ahead of this machine's. */
function withClockAhead(db: Database, aheadMs: number): Database {
  const execute = async (query: never) => {
    const result: unknown = await db.orm.execute(query);
    for (const row of (result as { rows: { databaseMs?: number }[] }).rows)
      if (row.databaseMs !== undefined) row.databaseMs += aheadMs;
    return result;
  };
  return { ...db, orm: Object.create(db.orm, { execute: { value: execute } }) as Database['orm'] };
}

describe('the port for health alone', () => {
  it('has health and metrics, and nothing else', async () => {
    const app = healthApp(createApp(service.context, service.running));
    await request(app).get('/healthz').expect(200, { status: 'ok' });
    await request(app).get('/readyz').expect(200, { status: 'ready' });
    expect((await request(app).get('/metrics').expect(200)).text).toContain('gauge_usage_events_total');
    for (const path of ['/', '/login', '/api/entitlements', '/operator/products', '/healthz/', '/METRICS'])
      await request(app).get(path).expect(404);
  });

  it('asks for the same token for metrics', async () => {
    const config = { ...service.context.config, metricsToken: 'm'.repeat(32) };
    const app = healthApp(createApp({ ...service.context, config }, service.running));
    await request(app).get('/metrics').expect(401);
    await request(app)
      .get('/metrics')
      .set('Authorization', `Bearer ${'m'.repeat(32)}`)
      .expect(200);
  });
});

describe('health', () => {
  it('the process answers without asking the database', async () => {
    await request(service.server).get('/healthz').expect(200, { status: 'ok' });
  });

  it('traffic is admitted when the service is ready and the database is migrated', async () => {
    await request(service.server).get('/readyz').expect(200, { status: 'ready' });
  });

  it('an unreachable database makes the service not ready, and calls get 503 with Retry-After', async () => {
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

  it.each([
    ['as the database', 0, 'ready', undefined],
    ['a few seconds off', 4_000, 'ready', undefined],
    ['half a minute behind', 30_000, 'ready', /^this instance's clock is [23]\d s behind the database's$/],
    ['half a minute ahead', -30_000, 'ready', /^this instance's clock is [23]\d s ahead of/],
    ['an hour behind', HOUR_MS, 'clock_off', /is 3[56]\d\d s behind/],
    ['an hour ahead', -HOUR_MS, 'clock_off', /is 3[56]\d\d s ahead of/],
  ])(
    'an instance whose clock is %s is ready or not, and says why',
    async (_name, aheadMs, status, reason) => {
      const log = pino({ level: 'silent' });
      const warn = vi.spyOn(log, 'warn');
      const other = await startTestService(withClockAhead(database.db, aheadMs), { context: { log } });
      // The service's own clock does not affect the result.
      other.clock.set('2020-01-01T00:00:00Z');
      try {
        const { body } = await request(other.server)
          .get('/readyz')
          .expect(status === 'ready' ? 200 : 503);
        expect(body).toEqual({ status, ...(reason && { reason: expect.stringMatching(reason) }) });
        // Without a clock to rely on, the instance answers nothing that depends on it.
        const answer = await request(other.server).get('/api/key');
        expect(answer).toMatchObject(
          status === 'ready'
            ? { status: 401 }
            : {
                status: 503,
                body: { code: 'clock_off', detail: expect.stringMatching(/^This instance's clock .*'s\.$/) },
                headers: { 'retry-after': '5' },
              },
        );
        const warnings = warn.mock.calls.filter(([, text]) => /clocks .* differ/.test(String(text)));
        expect(warnings).toHaveLength(reason ? 1 : 0);
        const { text } = await request(other.server).get('/metrics');
        const seconds = Number(/^gauge_clock_difference_seconds (\S+)$/m.exec(text)![1]);
        expect(Math.round(seconds / 10)).toSatisfy((tens: number) =>
          reason ? tens * aheadMs > 0 : tens === 0,
        );
      } finally {
        await other.stop();
      }
    },
  );

  it.each(['starting', 'draining'] as const)(
    'while %s, readiness and every call answer 503, but health does not',
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

  it('metrics label requests by the mounted route, never by the address that was sent', async () => {
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

  it('outcomes with alerts start at 0, because Prometheus sees an increase from 0 to 1 but not from nothing to 1', async () => {
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
  it('carries a request id: the caller’s if it is harmless', async () => {
    const own = await request(service.server).get('/healthz');
    expect(own.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    const given = await request(service.server).get('/healthz').set('X-Request-Id', 'trace-42');
    expect(given.headers['x-request-id']).toBe('trace-42');
    const hostile = await request(service.server).get('/healthz').set('X-Request-Id', '<script>');
    expect(hostile.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('from a JSON route cannot be framed, sniffed or run', async () => {
    const { headers } = await request(service.server).get('/api/nothing').expect(404);
    expect(headers['content-security-policy']).toContain("default-src 'none'");
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(headers['x-powered-by']).toBeUndefined();
  });
});
