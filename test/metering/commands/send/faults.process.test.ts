import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createFolder, send } from './run-send.js';

// Some tests start processes, which is slow on a busy machine.

interface SentEvent {
  productSlug: string;
  idempotencyKey: string;
}

interface Request {
  at: number;
  headers: IncomingMessage['headers'];
  events: SentEvent[];
}

/**
 * A fault injected by the proxy between the command and the service; returns true if it has handled the request itself.
 */
type Fault = (res: ServerResponse, request: Request, count: number) => boolean;

const folder = createFolder();
let server: Server;
let env: { GAUGE_URL: string; GAUGE_API_KEY: string };
let requests: Request[];
let recorded: Map<string, SentEvent>;
let fault: Fault;
let lookUp: (res: ServerResponse, idempotencyKeys: string[]) => void;

beforeEach(async () => {
  requests = [];
  recorded = new Map();
  fault = () => false;
  lookUp = (res, idempotencyKeys) =>
    json(res, 200, {
      results: idempotencyKeys.map((key) => ({ idempotencyKey: key, recorded: recorded.has(key) })),
    });
  server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const { events, idempotencyKeys } = JSON.parse(Buffer.concat(chunks).toString()) as {
      events: SentEvent[];
      idempotencyKeys?: string[];
    };
    if (idempotencyKeys) return lookUp(res, idempotencyKeys);
    const request = { at: performance.now(), headers: req.headers, events };
    requests.push(request);
    if (!fault(res, request, requests.length)) answer(res, events);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  env = { GAUGE_URL: `http://127.0.0.1:${port}/`, GAUGE_API_KEY: 'org_live_key' };
});
afterEach(async () => {
  await new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });
});
afterAll(() => folder.remove());

function answer(res: ServerResponse, events: SentEvent[]): void {
  const before = recorded.size;
  for (const event of events) recorded.set(event.idempotencyKey, event);
  const accepted = recorded.size - before;
  json(res, 202, { accepted, deduped: events.length - accepted, warnings: [], rejected: [] });
}

function json(res: ServerResponse, status: number, body: unknown, headers = {}): true {
  res.writeHead(status, { 'content-type': 'application/json', ...headers });
  res.end(JSON.stringify(body));
  return true;
}

const problem = (res: ServerResponse, status: number, code: string, more: object = {}, headers = {}) =>
  json(
    res,
    status,
    { type: '', title: '', status, code, detail: `said ${code}`, requestId: 'r', ...more },
    headers,
  );

let files = 0;
function eventsFile(count: number): string {
  const file = folder.path(`events-${++files}.ndjson`);
  const event = (i: number) => ({ productSlug: 'p', metric: 'm', idempotencyKey: `key ${i}` });
  writeFileSync(file, Array.from({ length: count }, (_, i) => JSON.stringify(event(i))).join('\n'));
  return file;
}

it('asks for lenient handling, sends the key as a bearer token and keeps its connections open', async () => {
  const sockets = new Set<unknown>();
  server.on('connection', (socket) => sockets.add(socket));
  const run = await send([eventsFile(2000), '--batch', '100', '--concurrency', '2', '--json'], env);
  expect(run).toMatchObject({ code: 0, summary: { accepted: 2000, sent: 2000 } });
  expect(requests).toHaveLength(20);
  expect(requests[0]!.headers).toMatchObject({
    authorization: 'Bearer org_live_key',
    prefer: 'handling=lenient',
    'content-type': 'application/json',
  });
  expect(sockets.size).toBeLessThan(8);
});

it.each([429, 503])('all senders wait together as long as a %i asks', async (status) => {
  let refusedAt = 0;
  fault = (res, { at }, count) => {
    if (count !== 3) return false;
    refusedAt = at;
    return problem(res, status, 'slow down', {}, { 'retry-after': '1' });
  };
  const run = await send([eventsFile(1500), '--batch', '50', '--concurrency', '3', '--json'], env);
  expect(run).toMatchObject({ code: 0, summary: { accepted: 1500, deduped: 0 } });
  // Requests that were already in flight at the time of the refusal may still arrive.
  const late = requests.filter(({ at }) => at > refusedAt);
  expect(late.filter(({ at }) => at < refusedAt + 990).length).toBeLessThanOrEqual(3);
  expect(late.filter(({ at }) => at >= refusedAt + 990).length).toBeGreaterThan(20);
});

