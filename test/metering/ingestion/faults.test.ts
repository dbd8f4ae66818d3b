import { request } from 'node:http';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import type { ShardGroup } from '../../../src/core/db/client.js';
import { databaseError, makeFaulty, type FaultyDatabase } from '../../support/faulty-database.js';
import { createKey } from '../../support/fixtures.js';
import { createProduct } from '../support/products.js';
import { createTenant, readUsage, sendUsage, usageEvent, type SendOptions } from '../support/usage.js';
import { until } from '../../support/until.js';
import { useDatabase, useServiceOn } from '../../support/use.js';

const database = useDatabase();
let faulty: FaultyDatabase;
beforeAll(() => void (faulty = makeFaulty(database.db)));
const service = useServiceOn(() => faulty.db);
afterEach(() => {
  faulty.release();
  faulty.before = () => undefined;
  faulty.after = () => undefined;
});

const send = (secret: string, events: unknown[], options?: SendOptions) =>
  sendUsage(service.url, secret, events, options);
let group: ShardGroup | undefined;
/** Creates tenants in one shard group, so that they can share a flush. */
async function tenant(unitCap?: string): ReturnType<typeof createTenant> {
  for (;;) {
    const made = await createTenant(database.db, unitCap);
    const own = await database.db.shards.locate(hashSecret(made.key.secret));
    if ((group ??= own) === own) return made;
  }
}
const one = usageEvent;

/** Fills every flush slot with a held flush, so that further calls have to wait. */
async function plugFlushes() {
  const { product, key } = await tenant();
  faulty.hold('usage_ingest');
  const plugs: ReturnType<typeof send>[] = [];
  for (let i = 0; i < group!.parallel; i++) {
    const events = Array.from({ length: 100 }, (_, e) => one(product.slug, `plug ${i} ${e}`));
    plugs.push(send(key.secret, events));
    await until(() => faulty.held === i + 1);
  }
  return plugs;
}

/** Makes calls share one flush by holding earlier flushes until all calls are waiting. */
async function inOneFlush<T>(calls: (() => Promise<T>)[], events: number): Promise<T[]> {
  const plugs = await plugFlushes();
  const answers = calls.map((call) => call());
  await until(() => service.services.ingestion.waitingEvents === events);
  faulty.release();
  await Promise.all(plugs);
  return Promise.all(answers);
}

/** Makes the database fail statements whose values contain this text. */
function refuse(text: string, error: Error) {
  faulty.before = (_statement, values) => {
    if (values.some((value) => String(value).includes(text))) throw error;
  };
}

