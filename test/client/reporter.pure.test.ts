import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createGaugeClient, type Credential } from '../../src/client/client.js';
import {
  createUsageReporter,
  DirectoryInUseError,
  SpoolFullError,
  type RefusedEvent,
  type UsageReporter,
  type UsageReporterOptions,
} from '../../src/client/reporter.js';
import { until } from '../support/until.js';

interface SentEvent {
  organization?: string;
  productSlug: string;
  idempotencyKey: string;
  occurredAt: string;
}

/** A fault to inject into the stub service; returns true if it has handled the request itself. */
type Fault = (res: ServerResponse, events: SentEvent[], count: number) => boolean;

let server: Server;
let baseUrl: string;
let directory: string;
let fault: Fault;
let requests: { at: number; path: string; events: SentEvent[] }[];
let recorded: Map<string, SentEvent>;
let reporters: UsageReporter[];

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gauge-reporter-'));
  fault = () => false;
  requests = [];
  recorded = new Map();
  reporters = [];
  server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const { events } = JSON.parse(Buffer.concat(chunks).toString()) as { events: SentEvent[] };
    requests.push({ at: performance.now(), path: req.url!, events });
    if (fault(res, events, requests.length)) return;
    const rejected = events.flatMap(({ productSlug }, index) =>
      productSlug === 'unknown' ? [{ index, code: 'entitlement_required', detail: 'none' }] : [],
    );
    const good = events.filter(({ productSlug }) => productSlug !== 'unknown');
    const accepted = good.filter(({ idempotencyKey }) => !recorded.has(idempotencyKey)).length;
    for (const event of good) recorded.set(event.idempotencyKey, event);
    json(res, 202, { accepted, deduped: good.length - accepted, warnings: [], rejected });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  baseUrl = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
});
afterEach(async () => {
  await Promise.all(reporters.map((reporter) => reporter.close({ timeoutMs: 0 })));
  await new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });
  rmSync(directory, { recursive: true, force: true });
});

function json(res: ServerResponse, status: number, body: unknown, headers = {}): true {
  res.writeHead(status, { 'content-type': 'application/json', ...headers });
  res.end(JSON.stringify(body));
  return true;
}

const problem = (res: ServerResponse, status: number, code: string, headers = {}) =>
  json(res, status, { status, code, detail: `said ${code}`, requestId: 'r' }, headers);

const away: Fault = (res) => Boolean(res.destroy());

async function start(
  options: Partial<UsageReporterOptions> = {},
  credential: Credential = { apiKey: 'org_live_key' },
): Promise<UsageReporter> {
  const given = { baseUrl, directory, intervalMs: 5, ...options, ...credential };
  const reporter = await createUsageReporter(given as UsageReporterOptions);
  reporters.push(reporter);
  return reporter;
}

const event = (idempotencyKey?: string, productSlug = 'calls') => ({
  productSlug,
  metric: 'calls',
  ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
});

const files = () => readdirSync(directory).filter((name) => name.endsWith('.ndjson'));
const lines = (name: string) => readFileSync(join(directory, name), 'utf8').trim().split('\n');

it('an event is on disk once report() resolves, with a key and the time of the report', async () => {
  fault = away;
  const reporter = await start({ intervalMs: 60_000 });
  const before = Date.now();
  const reported = await reporter.report(event());
  expect(files()).toHaveLength(1);
  expect(JSON.parse(lines(files()[0]!)[0]!)).toEqual(reported);
  expect(reported.idempotencyKey).toMatch(/^[0-9a-f-]{36}$/);
  const at = Date.parse(reported.occurredAt!);
  expect(at >= before && at <= Date.now()).toBe(true);
  const own = await reporter.report({ ...event('mine'), quantity: 0, occurredAt: '2026-01-31T12:00:00Z' });
  expect(own).toEqual({ ...event('mine'), quantity: 0, occurredAt: '2026-01-31T12:00:00Z' });
});