it('a lost connection, a lost answer and server errors are retried with the same keys', async () => {
  const faults: Fault[] = [
    (res) => Boolean(res.destroy()),
    (res, { events }) => {
      // The events are recorded, but the sender never gets the response.
      answer({ writeHead: () => undefined, end: () => undefined } as unknown as ServerResponse, events);
      return Boolean(res.destroy());
    },
    (res) => problem(res, 500, 'internal'),
    (res) => problem(res, 503, 'unavailable'),
    (res) => Boolean(res.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad gateway')),
    (res) => Boolean(res.writeHead(202, { 'content-length': '1000' }).end('{"accepted"').destroy()),
  ];
  fault = (res, request, count) => faults[count - 1]?.(res, request, count) ?? false;
  const run = await send([eventsFile(10), '--json', '--concurrency', '1'], env);
  expect(run).toMatchObject({ code: 0, summary: { accepted: 0, deduped: 10, rejected: 0 } });
  expect(requests).toHaveLength(7);
  for (const { events } of requests) expect(events).toEqual(requests[0]!.events);
});

it('gives up after --max-attempts; sent again, the file counts once', async () => {
  fault = (res, _request, count) => (count > 2 ? problem(res, 500, 'internal') : false);
  const args = [eventsFile(300), '--batch', '100', '--concurrency', '1', '--max-attempts', '3', '--json'];
  const stopped = await send(args, env);
  expect(stopped).toMatchObject({ code: 2, summary: { state: 'stopped', accepted: 200 } });
  expect(stopped.stderr).toMatch(/could not be reached in 3 attempts: 500 internal: said internal/);
  fault = () => false;
  expect(await send(args, env)).toMatchObject({ code: 0, summary: { deduped: 200, accepted: 100 } });
});

describe('a run that ends without an answer', () => {
  /** Sends 700 events in two batches at once. Only the first batch is recorded, and every response is dropped. */
  async function loseAnswers(args: string[] = ['--json']) {
    let first: ServerResponse | undefined;
    fault = (res, { events }) => {
      if (first) {
        first.destroy();
        return Boolean(res.destroy());
      }
      if (requests.length === 1)
        answer({ writeHead: () => undefined, end: () => undefined } as unknown as ServerResponse, events);
      first = res;
      return true;
    };
    return send(
      [eventsFile(700), '--concurrency', '2', '--batch', '350', '--max-attempts', '2', ...args],
      env,
    );
  }

  it('asks which events were recorded and reports it', async () => {
    const run = await loseAnswers();
    expect(run).toMatchObject({ code: 2, summary: { unanswered: { records: 700, recorded: 350 } } });
    const text = (await loseAnswers([])).stdout;
    expect(text).toContain(
      '700 records got no response. According to the service, 350 of them were recorded',
    );
  });

  it('reports nothing about them if the key may not ask', async () => {
    lookUp = (res) => problem(res, 403, 'insufficient_scope');
    expect((await loseAnswers()).summary).not.toHaveProperty('unanswered');
  });

  it('reports that it could not ask if the service is unavailable', async () => {
    lookUp = (res) => res.destroy();
    expect((await loseAnswers()).summary).toMatchObject({ unanswered: { records: 700, recorded: null } });
    expect((await loseAnswers([])).stdout).toContain('The service could not be queried');
  });
});

it('events that break the schema are removed, and the others are sent again', async () => {
  const file = eventsFile(10);
  fault = (res, { events }) => {
    const broken = events.flatMap(({ idempotencyKey }, index) =>
      /[37]$/.test(idempotencyKey) ? [index] : [],
    );
    const errors = broken.map((index) => ({
      index,
      pointer: `/events/${index}/metric`,
      code: 'invalid_request',
      detail: 'is bad',
    }));
    return errors.length > 0 && problem(res, 400, 'invalid_request', { errors });
  };
  const run = await send([file, '--json'], env);
  expect(run).toMatchObject({ code: 1, summary: { accepted: 8, rejected: 2 } });
  expect(requests.map(({ events }) => events.length)).toEqual([10, 8]);
  const lines = readFileSync(`${file}.rejected.ndjson`, 'utf8').trim().split('\n');
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { line: 4, code: 'invalid_request', detail: 'metric is bad', event: { idempotencyKey: 'key 3' } },
    { line: 8 },
  ]);
});

