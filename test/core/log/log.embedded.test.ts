import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { DrizzleQueryError } from 'drizzle-orm';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import { generateRecoveryCodes } from '../../../src/accounts/identity/second-factor/codes.js';
import { generateSecret as generateAppSecret } from '../../../src/accounts/identity/second-factor/totp.js';
import { generateToken } from '../../../src/accounts/identity/session/session-cookie.js';
import { createLogger, createPlainLog } from '../../../src/core/log/log.js';
import { createMask, secretsIn } from '../../../src/core/log/log-mask.js';
import { generateInvitationToken } from '../../../src/accounts/identity/members/invitations.js';
import { generateWebhookSecret } from '../../../src/accounts/webhooks/endpoints.js';
import { users } from '../../../src/accounts/organizations/table.js';
import { Browser, signedIn } from '../../support/accounts.js';
import { cpuMsOf } from '../../support/cpu.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { operatorToken } from '../../support/operator.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createTenant, sendUsage, usageEvent } from '../../metering/support/usage.js';
import { until } from '../../support/until.js';

const orgId = '019b8d9a-6400-7000-8000-000000000041';
const namedToken = 'token-of-billing-0123456789-abcdef';
const env = {
  OPERATOR_TOKEN: operatorToken,
  OPERATOR_TOKENS: `billing:${namedToken}`,
  METRICS_TOKEN: 'metrics-token-of-the-tests-0123456789',
  SESSION_KEYS: 'first "quoted" session key,second-session-key',
  SECRET_KEYS: 'a key that encrypts secrets',
  REDIS_URL: 'rediss://gauge:redis-password@redis.example.com:6379',
  SMTP_URL: 'smtps://gauge:mail-password@mail.example.com',
  MAIL_FROM: 'gauge@example.com',
  PUBLIC_URL: 'https://gauge.example.com',
  DATABASE_URL: 'postgres://gauge:p%40ssword-of-db@db.example.com/gauge',
  AUDIT_EXPORT: 'https://gauge:export-password@heads.example.com/heads.json',
  // A setting for another program.
  PROXY_URL: 'http://proxy:100%sure@proxy.example.com',
};
const known = secretsIn({ ...env, PORT: '12345678' });

const secrets: Record<string, () => string> = {
  'an API key': () => generateSecret(true),
  'a test API key': () => generateSecret(false),
  'a service key': () => generateSecret(true, 'service'),
  'a test service key': () => generateSecret(false, 'service'),
  'a webhook secret': generateWebhookSecret,
  'a session token': generateToken,
  'the value of a session cookie': () =>
    Buffer.from(JSON.stringify({ sid: generateToken() })).toString('base64'),
  'the token of a set-up or reset link': generateToken,
  'an invitation token': () => generateInvitationToken(orgId).token,
  'the secret of an authenticator app': generateAppSecret,
  'a recovery code': () => generateRecoveryCodes()[0]!,
  'the private key of the venue': () =>
    generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString().trim(),
  'the operator token': () => operatorToken,
  'a named operator token': () => namedToken,
  'the metrics token': () => env.METRICS_TOKEN,
  'a session key': () => 'second-session-key',
  'a session key with spaces': () => 'first "quoted" session key',
  'an encryption key': () => env.SECRET_KEYS,
  'a configured password': () => 'p@ssword-of-db',
  'the password of Redis': () => 'redis-password',
  'the password of the mail server': () => 'mail-password',
  'the password of the audit export': () => 'export-password',
  'a password that is not encoded': () => '100%sure',
};

/** Returns up to `count` distinct values, or only one if `make` always returns the same configured secret. */
const valuesOf = (make: () => string, count: number): Set<string> =>
  new Set(Array.from({ length: count }, make));

const encodeFully = (text: string): string => Buffer.from(text).toString('hex').replace(/../g, '%$&');

/**
 * Returns every eight-character part of a secret after its first sixteen characters, which may be logged because they
 * only identify the kind of secret. Returns a short secret whole.
 */
const partsOf = (secret: string): string[] =>
  secret.length < 32
    ? [secret]
    : Array.from({ length: secret.length - 23 }, (_, i) => secret.slice(i + 16, i + 24));

/** Expects that a text contains no part of the secret, in any encoding in which it may have been sent. */
function expectNoTrace(secret: string, text: string): void {
  const forms = [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    encodeFully(secret),
  ];
  expect(
    forms.flatMap(partsOf).filter((part) => text.includes(part)),
    text,
  ).toEqual([]);
}

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
    for (const secret of valuesOf(make, 50)) {
      const text = logged(() => log.error(place(secret) as object, `with ${secret} in the message`));
      expectNoTrace(secret, text);
      expect(text).toContain('[redacted]');
    }
  });
});

it('other text stays unchanged', () => {
  const mask = createMask(known);
  for (const text of [
    '/dashboard/api-keys/019b8d9a-6400-7000-8000-000000000041/rotate',
    '{"prefix":"org_live_a1B","name":"trading_orders_org_id_idempotency_key_unique"}',
    'insert into "usage_events" ("org_id") values ($1)',
    '/dashboard?period=2026-11&done=joined',
    'file:///app/dist/src/markets/settlement/queries.js:12:3',
    '"port":12345678',
  ])
    expect(mask(text)).toBe(text);
});

