import { execFileSync } from 'node:child_process';
import dns from 'node:dns';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Server as NetServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { pino } from 'pino';
import { getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { byService, change } from '../../src/accounts/audit/audit.js';
import { queueMail } from '../../src/accounts/mail/outbox.js';
import { createMailSender } from '../../src/accounts/mail/sender.js';
import { mails } from '../../src/accounts/mail/table.js';
import { createSender } from '../../src/accounts/webhooks/send.js';
import { useProxies } from '../../src/core/http/proxy.js';
import { readVenueKey } from '../../src/markets/live/sign.js';
import { createSources } from '../../src/markets/services/sources.js';
import { createVenueBudget } from '../../src/markets/venue/venue-budget.js';
import { createStripeClient } from '../../src/metering/stripe/client.js';
import { startFakeVenue, wireMarket, type FakeVenue } from '../markets/support/fake-venue.js';
import { startFakeWeather, type FakeWeather } from '../markets/support/forecast-fake-weather.js';
import { keyFile, removeKeys } from '../markets/support/live-account.js';
import { startFakeStripe } from '../metering/support/fake-stripe.js';
import { Browser } from '../support/accounts.js';
import { TestIssuer } from '../support/issuer.js';
import { mailEnv, startMailServer, type MailServer } from '../support/mail.js';
import { startTestService } from '../support/service.js';
import { useDatabase } from '../support/use.js';
import { startReceiver } from '../support/webhooks.js';

const database = useDatabase();
const log = pino({ level: 'silent' });
const direct = getGlobalDispatcher();
const folder = mkdtempSync(join(tmpdir(), 'gauge-outgoing-'));
const opened: { close(): unknown }[] = [];
const sockets = new Set<Socket>();
let secure: { key: Buffer; cert: Buffer };
let proxy: Server;
let seen: string[] = [];

const portOf = (server: NetServer) => (server.address() as AddressInfo).port;
async function listen<T extends NetServer>(server: T): Promise<T> {
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => server.listen(0, resolve));
  opened.push(server);
  return server;
}

function joinSockets(a: Socket, b: Socket): void {
  for (const [from, to] of [
    [a, b],
    [b, a],
  ] as const)
    from
      .on('error', () => to.destroy())
      .on('close', () => to.destroy())
      .pipe(to);
}

/** The address of a server on this machine, by another name and over TLS. */
async function secureUrl(url: string, host: string): Promise<string> {
  const { port, pathname } = new URL(url);
  const front = createTlsServer(secure, (socket) => joinSockets(socket, connect(Number(port), '127.0.0.1')));
  return `https://${host}:${portOf(await listen(front))}${pathname === '/' ? '' : pathname}`;
}

/** Forwards to this machine, whatever the name. */
async function startProxy(): Promise<Server> {
  const server = createServer();
  server.on('connect', ({ url }, socket) => {
    seen.push(url!);
    const target = connect(Number(url!.split(':').at(-1)), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      joinSockets(socket as Socket, target);
    });
    target.on('error', () => socket.destroy());
  });
  return listen(server);
}