it('rules named in a strict answer refuse only their own events', async () => {
  fault = (res, { events }) =>
    events.length === 10 &&
    problem(res, 403, 'entitlement_required', {
      errors: [{ index: 2, pointer: '/events/2/productSlug', code: 'entitlement_required', detail: 'none' }],
    });
  const run = await send([eventsFile(10), '--json'], env);
  expect(run).toMatchObject({ code: 1, summary: { accepted: 9, rejected: 1 } });
});

it.each([413, 400])(
  'a batch refused as a whole with %i is halved until the bad event is isolated',
  async (status) => {
    const file = eventsFile(16);
    fault = (res, { events }) =>
      events.some(({ idempotencyKey }) => idempotencyKey === 'key 5') &&
      problem(res, status, status === 413 ? 'body_too_large' : 'invalid_request');
    const run = await send([file, '--json'], env);
    expect(run).toMatchObject({ code: 1, summary: { accepted: 15, rejected: 1 } });
    expect(JSON.parse(readFileSync(`${file}.rejected.ndjson`, 'utf8'))).toMatchObject({ line: 6 });
  },
);

it.each([
  ['an insufficient scope', 403, 'insufficient_scope', {}, /said insufficient_scope \(403/],
  ['an unknown address', 404, 'not_found', {}, /said not_found/],
  ['a redirect', 308, 'moved', { location: 'https://elsewhere.example' }, /moved.*elsewhere/],
])('%s stops the run at once', async (_name, status, code, headers, message) => {
  fault = (res) => problem(res, status, code, {}, headers);
  const run = await send([eventsFile(2000), '--json'], env);
  expect(run).toMatchObject({ code: 2, summary: { state: 'stopped', accepted: 0 } });
  expect(run.stderr).toMatch(message);
  expect(requests.length).toBeLessThanOrEqual(4);
});

it('does not send as the operator to an address that has moved', async () => {
  const headers = { 'content-length': 0, location: 'https://gauge.example/' };
  server.removeAllListeners('request');
  server.on('request', (_req, res) => res.writeHead(301, headers).end());
  const { code, stderr } = await send([eventsFile(1), '--quiet', '--organization', 'acme'], {
    GAUGE_URL: env.GAUGE_URL,
    OPERATOR_TOKEN: 'token',
  });
  expect([code, stderr]).toEqual([
    2,
    expect.stringContaining('moved. Set GAUGE_URL to the address of https://gauge.example/'),
  ]);
  expect(stderr.trim().split('\n')).toHaveLength(1);
});

it('an answer that does not account for all events is ignored', async () => {
  fault = (res) => json(res, 202, { ok: true });
  const run = await send([eventsFile(5), '--json'], env);
  expect(run).toMatchObject({ code: 2, summary: { accepted: 0, records: 0 } });
  expect(run.stderr).toMatch(/does not account for all events/);
});

it('retries the part of an Organization that cannot be recorded at the moment, and looks up each part at the end', async () => {
  const file = folder.path('parts.ndjson');
  const line = (organization: string) =>
    JSON.stringify({ organization, productSlug: 'p', metric: 'calls', idempotencyKey: organization });
  writeFileSync(file, ['a', 'slow', 'b'].map(line).join('\n'));
  const flags = ['--organization-column', 'organization', '--json'];
  const many = { ...env, GAUGE_API_KEY: 'service_live_key' };
  const errors = [{ pointer: '/events/0/organization', code: 'unavailable', detail: 'none' }];
  const part = { organization: 'slow', status: 503, code: 'unavailable', detail: 'none' };
  let until = 4;
  fault = (res, _request, count) => {
    if (count === 1)
      return json(res, 202, { accepted: 2, deduped: 0, warnings: [], rejected: [], refused: [part] });
    if (count < until) return problem(res, 503, 'unavailable', { errors: [{ index: 0, ...errors[0] }] });
    return false;
  };
  const run = await send([file, ...flags], many);
  expect(run).toMatchObject({ code: 0, summary: { accepted: 3, rejected: 0 } });
  expect(requests.map(({ events }) => events.map((one) => one.idempotencyKey).join())).toEqual([
    'a,slow,b',
    'slow',
    'slow',
    'slow',
  ]);
  requests = [];
  until = Infinity;
  recorded = new Map();
  const stopped = await send([file, ...flags, '--max-attempts', '2'], many);
  expect(stopped).toMatchObject({
    code: 2,
    summary: { state: 'stopped', unanswered: { records: 1, recorded: 0 } },
  });
});

it('sums up the refusals by reason', async () => {
  const file = eventsFile(7);
  writeFileSync(file, `${readFileSync(file, 'utf8')}\n{\n[\n`);
  fault = (res, { events }) =>
    json(res, 202, {
      accepted: events.length - 4,
      deduped: 0,
      warnings: [],
      rejected: events.slice(0, 4).map((_event, index) => ({
        index,
        code: index === 0 ? 'a' : 'b',
        detail: index === 0 ? 'The "first" reason.' : 'Another reason.',
      })),
    });
  const run = await send([file, '--json'], env);
  expect(run).toMatchObject({ code: 1, summary: { accepted: 3, rejected: 6 } });
  expect(run.summary.rejections).toEqual([
    { reason: 'Another reason.', records: 3 },
    { reason: 'The line is not valid JSON.', records: 2 },
    { reason: 'The "first" reason.', records: 1 },
  ]);
  expect((await send([file], env)).stdout).toMatch(
    /rejected +6\n    3 {2}Another reason\.\n    2 {2}The line is not valid JSON\.\n/,
  );
});

it('text from the service cannot control the terminal', async () => {
  fault = (res) => problem(res, 401, 'key_revoked', { detail: 'gone\u001b[2J\u0007' });
  expect((await send([eventsFile(1)], env)).stderr).toBe('send: gone [2J  (401 key_revoked)\n');
});

it('names a wrong address at the first refused connection and gives up soon, but only if nothing ever responded', async () => {
  const gone = { ...env, GAUGE_URL: 'http://127.0.0.1:9' };
  const run = await send([eventsFile(5)], gone, '', { silentMs: 300 });
  expect(run).toMatchObject({ code: 2 });
  const [first] = run.stderr.split('\n');
  expect(first).toMatch(/^Trying again in 0\.0 s: GAUGE_URL http:\/\/127\.0\.0\.1:9 cannot be reached: /);
  expect(run.stderr).toMatch(/cannot be reached: .* \(no response in 0 s\)\n$/);
  fault = (res, _request, count) => (count === 1 ? problem(res, 503, 'unavailable') : Boolean(res.destroy()));
  const late = await send([eventsFile(5), '--max-attempts', '12'], env, '', { silentMs: 0 });
  expect(late.stderr).toMatch(/could not be reached in 12 attempts/);
});

it('prints a progress line without a terminal, and nothing with --quiet', async () => {
  fault = (res, _request, count) => (count === 1 ? problem(res, 500, 'internal') : false);
  expect((await send([eventsFile(5)], env)).stderr).toMatch(/Trying again in 0\.0 s: 500 internal/);
  requests = [];
  expect((await send([eventsFile(5), '--quiet'], env)).stderr).toBe('');
});

it('reads a large file in bounded memory', async () => {
  const file = folder.path('large.ndjson');
  const line = (i: number) =>
    `{"productSlug":"p","metric":"m","idempotencyKey":"${i}","note":"${'x'.repeat(980)}"}`;
  for (let part = 0; part < 60; part++) {
    const lines = Array.from({ length: 1000 }, (_, i) => line(part * 1000 + i));
    writeFileSync(file, `${lines.join('\n')}\n`, { flag: 'a' });
  }
  // Node.js aborts a program that needs more.
  const run = await send([file, '--json'], { ...env, NODE_OPTIONS: '--max-old-space-size=48' });
  expect(run).toMatchObject({ code: 0, summary: { accepted: 60_000 } });
});