it('sends everything in batches of at most 500 and leaves nothing behind', async () => {
  const reporter = await start();
  const keys = Array.from({ length: 2_345 }, (_, i) => `key ${i}`);
  await Promise.all(keys.map((key) => reporter.report(event(key))));
  expect(await reporter.flush()).toBe(true);
  expect([...recorded.keys()].toSorted()).toEqual(keys.toSorted());
  expect(Math.max(...requests.map(({ events }) => events.length))).toBeLessThanOrEqual(500);
  expect(requests.length).toBeLessThan(20);
  expect(reporter.bytes).toBe(0);
  expect(files()).toEqual([]);
});

it('keeps events across restarts while the service is away', async () => {
  fault = away;
  const first = await start();
  await first.report(event('a'));
  expect(await first.close({ timeoutMs: 50 })).toBe(false);
  await expect(first.report(event('late'))).rejects.toThrow('closed');
  const second = await start();
  await second.report(event('b'));
  expect(second.bytes).toBeGreaterThan(100);
  fault = () => false;
  expect(await second.flush()).toBe(true);
  expect([...recorded.keys()]).toEqual(['a', 'b']);
});

it('resends requests without an answer and honours Retry-After', async () => {
  const reasons: string[] = [];
  fault = (res, _events, count) => {
    if (count === 1) return away(res, [], count);
    if (count === 2) return problem(res, 500, 'internal');
    return count === 3 ? problem(res, 503, 'unavailable', { 'retry-after': '1' }) : false;
  };
  const reporter = await start({ onRetry: (reason) => reasons.push(reason) });
  await reporter.report(event('a'));
  expect(await reporter.flush()).toBe(true);
  expect(requests.map(({ events }) => events[0]!.idempotencyKey)).toEqual(['a', 'a', 'a', 'a']);
  expect(requests[3]!.at - requests[2]!.at).toBeGreaterThan(990);
  expect(reasons).toHaveLength(3);
  expect(reasons[1]).toContain('500 internal');
});

it('sets refused events aside, reports them and continues', async () => {
  const refused: RefusedEvent[] = [];
  fault = (res, events) => {
    const index = events.findIndex(({ idempotencyKey }) => idempotencyKey === 'broken');
    if (index < 0) return false;
    const errors = [{ index, pointer: `/events/${index}/metric`, code: 'invalid_request', detail: 'is bad' }];
    return json(res, 400, { code: 'invalid_request', detail: 'bad', errors });
  };
  const reporter = await start({ onRefused: (events) => refused.push(...events) });
  const sent = [event('a'), event('broken'), event('b', 'unknown'), event('c')];
  await Promise.all(sent.map((one) => reporter.report(one)));
  expect(await reporter.flush()).toBe(true);
  expect([...recorded.keys()]).toEqual(['a', 'c']);
  const expected = [
    { code: 'invalid_request', detail: 'metric is bad', event: { idempotencyKey: 'broken' } },
    { code: 'entitlement_required', detail: 'none', event: { idempotencyKey: 'b' } },
  ];
  expect(refused).toMatchObject(expected);
  expect(lines('refused.ndjson').map((line) => JSON.parse(line) as object)).toMatchObject(expected);
  expect(files()).toEqual(['refused.ndjson']);
});

it('waits for a person if the key is refused, and loses nothing', async () => {
  const reasons: string[] = [];
  fault = (res) => problem(res, 401, 'key_revoked');
  const refusals: string[] = [];
  const reporter = await start({
    onRetry: (reason) => reasons.push(reason),
    onKeyRefused: (reason) => refusals.push(reason),
  });
  await reporter.report(event('a'));
  await until(() => reasons.length > 1);
  expect(reasons[0]).toContain('401 key_revoked');
  expect(refusals).toEqual([reasons[0]]);
  expect(files()).toHaveLength(1);
  fault = () => false;
  expect(await reporter.flush()).toBe(true);
  expect([...recorded.keys()]).toEqual(['a']);
});

