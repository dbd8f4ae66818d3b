import { createServer, type Server } from 'node:http';
import { createTransport } from 'nodemailer';
import { getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { createSender } from '../../../src/accounts/webhooks/send.js';
import { describeProxy, findProxy, proxyAgent, useProxies } from '../../../src/core/http/proxy.js';

/** A proxy that answers requests itself and refuses tunnels. */
let proxy: Server;
let seen: string[] = [];
const direct = getGlobalDispatcher();
beforeAll(async () => {
  proxy = createServer((req, res) => {
    seen.push(`${req.method} ${req.url}`);
    res.end('from the proxy');
  });
  proxy.on('connect', ({ url }, socket) => {
    seen.push(`CONNECT ${url}`);
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
});
afterAll(() => proxy.close());
beforeEach(async () => {
  seen = [];
  const url = `http://127.0.0.1:${(proxy.address() as { port: number }).port}`;
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']) vi.stubEnv(name, url);
  vi.stubEnv('no_proxy', '');
  vi.stubEnv('NO_PROXY', 'inside.invalid');
  await useProxies();
});
afterEach(() => {
  vi.unstubAllEnvs();
  setGlobalDispatcher(direct);
});

it('requests go through the proxy, but not those to this machine and to the hosts of NO_PROXY', async () => {
  expect(await (await fetch('http://gauge.invalid/a')).text()).toBe('from the proxy');
  await expect(fetch('https://gauge.invalid/b')).rejects.toThrow();
  await expect(fetch('http://inside.invalid/c')).rejects.toThrow();
  await expect(fetch('http://127.0.0.1:1/d')).rejects.toThrow();
  expect(seen).toEqual(['GET http://gauge.invalid/a', 'CONNECT gauge.invalid:443']);
});

it('so do the stream of the venue, and mail', async () => {
  const socket = new WebSocket('wss://venue.invalid/ws', { agent: proxyAgent('wss://venue.invalid/ws') });
  await new Promise((resolve) => socket.once('error', resolve));
  const mail = createTransport({
    host: 'mail.invalid',
    port: 465,
    proxy: findProxy('smtps://mail.invalid')!,
  });
  await expect(mail.verify()).rejects.toThrow();
  expect(findProxy('smtps://inside.invalid')).toBeUndefined();
  expect(seen).toEqual(['CONNECT venue.invalid:443', 'CONNECT mail.invalid:465']);
});

it('webhooks do only if a setting says so, and never to private addresses', async () => {
  const rules = { production: true, allowsPrivate: false };
  const post = { body: '{}', headers: {} };
  for (const usesProxy of [false, true]) {
    const sender = createSender(rules, usesProxy);
    const answer = await sender.send({ ...post, url: 'https://hooks.invalid/a' });
    // The proxy's own refusal.
    expect(answer.statusCode).toBe(usesProxy ? 403 : null);
    const inside = await sender.send({ ...post, url: 'https://10.0.0.7/a' });
    expect(inside.error).toContain('private');
    sender.close();
    expect(seen).toEqual(usesProxy ? ['CONNECT hooks.invalid:443'] : []);
  }
});

it('messages name the proxy without its password', () => {
  vi.stubEnv('https_proxy', 'http://ada:s3cret@proxy.invalid:3128');
  expect(describeProxy('https://gauge.invalid')).toBe(' through the proxy proxy.invalid:3128');
  expect(describeProxy('https://inside.invalid')).toBe('');
  expect(describeProxy('http://127.0.0.1:3000')).toBe('');
});

it.each([
  ['gauge.invalid', true],
  ['GAUGE.invalid', true],
  ['x, gauge.invalid', true],
  ['.invalid', true],
  ['invalid', true],
  ['.gauge.invalid', true],
  ['auge.invalid', false],
  ['*.invalid', true],
  ['*', true],
  ['gauge.invalid:443', true],
  ['gauge.invalid:8443', false],
  ['other.invalid', false],
])('NO_PROXY=%s: a request to gauge.invalid is direct: %s', async (names, isDirect) => {
  vi.stubEnv('no_proxy', names);
  await useProxies();
  await expect(fetch('https://gauge.invalid/')).rejects.toThrow();
  expect(findProxy('wss://gauge.invalid') === undefined).toBe(isDirect);
  expect(seen).toEqual(isDirect ? [] : ['CONNECT gauge.invalid:443']);
});

it.each([
  ['HTTP_PROXY alone', { http_proxy: true }, ['CONNECT gauge.invalid:443', 'GET http://gauge.invalid/']],
  ['HTTPS_PROXY alone', { https_proxy: true }, ['CONNECT gauge.invalid:443']],
  ['ALL_PROXY', { ALL_PROXY: true }, []],
  ['no scheme', { https_proxy: 'bare' }, ['CONNECT gauge.invalid:443']],
])('with %s, fetch and the other connections choose the same way', async (_name, given, expected) => {
  const url = process.env.http_proxy!;
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']) vi.stubEnv(name, '');
  for (const [name, how] of Object.entries(given))
    vi.stubEnv(name, how === 'bare' ? url.replace('http://', '') : url);
  setGlobalDispatcher(direct);
  await useProxies();
  for (const scheme of ['https', 'http']) await fetch(`${scheme}://gauge.invalid/`).catch(() => undefined);
  expect(seen).toEqual(expected);
  const isProxied = expected.length > 0;
  expect(findProxy('wss://gauge.invalid')).toBe(isProxied ? url : undefined);
  expect(describeProxy('https://gauge.invalid') !== '').toBe(isProxied);
});

it('a proxy that cannot be read is named in a sentence', async () => {
  for (const value of ['socks5://proxy.invalid:1080', 'http://a b', 'http://ada:100%@proxy.invalid']) {
    vi.stubEnv('https_proxy', value);
    await expect(useProxies()).rejects.toThrow(/^The configuration has a problem:\n {2}- HTTPS_PROXY: must /);
  }
});
