import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { startTestService } from '../../support/service.js';
import { useService } from '../../support/use.js';

const logged: { ip?: string }[] = [];
const accessLog = pino({}, { write: (line) => void logged.push(JSON.parse(line) as { ip?: string }) });
const { database, service } = useService({ env: { TRUST_PROXY: '1' }, context: { accessLog } });

async function addressOf(forwarded: string, url = service.url): Promise<string | undefined> {
  logged.length = 0;
  await fetch(`${url}/nothing-here`, { headers: { 'x-forwarded-for': forwarded } }).then((answer) =>
    answer.text(),
  );
  await expect.poll(() => logged.length).toBe(1);
  return logged[0]!.ip;
}

describe("a caller's address", () => {
  it.each([
    ['203.0.113.77:5555', '203.0.113.77'],
    ['192.0.2.9, 203.0.113.77:5555', '203.0.113.77'],
    ['203.0.113.77', '203.0.113.77'],
    ['::ffff:203.0.113.77:5555', '::ffff:203.0.113.77'],
    ['[2001:db8::1]:5555', '2001:db8::1'],
    ['"[2001:db8::1]:5555"', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['2001:db8::1:5555', '2001:db8::1:5555'],
    ['unknown', 'unknown'],
  ])('has no port: %s', async (forwarded, address) => {
    expect(await addressOf(forwarded)).toBe(address);
  });

  it('is read past a trusted proxy whose address has a port', async () => {
    const env = { TRUST_PROXY: '127.0.0.1,10.0.0.0/8,fd00::/8' };
    const other = await startTestService(database.db, { env, context: { accessLog } });
    try {
      for (const proxy of ['10.1.2.3:4444', '[fd00::1]:4444', '10.1.2.3'])
        expect(await addressOf(`203.0.113.77:5555, ${proxy}`, other.url)).toBe('203.0.113.77');
    } finally {
      await other.stop();
    }
  });

  it.each([
    ['IPv4', (i: number) => `203.0.113.78:${1024 + i}`],
    ['IPv6', (i: number) => `[2001:db8:1::${i.toString(16)}]:${1024 + i}`],
  ])('is limited however many ports it uses: %s', async (_, from) => {
    const call = (i: number) =>
      fetch(`${service.url}/operator/products`, {
        headers: { authorization: 'Bearer wrong', 'x-forwarded-for': from(i) },
      });
    const statuses = [];
    for (let i = 0; i < 35; i++) statuses.push((await call(i)).status);
    expect(statuses).toEqual([...Array<number>(30).fill(401), ...Array<number>(5).fill(429)]);
  });
});

describe('an address of the service', () => {
  it.each(['/healthz', '/readyz', '/metrics', '/docs', '/login', '/openapi.json'])(
    'has one spelling: %s',
    async (path) => {
      const get = async (spelling: string) =>
        (await fetch(service.url + spelling, { redirect: 'manual', headers: { accept: 'text/html' } }))
          .status;
      expect(await get(path)).toBe(200);
      expect(await get(`${path}/`)).toBe(404);
      expect(await get(path.toUpperCase())).toBe(404);
      expect(await get(path[0]! + path[1]!.toUpperCase() + path.slice(2))).toBe(404);
    },
  );

  it.each(['/api/usage', '/operator/products', '/markets'])(
    'may have a slash at the end if programs call it: %s',
    async (path) => {
      const statusOf = async (spelling: string) => (await fetch(service.url + spelling)).status;
      expect(await statusOf(`${path}/`)).toBe(await statusOf(path));
      expect(await statusOf(path)).not.toBe(404);
      expect(await statusOf(path.toUpperCase())).toBe(404);
    },
  );
});

it.each(['Host: gauge.example', 'host: gauge.example', 'Host: other.example', 'Host:'])(
  'refuses a second Host header: %s',
  async (second) => {
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1');
    socket.end(`GET /docs HTTP/1.1\r\nHost: gauge.example\r\n${second}\r\nConnection: close\r\n\r\n`);
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain('Send only one Host header.');
  },
);