it('reports once that it is full, accepts nothing more, and accepts events again once there is space', async () => {
  const full: object[] = [];
  fault = away;
  const reporter = await start({ maxBytes: 1_000, onFull: (state) => full.push(state) });
  const reports = await Promise.allSettled(
    Array.from({ length: 50 }, (_, i) => reporter.report(event(`key ${i}`))),
  );
  const accepted = reports.filter(({ status }) => status === 'fulfilled').length;
  expect(accepted).toBeGreaterThan(5);
  expect(accepted).toBeLessThan(12);
  for (const report of reports)
    if (report.status === 'rejected') expect(report.reason).toBeInstanceOf(SpoolFullError);
  expect(full).toEqual([{ bytes: expect.any(Number) as number, maxBytes: 1_000 }]);
  expect(reporter.bytes).toBeLessThanOrEqual(1_000);
  fault = () => false;
  expect(await reporter.flush()).toBe(true);
  expect(recorded.size).toBe(accepted);
  await reporter.report(event('again'));
});

it('ignores a last line cut off by a crash, and sets aside lines damaged on disk', async () => {
  const line = (key: string) => JSON.stringify({ ...event(key), occurredAt: new Date().toISOString() });
  writeFileSync(
    join(directory, '000000000003.ndjson'),
    `${line('a')}\n${line('b')}\n${line('c').slice(0, 40)}`,
  );
  writeFileSync(join(directory, '000000000007.ndjson'), `{"productSlug":\u0000\u0000\n${line('d')}\n`);
  writeFileSync(join(directory, '000000000008.ndjson'), '');
  const refused: RefusedEvent[] = [];
  server.removeAllListeners('request');
  server.on('request', async (req, res: ServerResponse) => {
    let text = '';
    for await (const chunk of req) text += String(chunk);
    try {
      const { events } = JSON.parse(text) as { events: SentEvent[] };
      for (const one of events) recorded.set(one.idempotencyKey, one);
      json(res, 202, { accepted: events.length, deduped: 0, warnings: [], rejected: [] });
    } catch {
      problem(res, 400, 'invalid_json');
    }
  });
  const reporter = await start({ onRefused: (events) => refused.push(...events) });
  expect(await reporter.flush()).toBe(true);
  expect([...recorded.keys()]).toEqual(['a', 'b', 'd']);
  expect(refused).toMatchObject([{ code: 'invalid_json', event: undefined }]);
  await reporter.report(event('e'));
  expect(await reporter.close()).toBe(true);
  expect(files()).toEqual(['refused.ndjson']);
});

it('sends the other events if refused ones cannot be set aside, and keeps the refused ones', async () => {
  mkdirSync(join(directory, 'refused.ndjson'));
  const line = (key: string, product?: string) =>
    JSON.stringify({ ...event(key, product), occurredAt: new Date().toISOString() });
  const bad = [line('bad1', 'unknown'), line('bad2', 'unknown')];
  writeFileSync(
    join(directory, '000000000001.ndjson'),
    [line('a'), bad[0], line('b'), bad[1], line('c'), ''].join('\n'),
  );
  writeFileSync(join(directory, '000000000002.ndjson'), `${line('d')}\n`);
  const reasons: string[] = [];
  const refused: RefusedEvent[] = [];
  const reporter = await start({
    onRetry: (reason) => reasons.push(reason),
    onRefused: (events) => refused.push(...events),
  });
  expect(await reporter.flush({ timeoutMs: 500 })).toBe(false);
  expect([...recorded.keys()]).toEqual(['a', 'b', 'c', 'd']);
  expect(reasons[0]).toMatch('EISDIR');
  expect(lines('000000000001.ndjson')).toEqual(bad);
  expect(reporter.bytes).toBe(Buffer.byteLength(`${bad.join('\n')}\n`));
  expect(existsSync(join(directory, '000000000002.ndjson'))).toBe(false);
  rmSync(join(directory, 'refused.ndjson'), { recursive: true });
  expect(await reporter.flush()).toBe(true);
  expect(refused.map((one) => one.event?.idempotencyKey)).toEqual(['bad1', 'bad2']);
  expect(lines('refused.ndjson')).toHaveLength(2);
  expect(reporter.bytes).toBe(0);
});

it('holds its directory exclusively and releases it', async () => {
  const first = await start();
  await expect(start()).rejects.toThrow(DirectoryInUseError);
  await expect(start()).rejects.toThrow(/spool in .* is in use by process/);
  await first.close();
  await (await start()).close();
  expect(readdirSync(directory)).toEqual([]);
});

