import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { useService } from '../support/use.js';

const { service } = useService();

function exchange(
  text: string,
  socket: Socket = connect(Number(new URL(service.url).port)),
): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString()));
    socket.on('end', () => resolve(answer));
    socket.on('error', reject);
    socket.write(text);
  });
}

interface RawAnswer {
  status: number;
  headers: string;
  problem: Record<string, unknown>;
}

async function refusal(text: string): Promise<RawAnswer> {
  const [headers = '', body = ''] = (await exchange(text)).split('\r\n\r\n');
  const status = Number(headers.split(' ')[1]);
  return { status, headers, problem: JSON.parse(body) as Record<string, unknown> };
}

describe('a refusal before the app sees the request', () => {
  it.each([
    [
      'oversized headers',
      `GET /healthz HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
      431,
      'headers_too_large',
    ],
    ['an unknown method', 'GRAB /healthz HTTP/1.1\r\nHost: a\r\n\r\n', 400, 'invalid_request'],
    ['text that is not HTTP', 'good morning\r\n\r\n', 400, 'invalid_request'],
    ['a missing Host', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 400, 'invalid_request'],
    ['a tunnel', 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n', 400, 'invalid_request'],
    [
      'two body lengths',
      'POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
      400,
      'invalid_request',
    ],
    [
      'an invalid chunk',
      'POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n',
      400,
      'invalid_request',
    ],
    [
      'long chunk extensions',
      `POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(20_000)}\r\n`,
      413,
      'body_too_large',
    ],
  ])('of %s is a problem document', async (_what, text, status, code) => {
    const answer = await refusal(text);
    expect(answer.problem).toMatchObject({ type: `/docs/errors#${code}`, status, code });
    expect(answer.status).toBe(status);
    expect(answer.headers).toMatch(/^content-type: application\/problem\+json/im);
    expect(answer.headers).toContain(`X-Request-Id: ${String(answer.problem.requestId)}`);
  });

  it('does not replace the answer to an earlier request', async () => {
    const answer = await exchange('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nnonsense\r\n\r\n').catch(() => '');
    expect(answer).not.toMatch(/^HTTP\/1\.1 400/m);
  });

  it('does not follow from an unknown expectation', async () => {
    const text = 'GET /healthz HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\nConnection: close\r\n\r\n';
    expect(await exchange(text)).toMatch(/^HTTP\/1.1 200 /);
  });
});

describe('an address that cannot be decoded', () => {
  const paths = [
    '/api/entitlements/%00',
    '/api/entitlements?cursor=%00',
    '/api/entitlements/%ED%A0%80',
    '/api/entitlements?cursor=%ED%BF%BF',
    '/forecast/%00',
    '/markets?station=%00',
    '/trades?cursor=%00',
    '/dashboard/api-keys/%00',
    '/dashboard/usage?event=%00',
    '/dashboard/usage?event=%ED%A0%80',
    '/operator/products/%00',
    '/operator/products?cursor=%ED%A0%80',
    '/login?next=%00',
    '/docs/assets/0/%00',
    '/%FF',
    '/nothing?%zz',
    '/healthz?a=%',
  ];
  it.each(paths)('%s is 400', async (path) => {
    const response = await fetch(service.url + path, { headers: { accept: 'application/json' } });
    expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([
      400,
      'invalid_request',
    ]);
  });

  it('does not include other control characters or characters of any plane, which are only unknown', async () => {
    expect((await fetch(`${service.url}/forecast/%01%F0%9F%92%A5`)).status).toBe(404);
  });
});
