import { randomBytes } from 'node:crypto';
import { DrizzleQueryError } from 'drizzle-orm';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateSecret } from '../../../src/api-keys/bearer-key.js';
import { generateRecoveryCodes } from '../../../src/identity/second-factor/codes.js';
import { generateToken } from '../../../src/identity/session/session-cookie.js';
import { createAccessLog, createLogger } from '../../../src/core/log/log.js';
import { createMask, secretsIn } from '../../../src/core/log/log-mask.js';
import { generateInvitationToken } from '../../../src/identity/members/invitations.js';
import { users } from '../../../src/tables.js';
import { Browser, signedIn } from '../../support/accounts.js';
import { cpuMsOf } from '../../support/cpu.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { operatorToken } from '../../support/operator.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createTenant, sendUsage, until, usageEvent } from '../../support/usage.js';

const orgId = '019b8d9a-6400-7000-8000-000000000041';
const known = secretsIn({
  OPERATOR_TOKEN: operatorToken,
  SESSION_KEYS: 'first "quoted" session key,second-session-key',
  DATABASE_URL: 'postgres://gauge:p%40ssword-of-db@db.example.com/gauge',
  PORT: '12345678',
  // Another program's.
  PROXY_URL: 'http://proxy:100%sure@proxy.example.com',
});

/** Each kind of secret, new each time. */
const secrets: Record<string, () => string> = {
  'an API key': () => generateSecret(true),
  'a test API key': () => generateSecret(false),
  'a session token': generateToken,
  'an invitation token': () => generateInvitationToken(orgId).token,
  'a recovery code': () => generateRecoveryCodes()[0]!,
  'the operator token': () => operatorToken,
  'a session key': () => 'second-session-key',
  'a password of the configuration': () => 'p@ssword-of-db',
  'a password that is not encoded': () => '100%sure',
};

let lines: string[];
const stream = { write: (line: string) => void lines.push(line) };
const log = createLogger('trace', stream, known);
const logged = (write: () => void): string => {
  lines = [];
  write();
  for (const line of lines) expect(() => JSON.parse(line)).not.toThrow();
  return lines.join('');
};

describe.each(Object.entries(secrets))('%s', (_name, make) => {
  it.each<[string, (secret: string) => unknown]>([
    ['a field', (secret) => ({ path: `/api/entitlements/${secret}` })],
    ['a query', (secret) => ({ url: `/x?a=1&cursor=${encodeURIComponent(secret)}&b=2` })],
    ['a header', (secret) => ({ headers: { 'x-forwarded-for': secret, authorization: `Bearer ${secret}` } })],
    ['the text of an error', (secret) => ({ err: new Error(`could not send ${secret} to anybody`) })],
    ['a cause', (secret) => ({ err: new Error('failed', { cause: new Error(`"${secret}"`) }) })],
    ['parameters of a statement', (secret) => ({ err: new DrizzleQueryError('select $1', [secret]) })],
    ['a list', (secret) => ({ deep: { list: [[{ secret }, secret]] } })],
  ])('is masked in %s, and the line stays JSON', (_place, place) => {
    for (let i = 0; i < 50; i++) {
      const secret = make();
      const text = logged(() => log.error(place(secret) as object, `with ${secret} in the message`));
      expect(text).not.toContain(secret);
      expect(text).not.toContain(encodeURIComponent(secret));
      expect(text).toContain('[redacted]');
    }
  });
});

it('what is no secret stays as it is', () => {
  const mask = createMask(known);
  for (const text of [
    '/dashboard/api-keys/019b8d9a-6400-7000-8000-000000000041/rotate',
    '{"prefix":"org_live_a1B","name":"trading_orders_org_id_idempotency_key_unique"}',
    'insert into "usage_events" ("org_id") values ($1)',
    '/dashboard?period=2026-11&done=joined',
    'file:///app/dist/src/trading/settlement/queries.js:12:3',
    '"port":12345678',
  ])
    expect(mask(text)).toBe(text);
});

it('a line of many characters takes no time that grows faster than it', async () => {
  const mask = createMask(known);
  const hostile = [
    'org_live_',
    'Aa0-',
    'gauge_x',
    '?key',
    'a://b:',
    'bearer ',
    '-----BEGIN PRIVATE KEY-----',
  ];
  for (const part of hostile) {
    const text = part.repeat(40_000 / part.length);
    expect(await cpuMsOf(() => mask(text)), part).toBeLessThan(500);
  }
});