let upstream: { venue: FakeVenue; weather: FakeWeather; mail: MailServer };
beforeAll(async () => {
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  const asked = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test';
  execFileSync('openssl', [...asked.split(' '), '-keyout', key, '-out', certificate], { stdio: 'ignore' });
  secure = { key: readFileSync(key), cert: readFileSync(certificate) };
  proxy = await startProxy();
  upstream = {
    venue: await startFakeVenue(),
    weather: await startFakeWeather(),
    mail: await startMailServer(),
  };
});
afterAll(async () => {
  for (const server of opened) server.close();
  for (const socket of sockets) socket.destroy();
  await Promise.all(Object.values(upstream).map((one) => one.stop()));
  removeKeys();
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(() => {
  seen = [];
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
  const { lookup } = dns;
  vi.spyOn(dns, 'lookup').mockImplementation(((host: string, ...rest: [never, never]) =>
    lookup(/^mail$|\.invalid$/.test(host) ? '127.0.0.1' : host, ...rest)) as never);
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  setGlobalDispatcher(direct);
});

/** @param noProxy hosts that the proxy must not see */
async function use(noProxy: string): Promise<void> {
  for (const name of ['http_proxy', 'https_proxy']) vi.stubEnv(name, `http://127.0.0.1:${portOf(proxy)}`);
  vi.stubEnv('no_proxy', noProxy);
  await useProxies();
}

async function signIn(): Promise<void> {
  const issuer = await new TestIssuer().start();
  const url = await secureUrl(issuer.url, 'issuer.invalid');
  Object.defineProperty(issuer, 'url', { value: url });
  const service = await startTestService(database.db, { env: issuer.env() });
  const { status } = await new Browser(service.url).get('/login/single-sign-on');
  await Promise.all([service.stop(), issuer.stop()]);
  expect(status).toBe(303);
}

async function askStripe(): Promise<void> {
  const fake = await startFakeStripe(() => Date.now() / 1000);
  fake.customers.set('cus_1', { deleted: false });
  fake.meters.set('requests', {});
  const stripe = createStripeClient('sk_test_fake00000', await secureUrl(fake.url, 'stripe.invalid'));
  const problem = await stripe.check({ customerId: 'cus_1', eventName: 'requests' });
  await fake.stop();
  expect(problem).toBeUndefined();
}

async function readSources(what: 'weather' | 'markets'): Promise<void> {
  const { venue, weather } = upstream;
  const close = { close_time: '2026-07-05T05:00:00Z' };
  venue.markets = [wireMarket('KXHIGHNY-26JUL04', { floor: 80, cap: 81 }, close)];
  const streamed = venue.stream.handshakes.length;
  const venueUrl = what === 'markets' ? await secureUrl(venue.url, 'venue.invalid') : venue.url;
  const weatherUrl = what === 'weather' ? await secureUrl(weather.url, 'weather.invalid') : weather.url;
  const service = await startTestService(database.db, {
    env: {
      MARKET_SOURCE: 'kalshi',
      KALSHI_BASE_URL: venueUrl,
      KALSHI_WS_URL: venueUrl.replace(/^http(.*)\/v2$/, 'ws$1/ws/v2'),
      KALSHI_SERIES: 'KXHIGHNY',
      KALSHI_KEY_ID: 'member-key',
      KALSHI_PRIVATE_KEY_FILE: keyFile('member'),
      OPEN_METEO_BASE_URL: weatherUrl,
      OPEN_METEO_HISTORY_BASE_URL: weatherUrl,
      OPEN_METEO_API_KEY: 'abcDEF123456',
      NWS_BASE_URL: weatherUrl,
      MESONET_BASE_URL: weatherUrl,
    },
  });
  const { config, metrics } = service.context;
  const sources = createSources({
    config: config.trading,
    key: readVenueKey(config.trading.kalshi, log),
    budget: createVenueBudget(),
    stream: { metrics },
    clock: { now: () => Date.parse('2026-07-04T15:00:00Z') },
    log,
  });
  const { signal } = new AbortController();
  try {
    if (what === 'weather') {
      const before = weather.requests.length;
      await sources.weather.read(signal).catch(() => undefined);
      expect(weather.requests.length).toBeGreaterThan(before);
    } else {
      expect((await sources.markets.read(signal)).markets).toHaveLength(1);
      await vi.waitUntil(() => venue.stream.handshakes.length > streamed, { timeout: 600_000 });
    }
  } finally {
    sources.markets.changes?.stop();
    await service.stop();
  }
}

async function sendMail(SMTP_URL: string): Promise<void> {
  const env = { ...mailEnv(upstream.mail.port), SMTP_URL };
  const service = await startTestService(database.db, { env });
  const { config } = service.context;
  await change(service.context, byService, (tx) =>
    queueMail(tx, config.mail, {
      kind: 'account_notice',
      to: 'person@example.com',
      subject: 'Hello',
      text: () => ['First.'],
      at: new Date(service.clock.now()),
    }),
  );
  await createMailSender(service.context)();
  await service.stop();
}

async function sendWebhook(usesProxy: boolean): Promise<void> {
  const receiver = await startReceiver();
  const url = await secureUrl(receiver.url, '127.0.0.2');
  const sender = createSender({ production: false, allowsPrivate: false }, usesProxy);
  const answer = await sender.send({ url, body: '{}', headers: {} });
  sender.close();
  await receiver.stop();
  expect(answer).toMatchObject({ statusCode: 204, error: null });
  expect(receiver.received).toHaveLength(1);
}

describe('through a proxy that forwards, and around it for the hosts of NO_PROXY, go', () => {
  it.each([
    ['sign-in at an issuer', 'issuer.invalid', signIn],
    ['Stripe', 'stripe.invalid', askStripe],
    ['weather', 'weather.invalid', () => readSources('weather')],
    ['the venue and its stream', 'venue.invalid', () => readSources('markets')],
    [
      'mail',
      'mail',
      async () => {
        const before = upstream.mail.received.length;
        await sendMail(`smtp://mail:${upstream.mail.port}`);
        expect(upstream.mail.received).toHaveLength(before + 1);
      },
    ],
    ['webhooks with WEBHOOK_PROXY', '127.0.0.2', () => sendWebhook(true)],
  ])('%s', async (_name, host, work) => {
    await use('');
    await work();
    expect(new Set(seen.map((asked) => asked.replace(/:\d+$/, '')))).toEqual(new Set([host]));
    seen = [];
    await use(host);
    await work();
    expect(seen).toEqual([]);
  });
});

it('webhooks go around the proxy without WEBHOOK_PROXY', async () => {
  await use('');
  await sendWebhook(false);
  expect(seen).toEqual([]);
});

it.each([
  ['smtps://mail.invalid', 'mail.invalid:465'],
  ['smtp://mail.invalid', 'mail.invalid:587'],
])('mail to %s uses the usual port, by which NO_PROXY may name it', async (url, address) => {
  await use('mail.invalid:25');
  await sendMail(url);
  expect(seen).toEqual([address]);
  await use(address);
  await database.db.orm.delete(mails);
  await sendMail(url);
  expect(seen).toEqual([address]);
});