it('accepts nothing that it could not write, and recovers once it can write again', async () => {
  const reporter = await start();
  rmSync(directory, { recursive: true });
  await expect(reporter.report(event('a'))).rejects.toThrow('ENOENT');
  expect(reporter.bytes).toBe(0);
  await expect(reporter.report({ ...event('b'), quantity: Number.NaN })).rejects.toThrow(RangeError);
  await expect(reporter.report(event('x'.repeat(70_000)))).rejects.toThrow(RangeError);
  const again = await start();
  await again.report(event('c'));
  expect(await again.flush()).toBe(true);
  expect([...recorded.keys()]).toEqual(['c']);
  expect(existsSync(directory)).toBe(true);
});

it('a callback that throws does not stop the reporter', async () => {
  const thrown: unknown[] = [];
  const listeners = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', (error) => thrown.push(error));
  try {
    fault = (res, _events, count) => (count === 1 ? problem(res, 500, 'internal') : false);
    const fail = () => {
      throw new Error('in a callback');
    };
    const reporter = await start({ onRetry: fail, onRefused: fail });
    await reporter.report(event('a', 'unknown'));
    await reporter.report(event('b'));
    expect(await reporter.flush()).toBe(true);
    expect([...recorded.keys()]).toEqual(['b']);
    expect(thrown).toHaveLength(2);
  } finally {
    process.removeAllListeners('uncaughtException');
    for (const listener of listeners) process.on('uncaughtException', listener);
  }
});

it('a client names a missing key, and gives a request up after its time-out', async () => {
  const unset = process.env.GAUGE_UNSET_VARIABLE!;
  expect(() => createGaugeClient({ baseUrl, apiKey: unset })).toThrow(
    'apiKey is missing. Is GAUGE_API_KEY set?',
  );
  fault = () => true;
  const client = createGaugeClient({ baseUrl, apiKey: 'k', timeoutMs: 20 });
  const body = { events: [{ productSlug: 'p', metric: 'm', idempotencyKey: 'a' }] };
  await expect(client.POST('/api/usage/events', { body })).rejects.toMatchObject({ name: 'TimeoutError' });
});

/** Answers for many Organizations as the service does. Keys are recorded with their Organization. */
function answerMany(res: ServerResponse, events: SentEvent[], statuses: Record<string, number>): true {
  const slugs = [...new Set(events.map(({ organization }) => organization!))];
  const refused = slugs.flatMap((organization) => {
    const status = statuses[organization];
    if (status === undefined) return [];
    const index = events.findIndex((one) => one.organization === organization);
    const reason = { code: `code_${status}`, detail: `said ${status}` };
    const errors = [{ index, pointer: `/events/${index}/organization`, ...reason }];
    return [{ organization, status, ...reason, errors }];
  });
  const good = events.filter(({ organization }) => statuses[organization!] === undefined);
  const rejected = events.flatMap(({ productSlug, organization }, index) =>
    productSlug === 'unknown' && statuses[organization!] === undefined
      ? [{ index, code: 'entitlement_required', detail: 'none' }]
      : [],
  );
  const keys = good.flatMap((one) =>
    one.productSlug === 'unknown' ? [] : [`${one.organization} ${one.idempotencyKey}`],
  );
  const accepted = keys.filter((key) => !recorded.has(key)).length;
  for (const [i, key] of keys.entries()) recorded.set(key, good[i]!);
  if (good.length === 0) return json(res, refused[0]!.status, refused[0]);
  return json(res, 202, { accepted, deduped: keys.length - accepted, warnings: [], rejected, refused });
}

const service = { serviceKey: 'service_live_key' };