describe('a failed statement', () => {
  let database: TestDatabase;
  beforeAll(async () => void (database = await createTestDatabase()));
  afterAll(() => database.remove());

  it.each<[string, (secret: string) => Promise<unknown>]>([
    [
      'of a duplicate',
      async (value) => {
        const user = { email: value, name: value, passwordHash: value, createdAt: new Date() };
        const id = () => `019b8d9a-6400-7000-8000-${randomBytes(6).toString('hex')}`;
        await database.db.orm.insert(users).values({ id: id(), ...user });
        await database.db.orm.insert(users).values({ id: id(), ...user });
      },
    ],
    [
      'of a value that does not fit',
      (value) =>
        database.db.orm
          .execute(`select '${value}'::uuid`)
          .catch((error: unknown) => Promise.reject((error as Error).cause as Error)),
    ],
    [
      'of a check',
      (value) => database.db.run({ name: `test_${value.length}`, text: `select $1::int` }, [value]),
    ],
  ])('%s is logged without its values', async (_name, fail) => {
    const value = `person-${randomBytes(6).toString('hex')}@example.com`;
    const error = await fail(value).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    const text = logged(() => log.error({ err: error }, 'failed'));
    expect(text).not.toContain(value);
    expect(text).toMatch(/"code":"(23505|22P02)"/);
  });

  it('for want of a database is logged without a stack', () => {
    const error = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    expect(JSON.parse(logged(() => log.error({ err: error }, 'x'))).err).toEqual({
      type: 'Error',
      message: 'connect ECONNREFUSED',
      code: 'ECONNREFUSED',
    });
  });
});

describe('the line of a request', () => {
  let database: TestDatabase;
  let service: TestService;
  const seen: Record<string, unknown>[] = [];
  beforeAll(async () => {
    database = await createTestDatabase();
    const sink = { write: (line: string) => void seen.push(JSON.parse(line) as Record<string, unknown>) };
    service = await startTestService(database.db, {
      context: { accessLog: createAccessLog('debug', sink, known), log: pino({ level: 'silent' }) },
    });
  });
  afterAll(async () => {
    await service.stop();
    await database.remove();
  });
  async function lineOf(request: () => Promise<unknown>): Promise<Record<string, unknown>> {
    seen.length = 0;
    await request();
    await until(() => seen.length > 0);
    return seen[0]!;
  }

  it('says which key of which Organization called', async () => {
    const { organization, product, key } = await createTenant(database.db);
    const line = await lineOf(() => sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a')]));
    expect(line).toMatchObject({ status: 202, orgId: organization.id, keyId: key.id });
    expect(line).not.toHaveProperty('userId');
  });

  it('says which person of which Organization called', async () => {
    const { organization, user, browser } = await signedIn(database.db, service.url);
    const line = await lineOf(() => browser.get('/dashboard', { accept: 'text/html' }));
    expect(line).toMatchObject({ status: 200, orgId: organization.id, userId: user.id });
    expect(line).not.toHaveProperty('keyId');
  });

  it('names no caller where none is known', async () => {
    const strangers = [
      () => new Browser(service.url).get('/healthz'),
      () => sendUsage(service.url, generateSecret(true), []),
    ];
    for (const stranger of strangers) {
      const line = await lineOf(stranger);
      for (const id of ['orgId', 'keyId', 'userId']) expect(line).not.toHaveProperty(id);
    }
  });

  it('shows no secret of a path, however it is encoded, and takes none as a request id', async () => {
    const secret = generateSecret(true);
    const encoded = Buffer.from(secret).toString('hex').replace(/../g, '%$&');
    for (const path of [secret, secret.replace('_', '%5F'), encoded, `${secret}?token=${secret}`]) {
      const line = await lineOf(() => fetch(`${service.url}/api/entitlements/${path}`));
      expect(JSON.stringify(line)).not.toContain(secret.slice(12));
      expect(JSON.stringify(line)).not.toContain(encoded.slice(-30));
      expect(line.path).toContain('[redacted]');
    }
    const line = await lineOf(() => fetch(`${service.url}/healthz`, { headers: { 'x-request-id': secret } }));
    expect(line.requestId).toMatch(/^[0-9a-f-]{36}$/);
  });
});