describe('requests that share a flush', () => {
  it('are not affected by a bad request among them', async () => {
    const { organization, product, key } = await tenant();
    const revoked = await createKey(database.db, organization.id, { revokedAt: new Date('2020-01-01') });
    const scopeless = await createKey(database.db, organization.id, { scopes: ['entitlements:read'] });
    // Touched keys count as known, so they are checked only by the statement.
    for (const { secret } of [revoked, scopeless]) service.services.keyUse.touch(hashSecret(secret), null);
    const answers = await inOneFlush(
      [
        () => send(key.secret, [one(product.slug, 'a')]),
        () => send(key.secret, [one(product.slug, 'b'), one('unknown', 'c')]),
        () => send(key.secret, [one(product.slug, 'd'), one('unknown', 'e')], { lenient: true }),
        () => send(key.secret, [one(product.slug, 'f', { metric: 'bytes' })]),
        () => send(revoked.secret, [one(product.slug, 'g')]),
        () => send(scopeless.secret, [one(product.slug, 'h')]),
        () => send(key.secret, [one(product.slug, 'i'), one(product.slug, 'a')]),
      ],
      10,
    );
    expect(answers.map(({ status, body }) => [status, body.code ?? body.accepted])).toEqual([
      [202, 1],
      [403, 'entitlement_required'],
      [202, 1],
      [422, 'unknown_metric'],
      [401, 'key_revoked'],
      [403, 'insufficient_scope'],
      [202, 1],
    ]);
    expect(await readUsage(database.db, organization.id)).toMatchObject({ keys: ['a', 'd', 'i'], drift: [] });
  });

  it('are split to find the one that the database refuses, and only its owner gets an error', async () => {
    const { organization, product, key } = await tenant();
    refuse('poison', databaseError('22003'));
    const calls = Array.from({ length: 12 }, (_, i) => {
      const name = i === 5 || i === 11 ? `poison ${i}` : `good ${i}`;
      return () => send(key.secret, [one(product.slug, `${i} first`), one(product.slug, name)]);
    });
    const answers = await inOneFlush(calls, 24);
    expect(answers.map(({ status }) => status)).toEqual(
      answers.map((_, i) => (i === 5 || i === 11 ? 400 : 202)),
    );
    expect(answers[5]!.body.code).toBe('invalid_request');
    const { keys, drift } = await readUsage(database.db, organization.id);
    expect(keys).toHaveLength(20);
    expect(keys.filter((name) => /poison|^5 |^11 /.test(name))).toEqual([]);
    expect(drift).toEqual([]);
  });

  it('give a generic 500 only to the owner of an internal failure', async () => {
    const { product, key } = await tenant();
    refuse('poison', databaseError('XX000', 'secret details of the database'));
    const answers = await inOneFlush(
      [
        () => send(key.secret, [one(product.slug, 'a')]),
        () => send(key.secret, [one(product.slug, 'poison')]),
        () => send(key.secret, [one(product.slug, 'b')]),
      ],
      3,
    );
    expect(answers.map(({ status }) => status)).toEqual([202, 500, 202]);
    expect(JSON.stringify(answers[1]!.body)).not.toContain('secret details');
  });

  it('are acknowledged if they were recorded before the database went away in a split flush', async () => {
    const { organization, product, key } = await tenant();
    faulty.before = (_statement, values) => {
      const keys = String(values[5]);
      if (keys.includes('poison')) throw databaseError('22003');
      if (keys.includes('away')) throw databaseError('57P03');
    };
    const answers = await inOneFlush(
      ['a', 'poison', 'away', 'b'].map((name) => () => send(key.secret, [one(product.slug, name)])),
      4,
    );
    expect(answers.map(({ status }) => status).slice(0, 3)).toEqual([202, 400, 503]);
    const { keys } = await readUsage(database.db, organization.id);
    const acknowledged = ['a', 'poison', 'away', 'b'].filter((_, i) => answers[i]!.status === 202);
    expect(keys).toEqual(acknowledged);
  });

  it('get warnings only about totals that they affect', async () => {
    const { product, key } = await tenant('10');
    service.clock.set('2031-03-02T12:00:00Z');
    const lastMonth = { occurredAt: '2031-02-28T12:00:00Z', quantity: 20 };
    const [over, under, outside] = await inOneFlush(
      [
        () => send(key.secret, [one(product.slug, 'a', lastMonth)]),
        () => send(key.secret, [one(product.slug, 'b')]),
        () =>
          send(key.secret, [one(product.slug, 'c', { occurredAt: '2031-01-01T00:00:00Z' })], {
            lenient: true,
          }),
      ],
      3,
    );
    expect(over!.body.warnings).toMatchObject([
      {
        code: 'unit_cap_exceeded',
        used: 20,
        period: { start: '2031-02-01T00:00:00Z', end: '2031-03-01T00:00:00Z' },
      },
    ]);
    expect(under!.body).toMatchObject({ accepted: 1, warnings: [] });
    expect(outside!.body).toMatchObject({
      accepted: 0,
      warnings: [],
      rejected: [{ code: 'timestamp_out_of_range' }],
    });
  });
});