it('with a service key, one reporter spools for many Organizations, and a refusal concerns only its own events', async () => {
  const refused: RefusedEvent[] = [];
  fault = (res, events) => answerMany(res, events, { nobody: 404, other: 403 });
  const reporter = await start({ onRefused: (events) => refused.push(...events) }, service);
  const of = (organization: string, key: string, product?: string) => ({
    ...event(key, product),
    organization,
  });
  const sent = [
    ...Array.from({ length: 600 }, (_, i) => of('nobody', `n${i}`)),
    of('acme', 'a'),
    of('globex', 'a'),
    of('acme', 'b', 'unknown'),
    of('other', 'c'),
    of('globex', 'd'),
  ];
  await Promise.all(sent.map((one) => reporter.report(one)));
  expect(await reporter.flush()).toBe(true);
  expect([...recorded.keys()]).toEqual(['acme a', 'globex a', 'globex d']);
  const count = (slug: string) => refused.filter((one) => one.event?.organization === slug).length;
  expect([count('nobody'), count('acme'), count('other'), refused.length]).toEqual([600, 1, 1, 602]);
  const aside = lines('refused.ndjson').map((line) => JSON.parse(line) as RefusedEvent);
  expect(aside.find((one) => one.event!.idempotencyKey === 'n599')).toMatchObject({
    code: 'code_404',
    detail: 'said 404',
    event: { organization: 'nobody' },
  });
  expect(new Set(requests.map(({ path }) => path))).toEqual(new Set(['/service/usage/events']));
  expect(requests.length).toBeLessThan(8);
  expect(files()).toEqual(['refused.ndjson']);
});

it('an Organization whose events cannot be recorded at the moment holds up no other', async () => {
  const reasons: string[] = [];
  const statuses: Record<string, number> = { slow: 503, slower: 429 };
  fault = (res, events) => answerMany(res, events, statuses);
  const reporter = await start({ onRetry: (reason) => reasons.push(reason) }, service);
  await reporter.report({ ...event('a'), organization: 'slow' });
  await reporter.report({ ...event('a'), organization: 'slower' });
  await reporter.report({ ...event('a'), organization: 'acme' });
  await until(() => recorded.has('acme a') && reasons.length > 0);
  // Now only events that cannot be recorded wait.
  await reporter.report({ ...event('b'), organization: 'acme' });
  await until(() => recorded.has('acme b'));
  expect(reasons[0]).toBe('slow: code_503: said 503');
  expect(await reporter.flush({ timeoutMs: 50 })).toBe(false);
  expect([...recorded.keys()]).toEqual(['acme a', 'acme b']);
  delete statuses.slow;
  delete statuses.slower;
  expect(await reporter.flush()).toBe(true);
  expect([...recorded.keys()]).toEqual(['acme a', 'acme b', 'slow a', 'slower a']);
  expect(existsSync(join(directory, 'refused.ndjson'))).toBe(false);
});

it('a service key that is revoked between two parts loses nothing', async () => {
  const statuses: Record<string, number> = { late: 401 };
  const refusals: string[] = [];
  fault = (res, events) => answerMany(res, events, statuses);
  const reporter = await start({ onKeyRefused: (reason) => refusals.push(reason) }, service);
  await reporter.report({ ...event('a'), organization: 'acme' });
  await reporter.report({ ...event('a'), organization: 'late' });
  await until(() => refusals.length > 0);
  expect(refusals).toEqual(['said 401 (401 code_401)']);
  delete statuses.late;
  expect(await reporter.flush()).toBe(true);
  expect([...recorded.keys()]).toEqual(['acme a', 'late a']);
});

it('names a key or an Organization that is missing or too much', async () => {
  const own = await start();
  const named = { ...event('a'), organization: 'acme' };
  await expect(own.report(named)).rejects.toThrow('organization needs a serviceKey');
  await own.close();
  const many = await start({}, service);
  await expect(many.report(event('a'))).rejects.toThrow('organization is missing');
  expect(many.bytes).toBe(0);
  const both = { baseUrl, apiKey: 'a', serviceKey: 'b' } as unknown as Credential;
  expect(() => createGaugeClient({ baseUrl, ...both })).toThrow('Set apiKey or serviceKey, not both.');
  const unset = { serviceKey: process.env.GAUGE_UNSET_VARIABLE! };
  expect(() => createGaugeClient({ baseUrl, ...unset })).toThrow('serviceKey is missing');
  const client = createGaugeClient({ baseUrl, apiKey: 'a' });
  expect(() => client.forOrganization('acme')).toThrow('forOrganization needs a serviceKey');
  for (const slug of ['', '.', '..'])
    expect(() => createGaugeClient({ baseUrl, ...service }).forOrganization(slug)).toThrow('is not the slug');
});