it('a hostile line takes about as long as any other of its length', async () => {
  const mask = createMask(known);
  const hostile = [
    'org_live_',
    'Aa0-',
    'gauge_x',
    '?key',
    'a://b:',
    'bearer ',
    'whsec_',
    'eyJzaWQiOi',
    'A2',
    '-----BEGIN ',
    '-----BEGIN PRIVATE KEY-----',
  ];
  const ordinaryMs = await cpuMsOf(() => mask('a word '.repeat(6_000)));
  for (const part of hostile) {
    const text = part.repeat(40_000 / part.length);
    // If the time were quadratic in the length, it would be a thousand times as long.
    expect(await cpuMsOf(() => mask(text)), part).toBeLessThan(100 * ordinaryMs);
  }
});

describe('a failed statement', () => {
  let database: TestDatabase;
  beforeAll(async () => void (database = await createTestDatabase()));
  afterAll(() => database.remove());

  it.each<[string, (secret: string) => Promise<unknown>]>([
    [
      'with a duplicate',
      async (value) => {
        const user = { email: value, name: value, passwordHash: value, createdAt: new Date() };
        const id = () => `019b8d9a-6400-7000-8000-${randomBytes(6).toString('hex')}`;
        await database.db.orm.insert(users).values({ id: id(), ...user });
        await database.db.orm.insert(users).values({ id: id(), ...user });
      },
    ],
    [
      'with a value that does not fit its type',
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

  it('caused by a database outage is logged without a stack', () => {
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
      context: { accessLog: createPlainLog('debug', sink), log: pino({ level: 'silent' }) },
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

  it('names the key and the Organization that called', async () => {
    const { organization, product, key } = await createTenant(database.db);
    const line = await lineOf(() => sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a')]));
    expect(line).toMatchObject({ status: 202, orgId: organization.id, keyId: key.id });
    expect(line).not.toHaveProperty('userId');
  });

  it('names the person and the Organization that called', async () => {
    const { organization, user, browser } = await signedIn(database.db, service.url);
    const line = await lineOf(() => browser.get('/dashboard', { accept: 'text/html' }));
    expect(line).toMatchObject({ status: 200, orgId: organization.id, userId: user.id });
    expect(line).not.toHaveProperty('keyId');
  });

  it('names no caller if none is known', async () => {
    const strangers = [
      () => new Browser(service.url).get('/healthz'),
      () => sendUsage(service.url, generateSecret(true), []),
    ];
    for (const stranger of strangers) {
      const line = await lineOf(stranger);
      for (const id of ['orgId', 'keyId', 'userId']) expect(line).not.toHaveProperty(id);
    }
  });

  it('hides a secret that begins in the middle of a path, and one beside invalid UTF-8', async () => {
    const secret = generateSecret(true);
    for (const path of [
      secret.replace('_', '%5F'),
      `${secret}?token=${secret}`,
      `%ff/${encodeFully(secret)}`,
    ]) {
      const line = await lineOf(() => fetch(`${service.url}/api/entitlements/${path}`));
      expectNoTrace(secret, JSON.stringify(line));
      expect(line.path).toContain('[redacted]');
    }
  });
});

describe('input of a caller', () => {
  let database: TestDatabase;
  let service: TestService;
  let text = '';
  beforeAll(async () => {
    database = await createTestDatabase();
    const sink = { write: (line: string) => void (text += line) };
    service = await startTestService(database.db, {
      // The log must also be clean behind a trusted proxy, whose headers may contain anything.
      env: { ...env, TRUST_PROXY: '1' },
      context: { accessLog: createPlainLog('trace', sink), log: createLogger('trace', sink, known) },
    });
  });
  afterAll(async () => {
    await service.stop();
    await database.remove();
  });

  it.each(Object.entries(secrets))(
    'with %s leaves it in no line of a request, wherever it occurs',
    async (_name, make) => {
      for (const secret of valuesOf(make, 3)) {
        const header = secret.replaceAll('\n', '\\n');
        const paths = [
          `/${secret}`,
          `/dashboard/${encodeURIComponent(secret)}`,
          `/api/usage/events/${encodeFully(secret)}`,
        ];
        const requests: [path: string, headers?: Record<string, string>][] = [
          ...paths.map((path): [string] => [path]),
          [`/?token=${encodeURIComponent(secret)}&cursor=${encodeFully(secret)}`],
          ['/healthz', { 'x-request-id': header }],
          ['/healthz', { 'x-forwarded-for': header }],
          ['/api/entitlements', { authorization: `Bearer ${header}` }],
          [
            '/dashboard',
            { accept: 'text/html', cookie: `gauge_session=${header}; __Host-gauge_session=${header}` },
          ],
          [
            '/operator/products',
            { referer: `http://a.test/${header}`, 'user-agent': header, 'idempotency-key': header },
          ],
        ];
        for (const [path, headers = {}] of requests) {
          text = '';
          const answer = await fetch(service.url + path, { headers, redirect: 'manual' });
          await answer.text();
          await until(() => text.includes('"msg":"request"'));
          expectNoTrace(secret, text);
          if (paths.includes(path)) expect(text).toContain('[redacted]');
          expectNoTrace(secret, String(answer.headers.get('x-request-id')));
        }
      }
    },
  );
});