describe('input that validation accepts', () => {
  it('records the first of two events with one key, however long the batch', async () => {
    const { organization, product, key } = await tenant();
    const events = Array.from({ length: 200 }, (_, i) => one(product.slug, `key ${i % 40}`, { quantity: i }));
    const { body } = await send(key.secret, events);
    expect(body).toMatchObject({ accepted: 40, deduped: 160 });
    expect(body.warnings).toEqual(
      Array.from({ length: 160 }, (_, i) => ({ code: 'duplicate_mismatch', index: i + 40 })),
    );
    const { events: recorded, drift } = await readUsage(database.db, organization.id);
    expect(recorded.map(({ key, quantity }) => `${key} ${quantity}`).sort()).toEqual(
      Array.from({ length: 40 }, (_, i) => `key ${i} ${i}`).sort(),
    );
    expect(drift).toEqual([]);
  });

  it.each(['+16:00', '-16:00', '+23:59', '-15:59', '+00:00', 'Z'])(
    'may have any RFC 3339 offset: %s',
    async (offset) => {
      const { organization, product, key } = await tenant();
      const utc = Date.parse('2031-03-02T12:34:56Z');
      service.clock.set('2031-03-02T13:00:00Z');
      const minutes =
        offset === 'Z'
          ? 0
          : Number(`${offset[0]}1`) * (Number(offset.slice(1, 3)) * 60 + Number(offset.slice(4)));
      const local = new Date(utc + minutes * 60_000).toISOString().slice(0, 19);
      const event = one(product.slug, 'a', { occurredAt: `${local}.1234567${offset}` });
      expect(await send(key.secret, [event])).toMatchObject({ status: 202, body: { accepted: 1 } });
      expect(await send(key.secret, [event])).toMatchObject({ body: { deduped: 1, warnings: [] } });
      const { events } = await readUsage(database.db, organization.id);
      expect(new Date(events[0]!.occurredAt).getTime()).toBe(utc + 123);
      expect(events[0]!.occurredAt).toContain('56.123456');
    },
  );

  it.each([
    ['1e-300', 202, '0.' + '0'.repeat(299) + '1'],
    ['1e308', 202, '1' + '0'.repeat(308)],
    ['-0', 202, '0'],
    ['-1e-400', 202, '0'],
    ['-0.00000000000000000001e-400', 202, '0'],
    ['0.12345678901234567890e1', 202, '1.234567890123456789'],
    ['0.1234567890123456789e-20000', 202, '0'],
    ['12345678901234567890.12345678901234567890', 202, '12345678901234567890.1234567890123456789'],
    ['1e400', 400, undefined],
    ['-1', 400, undefined],
    ['-1.00000000000000000001', 400, undefined],
  ])('with a quantity of %s is a %i', async (literal, status, stored) => {
    const { organization, product, key } = await tenant();
    const body = JSON.stringify({ events: [one(product.slug, 'a', { quantity: 0.5 })] }).replace(
      '0.5',
      literal,
    );
    const response = await fetch(`${service.url}/api/usage/events`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
      body,
    });
    expect(response.status).toBe(status);
    const { events, drift } = await readUsage(database.db, organization.id);
    expect(events.map(({ quantity }) => quantity)).toEqual(stored === undefined ? [] : [stored]);
    expect(drift).toEqual([]);
  });

  it('gets the same answer in a dry run as in a real run if the database refuses it', async () => {
    const { product, key } = await tenant();
    refuse('poison', databaseError('22003'));
    const real = await send(key.secret, [one(product.slug, 'poison')]);
    const dry = await send(key.secret, [one(product.slug, 'poison')], { dryRun: true });
    expect([real.status, real.body.code]).toEqual([400, 'invalid_request']);
    expect([dry.status, dry.body.code]).toEqual([400, 'invalid_request']);
  });
});

describe('an unavailable database', () => {
  it('is waited for briefly', async () => {
    const { organization, product, key } = await tenant();
    await send(key.secret, [one(product.slug, 'first')]);
    let failures = 3;
    faulty.before = () => {
      if (failures-- > 0) throw databaseError('57P03', 'the database system is starting up');
    };
    expect(await send(key.secret, [one(product.slug, 'a')])).toMatchObject({
      status: 202,
      body: { accepted: 1 },
    });
    expect(await readUsage(database.db, organization.id)).toMatchObject({ keys: ['a', 'first'], drift: [] });
  });

  it('does not count twice what was committed just before the connection was lost', async () => {
    const { organization, product, key } = await tenant();
    await send(key.secret, [one(product.slug, 'first')]);
    let failures = 1;
    faulty.after = ({ name }) => {
      if (name.startsWith('usage_ingest') && failures-- > 0) throw databaseError('ECONNRESET');
    };
    const answer = await send(key.secret, [one(product.slug, 'a', { quantity: 5 })]);
    expect(answer).toMatchObject({ status: 202, body: { accepted: 0, deduped: 1, warnings: [] } });
    expect(await readUsage(database.db, organization.id)).toMatchObject({ keys: ['a', 'first'], drift: [] });
  });

  it('is a 503 with Retry-After for a whole queue of requests, which share one wait', async () => {
    const { organization, product, key } = await tenant();
    await send(key.secret, [one(product.slug, 'first')]);
    let tries = 0;
    faulty.before = ({ name }) => {
      if (name.startsWith('usage_ingest')) tries++;
      throw databaseError('ECONNREFUSED');
    };
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, r) =>
        send(
          key.secret,
          Array.from({ length: 400 }, (_event, e) => one(product.slug, `${r} ${e}`)),
        ),
      ),
    );
    // Flushes that retried on their own would try seven times each in two seconds.
    expect(tries).toBeLessThan(3 * 24);
    for (const { status, body, headers } of answers) {
      expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'unavailable', '1']);
    }
    faulty.before = () => undefined;
    expect((await send(key.secret, [one(product.slug, 'after')])).status).toBe(202);
    expect(await readUsage(database.db, organization.id)).toMatchObject({
      keys: ['after', 'first'],
      drift: [],
    });
  });

  it.each(['57014', '40P01', '40001'])(
    'is a 503 without splitting the flush if a statement keeps ending with %s',
    async (code) => {
      const { product, key } = await tenant();
      refuse('poison', databaseError(code));
      const answers = await inOneFlush(
        [
          () => send(key.secret, [one(product.slug, 'a')]),
          () => send(key.secret, [one(product.slug, 'poison')]),
        ],
        2,
      );
      expect(answers.map(({ status, body }) => [status, body.code])).toEqual([
        [503, 'unavailable'],
        [503, 'unavailable'],
      ]);
    },
  );
});

