import { gzipSync } from 'node:zlib';
import { eq, sql } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ErrorPlace } from '../../../src/core/errors.js';
import { entitlements } from '../../../src/metering/entitlements/table.js';
import type { RejectedEvent } from '../../../src/metering/ingestion/answer.js';
import { ANY_QUANTITY, createProduct, grant } from '../support/products.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { itWithApiKey } from '../../support/service-calls.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();
beforeAll(async () => {
  service.clock.set('2026-03-04T12:00:00.000Z');
});

interface Answer {
  status: number;
  body: Record<string, any>;
  headers: Headers;
}

interface SendOptions {
  headers?: Record<string, string>;
  query?: string;
}

async function sendBody(
  secret: string,
  body: string | Uint8Array<ArrayBuffer>,
  options: SendOptions = {},
): Promise<Answer> {
  const response = await fetch(`${service.url}/api/usage/events${options.query ?? ''}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json', ...options.headers },
    body,
  });
  return {
    status: response.status,
    body: (await response.json()) as Answer['body'],
    headers: response.headers,
  };
}

const send = (secret: string, events: unknown, options?: SendOptions) =>
  sendBody(secret, JSON.stringify({ events }), options);

const lenient = { headers: { prefer: 'handling=lenient' } };

async function entitled(unitCap: string | null = null) {
  const organization = await createOrganization(database.db);
  const product = await createProduct(database.db, { unitCap, maxQuantity: ANY_QUANTITY });
  await grant(database.db, organization.id, product.id);
  const key = await createKey(database.db, organization.id);
  const event = (idempotencyKey: string, more: object = {}) => ({
    productSlug: product.slug,
    metric: 'calls',
    idempotencyKey,
    ...more,
  });
  return { organization, product, key, event };
}

async function storedEvents(orgId: string): Promise<number> {
  const result = await database.db.orm.execute(
    sql`select count(*)::int as n from usage_events where org_id = ${orgId}`,
  );
  return (result as { rows: { n: number }[] }).rows[0]!.n;
}

describe('an accepted batch', () => {
  it('is counted once, however often it is sent', async () => {
    const { key, event, organization } = await entitled();
    const events = [event('a'), event('b', { quantity: 2.5 }), event('a')];
    const first = await send(key.secret, events);
    expect(first).toMatchObject({ status: 202, body: { accepted: 2, deduped: 1, warnings: [] } });
    expect(first.body).not.toHaveProperty('rejected');
    expect((await send(key.secret, events)).body).toEqual({ accepted: 0, deduped: 3, warnings: [] });
    expect(await storedEvents(organization.id)).toBe(2);
  });

  it('reports repeats that differ from the first event with their key', async () => {
    const { key, event } = await entitled();
    const at = '2026-03-04T11:00:00.000001Z';
    await send(key.secret, [event('a', { occurredAt: at }), event('b', { quantity: 2 }), event('c')]);
    const { body } = await send(key.secret, [
      event('a', { occurredAt: '2026-03-04T12:00:00.000001+01:00' }),
      event('b', { quantity: 3 }),
      event('c', { quantity: 1 }),
      event('a', { occurredAt: '2026-03-04T11:00:00.000002Z' }),
      event('new'),
      event('new', { quantity: 9 }),
    ]);
    const mismatch = (index: number) => ({ code: 'duplicate_mismatch', index });
    expect(body).toEqual({ accepted: 1, deduped: 5, warnings: [mismatch(1), mismatch(3), mismatch(5)] });
  });

  it('counts the same idempotency key once per Organization, live and test separately', async () => {
    const one = await entitled();
    const other = await entitled();
    const testKey = await createKey(database.db, one.organization.id, { livemode: false });
    expect((await send(one.key.secret, [one.event('same')])).body.accepted).toBe(1);
    expect((await send(other.key.secret, [other.event('same')])).body.accepted).toBe(1);
    expect((await send(testKey.secret, [one.event('same')])).body).toEqual({
      accepted: 0,
      deduped: 1,
      warnings: [{ code: 'duplicate_mismatch', index: 0, differs: ['livemode'] }],
    });
  });

  it('defaults to a quantity of 1 and the time of receipt, and accepts 0 and huge and tiny numbers exactly', async () => {
    const { key, event, organization } = await entitled();
    await sendBody(
      key.secret,
      `{"events":[${[
        JSON.stringify(event('a')),
        JSON.stringify(event('b', { quantity: 0 })),
        JSON.stringify(event('c', { quantity: 1e21 })),
        JSON.stringify(event('d', { quantity: 0.1 })),
        JSON.stringify(event('e', { quantity: 0.2 })),
        JSON.stringify(event('f')).replace('}', ',"quantity":0.00000000000000000001}'),
      ].join(',')}]}`,
    );
    const result = await database.db.orm.execute(
      sql`select trim_scale(quantity)::text as total, events::int as events from usage_totals where org_id = ${organization.id}`,
    );
    expect((result as { rows: unknown[] }).rows).toEqual([
      { total: '1000000000000000000001.30000000000000000001', events: 6 },
    ]);
  });

  it('belongs to the calendar month (UTC) of each event', async () => {
    const { key, event } = await entitled('1');
    const { body } = await send(key.secret, [
      event('a', { quantity: 2, occurredAt: '2026-02-28T23:59:59.999999999Z' }),
      event('b', { quantity: 3, occurredAt: '2026-03-01T00:00:00Z' }),
      event('c', { quantity: 4, occurredAt: '2026-03-01T00:30:00+01:00' }),
    ]);
    const period = (start: string, end: string) => ({ start: `${start}T00:00:00Z`, end: `${end}T00:00:00Z` });
    expect(body.warnings.toSorted((a: { used: number }, b: { used: number }) => a.used - b.used)).toEqual([
      expect.objectContaining({
        code: 'unit_cap_exceeded',
        unitCap: 1,
        used: 3,
        period: period('2026-03-01', '2026-04-01'),
      }),
      expect.objectContaining({
        code: 'unit_cap_exceeded',
        unitCap: 1,
        used: 6,
        period: period('2026-02-01', '2026-03-01'),
      }),
    ]);
  });

  it('of two customers of a product warns each of its own cap, starting with the next event', async () => {
    const { db } = database;
    const product = await createProduct(db, { unitCap: '10', maxQuantity: ANY_QUANTITY });
    const customer = async (cap: { hasOwnCap?: boolean; unitCap?: string | null }) => {
      const { id } = await createOrganization(db);
      await grant(db, id, product.id, cap);
      return createKey(db, id);
    };
    const [plain, lower, higher, unlimited] = await Promise.all([
      customer({}),
      customer({ hasOwnCap: true, unitCap: '2.5' }),
      customer({ hasOwnCap: true, unitCap: '20' }),
      customer({ hasOwnCap: true, unitCap: null }),
    ]);
    const everyone = [plain, lower, higher, unlimited];
    // Sends all requests at once, so that they share a flush.
    const report = (idempotencyKey: string, quantity: number) =>
      Promise.all(
        everyone.map(async ({ secret }) => {
          const event = { productSlug: product.slug, metric: 'calls', idempotencyKey, quantity };
          const { body } = await send(secret, [event]);
          return body.warnings.map((w: any) => `${w.used} of ${w.unitCap}`);
        }),
      );
    expect(await report('a', 3)).toEqual([[], ['3 of 2.5'], [], []]);
    expect(await report('b', 9)).toEqual([['12 of 10'], ['12 of 2.5'], [], []]);
    // A repeat gets the same warnings.
    expect(await report('b', 9)).toEqual([['12 of 10'], ['12 of 2.5'], [], []]);
    const setCap = (orgId: string, hasOwnCap: boolean, unitCap: string | null) =>
      db.orm.update(entitlements).set({ hasOwnCap, unitCap }).where(eq(entitlements.orgId, orgId));
    await setCap(plain.orgId, true, null);
    await setCap(lower.orgId, false, null);
    await setCap(higher.orgId, true, '12');
    await setCap(unlimited.orgId, true, '0');
    expect(await report('b', 9)).toEqual([[], ['12 of 10'], [], ['12 of 0']]);
    expect(await report('c', 0.5)).toEqual([[], ['12.5 of 10'], ['12.5 of 12'], ['12.5 of 0']]);
    const answers = await Promise.all(
      everyone.map(async ({ secret }) => {
        const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
        const read = async (path: string, init: RequestInit = {}) =>
          (await fetch(`${service.url}/api/entitlements${path}`, { headers, ...init })).json() as any;
        const body = JSON.stringify({ productSlugs: [product.slug] });
        const [check] = (await read('/check', { method: 'POST', body })).results;
        const { unitCap, used, remaining } = await read(`/${product.slug}`);
        expect((await read('')).entitlements).toMatchObject([{ unitCap, used, remaining }]);
        expect(check).toMatchObject({ unitCap, used, remaining });
        return [unitCap, used, remaining, check.overCap];
      }),
    );
    expect(answers).toEqual([
      [null, 12.5, null, false],
      [10, 12.5, 0, true],
      [12, 12.5, 0, true],
      [0, 12.5, 0, true],
    ]);
  });

  it('above the cap is recorded, with a warning that holds the exact total; a repeat gets the same warning', async () => {
    const { key, event, product } = await entitled('10');
    expect((await send(key.secret, [event('a', { quantity: 10 })])).body.warnings).toEqual([]);
    const over = await send(key.secret, [event('b', { quantity: 0.3 })]);
    const warning = {
      code: 'unit_cap_exceeded',
      productSlug: product.slug,
      metric: 'calls',
      unitCap: 10,
      used: 10.3,
    };
    expect(over.body).toMatchObject({ accepted: 1, warnings: [warning] });
    expect((await send(key.secret, [event('b', { quantity: 0.3 })])).body).toMatchObject({
      deduped: 1,
      warnings: [warning],
    });
  });

  it('may be compressed', async () => {
    const { key, event } = await entitled();
    const body = new Uint8Array(gzipSync(JSON.stringify({ events: [event('a')] })));
    expect((await sendBody(key.secret, body, { headers: { 'content-encoding': 'gzip' } })).status).toBe(202);
  });

  it('accepts any Unicode unchanged, and 500 events', async () => {
    const { key, event } = await entitled();
    const hostile = [
      "'; drop table usage_events; --",
      '<script>alert(1)</script>',
      '{"a"},\\',
      '💥'.repeat(255),
      'مرحبا',
      '__proto__',
      ' ',
    ];
    expect(
      (
        await send(
          key.secret,
          hostile.map((k) => event(k)),
        )
      ).body,
    ).toMatchObject({ accepted: hostile.length });
    expect(
      (
        await send(
          key.secret,
          hostile.map((k) => event(k)),
        )
      ).body,
    ).toMatchObject({ accepted: 0, deduped: hostile.length });
    const many = Array.from({ length: 500 }, (_, i) => event(`many-${i}`));
    expect((await send(key.secret, many)).body).toMatchObject({ accepted: 500 });
  });
});

describe('a strict batch with a broken rule', () => {
  it('is refused whole: the first broken rule in the documented order decides the status, and all are listed', async () => {
    const { key, event, organization } = await entitled();
    const readOnly = await createProduct(database.db);
    await grant(database.db, organization.id, readOnly.id, { kind: 'read_only' });
    const old = { occurredAt: '2020-01-01T00:00:00Z' };
    const answer = await send(key.secret, [
      event('a'),
      event('b', old),
      event('c', { metric: 'bytes', ...old }),
      event('d', { productSlug: readOnly.slug }),
      event('e', { productSlug: 'unknown' }),
    ]);
    expect(answer.status).toBe(403);
    expect(answer.body).toMatchObject({ code: 'entitlement_required', status: 403, title: 'Forbidden' });
    expect(answer.body.errors.map(({ index, pointer, code }: ErrorPlace) => [index, pointer, code])).toEqual([
      [1, '/events/1/occurredAt', 'timestamp_out_of_range'],
      [2, '/events/2/metric', 'unknown_metric'],
      [2, '/events/2/occurredAt', 'timestamp_out_of_range'],
      [3, '/events/3/productSlug', 'entitlement_read_only'],
      [4, '/events/4/productSlug', 'entitlement_required'],
    ]);
    expect(await storedEvents(organization.id)).toBe(0);
    const status = async (events: unknown[]) => {
      const { status, body } = await send(key.secret, events);
      return `${status} ${body.code}`;
    };
    expect(await status([event('b', old), event('d', { productSlug: readOnly.slug })])).toBe(
      '403 entitlement_read_only',
    );
    expect(await status([event('b', old), event('c', { metric: 'bytes' })])).toBe('422 unknown_metric');
    expect(await status([event('a'), event('b', old)])).toBe('422 timestamp_out_of_range');
    expect(await storedEvents(organization.id)).toBe(0);
  });

  it('is checked against a window with inclusive ends', async () => {
    const { key, event } = await entitled();
    const now = service.clock.now();
    const day = 24 * 3600_000;
    const at = async (offset: number) => {
      const occurredAt = new Date(now + offset).toISOString();
      return (await send(key.secret, [event(`w${offset}`, { occurredAt })])).status;
    };
    expect(await at(-7 * day)).toBe(202);
    expect(await at(-7 * day - 1)).toBe(422);
    expect(await at(5 * 60_000)).toBe(202);
    expect(await at(5 * 60_000 + 1)).toBe(422);
  });

  it('cannot use another Organization’s entitlement, or one that has not started or has ended', async () => {
    const { key, event, organization } = await entitled();
    const other = await entitled();
    const now = service.clock.now();
    const future = await createProduct(database.db);
    const past = await createProduct(database.db);
    await grant(database.db, organization.id, future.id, { startsAt: new Date(now + 1) });
    await grant(database.db, organization.id, past.id, { endsAt: new Date(now) });
    for (const slug of [other.product.slug, future.slug, past.slug]) {
      expect((await send(key.secret, [event('a', { productSlug: slug })])).body.code).toBe(
        'entitlement_required',
      );
    }
  });
});

describe('lenient handling', () => {
  it('records the valid events and gives the reason for each refused one', async () => {
    const { key, event, organization } = await entitled();
    const answer = await send(
      key.secret,
      [
        event('a'),
        event('b', { productSlug: 'unknown', occurredAt: '2020-01-01T00:00:00Z' }),
        event('c', { metric: 'bytes' }),
        event('d', { occurredAt: '2020-01-01T00:00:00Z' }),
        event('a'),
      ],
      lenient,
    );
    expect(answer.status).toBe(202);
    expect(answer.headers.get('preference-applied')).toBe('handling=lenient');
    expect(answer.body).toMatchObject({ accepted: 1, deduped: 1, warnings: [] });
    expect(answer.body.rejected.map(({ index, code }: RejectedEvent) => [index, code])).toEqual([
      [1, 'entitlement_required'],
      [2, 'unknown_metric'],
      [3, 'timestamp_out_of_range'],
    ]);
    expect(await storedEvents(organization.id)).toBe(1);
    expect((await send(key.secret, [event('z')], lenient)).body.rejected).toEqual([]);
  });

  it('records the others if an event does not fit the schema, and refuses a body without any that does', async () => {
    const { key, event } = await entitled();
    expect((await send(key.secret, [event('a'), {}], lenient)).body).toMatchObject({
      accepted: 1,
      rejected: [{ index: 1, code: 'invalid_request', detail: 'productSlug is required' }],
    });
    expect((await send(key.secret, [{}], lenient)).status).toBe(400);
  });
});

describe('a dry run', () => {
  it('gives the same answer and records nothing', async () => {
    const { key, event, organization } = await entitled('1');
    const dry = { query: '?dryRun=true' };
    const events = [event('a', { quantity: 2 }), event('a', { quantity: 3 })];
    const rehearsed = await send(key.secret, events, dry);
    expect(await storedEvents(organization.id)).toBe(0);
    const real = await send(key.secret, events);
    expect(rehearsed.status).toBe(202);
    expect(rehearsed.body).toEqual(real.body);
    expect((await send(key.secret, [event('b', { metric: 'bytes' })], dry)).body.code).toBe('unknown_metric');
    expect((await send(key.secret, events, dry)).body).toMatchObject({ accepted: 0, deduped: 2 });
    const refused = {
      '?dryRun=maybe': 'must be true or false',
      '?dryrun=true': 'dryrun is not known',
      '?dryRun=true&dryRun=false': 'must appear only once',
    };
    for (const [query, detail] of Object.entries(refused)) {
      const { status, body } = await send(key.secret, events, { query });
      expect([status, body.code, body.detail]).toEqual([
        400,
        'invalid_request',
        expect.stringContaining(detail),
      ]);
    }
  });
});

describe('a body that does not fit', () => {
  const places = async (events: unknown) => {
    const { key } = await entitled();
    const { status, body } = await send(key.secret, events);
    expect(`${status} ${body.code}`).toBe('400 invalid_request');
    return body.errors.map(({ pointer }: ErrorPlace) => pointer);
  };

  it('names each place', async () => {
    const { event } = await entitled();
    expect(await places([])).toEqual(['/events']);
    expect(await places('events')).toEqual(['/events']);
    expect(await places([event('a'), null])).toEqual(['/events/1']);
    expect(await places([{}])).toEqual([
      '/events/0/productSlug',
      '/events/0/metric',
      '/events/0/idempotencyKey',
    ]);
    expect(await places([event('a', { quantity: -1, occurredAt: '2026-03-04T12:00:00' })])).toEqual([
      '/events/0/quantity',
      '/events/0/occurredAt',
    ]);
    expect(await places([event('a', { quantity: '1' }), event('b', { orgId: 'x', 'a/b~c': 1 })])).toEqual([
      '/events/0/quantity',
      '/events/1/orgId',
      '/events/1/a~1b~0c',
    ]);
    expect(await places([event('')])).toEqual(['/events/0/idempotencyKey']);
    expect(await places([event('x'.repeat(256))])).toEqual(['/events/0/idempotencyKey']);
    expect(
      await places([event('a\u0000'), event('a\n'), event('\ud800'), event('ok', { metric: '\u0085' })]),
    ).toEqual([
      '/events/0/idempotencyKey',
      '/events/1/idempotencyKey',
      '/events/2/idempotencyKey',
      '/events/3/metric',
    ]);
  });

  it('is distinguished from one that is not JSON, not UTF-8, too large, or of another type', async () => {
    const { key, event } = await entitled();
    const outcome = async (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) => {
      const answer = await sendBody(key.secret, body, { headers });
      return `${answer.status} ${answer.body.code}`;
    };
    expect(await outcome('{"events":[')).toBe('400 invalid_json');
    expect(await outcome('')).toBe('400 invalid_json');
    expect(await outcome('null')).toBe('400 invalid_request');
    expect(
      await outcome('{"events":[{"productSlug":"a","metric":"b","idempotencyKey":"c","quantity":1e999}]}'),
    ).toBe('400 invalid_request');
    expect(await outcome(new Uint8Array([0x22, 0xff, 0x22]))).toBe('400 invalid_json');
    expect(await outcome('{}', { 'content-type': 'text/plain' })).toBe('415 unsupported_media_type');
    expect(await outcome('{}', { 'content-type': 'application/json; charset=latin1' })).toBe(
      '415 unsupported_media_type',
    );
    expect(await outcome('{}', { 'content-encoding': 'compress' })).toBe('415 unsupported_media_type');
    expect(await outcome(`{"events":[],"x":"${'x'.repeat(9_000_000)}"}`)).toBe('413 body_too_large');
    const bomb = new Uint8Array(gzipSync(Buffer.alloc(50_000_000, 0x20)));
    expect(await outcome(bomb, { 'content-encoding': 'gzip' })).toBe('413 body_too_large');
    const many = Array.from({ length: 501 }, (_, i) => event(`many-${i}`));
    expect((await send(key.secret, many)).body).toMatchObject({ status: 413, code: 'batch_too_large' });
  });

  it('names the event if a quantity has too many digits', async () => {
    const { key, event } = await entitled();
    const body = `{"events":[${JSON.stringify(event('a'))},${JSON.stringify(event('b')).replace('}', `,"quantity":0.${'1'.repeat(200)}}`)}]}`;
    const answer = await sendBody(key.secret, body);
    expect(answer.body).toMatchObject({
      code: 'invalid_request',
      errors: [{ index: 1, pointer: '/events/1/quantity' }],
    });
  });
});

describe('a key', () => {
  it('needs only the scope usage:write to send, and cannot send without it, whatever the body', async () => {
    const { organization, event } = await entitled();
    const writer = await createKey(database.db, organization.id, { scopes: ['usage:write'] });
    const reader = await createKey(database.db, organization.id, { scopes: ['entitlements:read'] });
    expect((await send(writer.secret, [event('a')])).status).toBe(202);
    expect((await send(reader.secret, [event('b')])).body.code).toBe('insufficient_scope');
    expect((await sendBody(reader.secret, 'junk')).body.code).toBe('insufficient_scope');
  });

  itWithApiKey('that was revoked or has expired since its last call fails on its next call', async () => {
    const { organization, event } = await entitled();
    const revoked = await createKey(database.db, organization.id);
    const expiring = await createKey(database.db, organization.id, {
      expiresAt: new Date(service.clock.now() + 1000),
    });
    for (const { secret } of [revoked, expiring])
      expect((await send(secret, [event(secret)])).status).toBe(202);
    await database.db.orm.execute(sql`update api_keys set revoked_at = now() where id = ${revoked.id}`);
    expect((await send(revoked.secret, [event('b')])).body.code).toBe('key_revoked');
    expect((await sendBody(revoked.secret, 'junk')).body.code).toBe('key_revoked');
    service.clock.advance(1000);
    expect((await send(expiring.secret, [event('c')])).body.code).toBe('key_expired');
  });
});