describe('a full queue', () => {
  it('refuses at once with Retry-After, and accepts again when there is room', async () => {
    const { organization, product, key } = await tenant();
    await send(key.secret, [one(product.slug, 'first')]);
    const plugs = await plugFlushes();
    const batch = (r: number) => Array.from({ length: 500 }, (_, e) => one(product.slug, `${r} ${e}`));
    // Each shard group has its own share of the queue.
    const room = 50_000 / database.db.shards.groups.length;
    const answers = Array.from({ length: room / 500 }, (_, r) => send(key.secret, batch(r)));
    await until(() => service.services.ingestion.waitingEvents === room);
    const startedAt = performance.now();
    const refused = await send(key.secret, [one(product.slug, 'too much')]);
    expect([refused.status, refused.body.code, refused.headers.get('retry-after')]).toEqual([
      503,
      'unavailable',
      '1',
    ]);
    // Less than the four seconds that a call waits for room or for the database.
    expect(performance.now() - startedAt).toBeLessThan(3_500);
    faulty.release();
    await Promise.all(plugs);
    expect((await Promise.all(answers)).every(({ status }) => status === 202)).toBe(true);
    expect((await send(key.secret, [one(product.slug, 'room')])).status).toBe(202);
    const { keys, drift } = await readUsage(database.db, organization.id);
    expect(keys).toHaveLength(room + 2);
    expect(drift).toEqual([]);
  });
});

describe('a client that hangs up', () => {
  const start = (secret: string, body: string, length = Buffer.byteLength(body)) => {
    const req = request(`${service.url}/api/usage/events`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${secret}`,
        'content-type': 'application/json',
        'content-length': length,
      },
    });
    req.on('error', () => undefined);
    req.write(body);
    return req;
  };

  it('does not undo what was committed', async () => {
    const { organization, product, key } = await tenant();
    await send(key.secret, [one(product.slug, 'first')]);
    faulty.hold('usage_ingest');
    const req = start(key.secret, JSON.stringify({ events: [one(product.slug, 'a', { quantity: 7 })] }));
    req.end();
    await until(() => faulty.held === 1);
    req.destroy();
    faulty.release();
    const again = await send(key.secret, [one(product.slug, 'a', { quantity: 7 })]);
    expect(again).toMatchObject({ status: 202, body: { accepted: 0, deduped: 1, warnings: [] } });
    expect(await readUsage(database.db, organization.id)).toMatchObject({ keys: ['a', 'first'], drift: [] });
  });

  it('leaves nothing behind if it does so in the middle of a body', async () => {
    const { organization, product, key } = await tenant();
    const body = JSON.stringify({ events: [one(product.slug, 'a')] });
    for (const known of [false, true]) {
      if (known) await send(key.secret, [one(product.slug, 'first')]);
      const req = start(key.secret, body.slice(0, 20), body.length);
      await new Promise((resolve) => setTimeout(resolve, 30));
      req.destroy();
    }
    expect((await send(key.secret, [one(product.slug, 'last')])).status).toBe(202);
    expect(await readUsage(database.db, organization.id)).toMatchObject({
      keys: ['first', 'last'],
      drift: [],
    });
  });
});

it('a product that is not granted to this Organization is refused, even if another request in the flush may use it', async () => {
  const mine = await tenant();
  const other = await tenant();
  const shared = await createProduct(database.db);
  const [good, bad] = await inOneFlush(
    [
      () => send(mine.key.secret, [one(mine.product.slug, 'same key')]),
      () => send(other.key.secret, [one(mine.product.slug, 'same key'), one(shared.slug, 'b')]),
    ],
    3,
  );
  expect([good!.status, bad!.status]).toEqual([202, 403]);
  expect((await readUsage(database.db, other.organization.id)).keys).toEqual([]);
});
