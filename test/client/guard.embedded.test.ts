import type { AddressInfo } from 'node:net';
import express, { type RequestHandler } from 'express';
import { Hono } from 'hono';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createGaugeClient, type GaugeClient } from '../../src/client/client.js';
import { createExpressGuard, keyOf } from '../../src/client/express.js';
import {
  createDirectReporter,
  createFetchGuard,
  forHono,
  guarded,
  type FetchGuard,
} from '../../src/client/fetch.js';
import type { Gauge } from '../../src/client/hold.js';
import type { ReportedEvent } from '../../src/client/reporter.js';
import { createProduct, grant } from '../metering/support/products.js';
import { readUsage } from '../metering/support/usage.js';
import { createKey, createOrganization, createServiceKey } from '../support/fixtures.js';
import { until } from '../support/until.js';
import { useService } from '../support/use.js';

const { database, service } = useService();

interface Api extends Gauge {
  productSlug: string;
  onError: (error: unknown) => void;
  /** For callers without a key. */
  organization?: () => string;
  /** Runs before the handler of `/limited` answers. */
  work?: () => Promise<unknown>;
}
type Send = (request: Request) => Promise<Response>;
const metric = 'calls';
const limit = { metric, quantity: 10 };

/** The same API in each framework: `/verified`, `/entitled`, `/metered`, `/limited` and `/anonymous`. */
const frameworks: Record<string, (api: Api) => Promise<Send>> = {
  async Express({ productSlug, work, ...options }) {
    const guard = createExpressGuard(options);
    const app = express();
    const answer: RequestHandler = (req, res) =>
      void res.status(Number(req.query.status ?? 200)).json({ organization: keyOf(res)?.organization });
    app.get('/verified', guard.verifyKey({ scope: 'usage:read' }), answer);
    app.get('/entitled', guard.verifyKey(), guard.requireEntitlement(productSlug, { quantity: 1 }), answer);
    app.get('/metered', guard.verifyKey(), guard.meter({ productSlug, metric, quantity: 2 }), answer);
    const used = (req: express.Request) => Number(req.query.used ?? 10);
    app.get(
      '/limited',
      guard.verifyKey(),
      guard.withLimit({ productSlug, ...limit, used }),
      async (req, res, next) => {
        await work?.();
        answer(req, res, next);
      },
    );
    app.get('/anonymous', guard.withLimit({ productSlug, ...limit }), answer);
    const server = app.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    return (request) =>
      fetch(new Request(request.url.replace('http://api', `http://127.0.0.1:${port}`), request));
  },
  async Hono(api) {
    const { guard, steps, answer } = fetchSteps(api);
    const app = new Hono();
    for (const [path, list] of Object.entries(steps)) {
      for (const step of list) app.use(path, forHono(step));
      app.get(path, async (c) => answer(c.req.raw, guard));
    }
    return async (request) => app.fetch(request);
  },
  async 'a handler of Next or Workers'(api) {
    const { guard, steps, answer } = fetchSteps(api);
    const handlers = Object.entries(steps).map(
      ([path, list]) => [path, guarded(list, (request, _context: object) => answer(request, guard))] as const,
    );
    const byPath = new Map(handlers);
    return (request) => byPath.get(new URL(request.url).pathname)!(request, {});
  },
};

function fetchSteps({ productSlug, work, ...options }: Api) {
  const guard = createFetchGuard(options);
  const numberOf = (request: Request, name: string, usual: number) =>
    Number(new URL(request.url).searchParams.get(name) ?? usual);
  const used = (request: Request) => numberOf(request, 'used', 10);
  const steps = {
    '/verified': [guard.verifyKey({ scope: 'usage:read' })],
    '/entitled': [guard.verifyKey(), guard.requireEntitlement(productSlug, { quantity: 1 })],
    '/metered': [guard.verifyKey(), guard.meter({ productSlug, metric, quantity: 2 })],
    '/limited': [guard.verifyKey(), guard.withLimit({ productSlug, ...limit, used })],
    '/anonymous': [guard.withLimit({ productSlug, ...limit })],
  };
  const answer = async (request: Request, own: FetchGuard) => {
    await work?.();
    return Response.json(
      { organization: own.keyOf(request)?.organization },
      { status: numberOf(request, 'status', 200) },
    );
  };
  return { guard, steps, answer };
}

async function vendor(room = '1000') {
  const organization = await createOrganization(database.db);
  const product = await createProduct(database.db);
  const limits = [{ quantity: room, window: 'PT1H', enforcement: 'block' as const }];
  await grant(database.db, organization.id, product.id, { limits });
  const key = await createKey(database.db, organization.id, { scopes: ['usage:read'] });
  const scopes = ['usage:write', 'usage:read', 'entitlements:read', 'keys:verify'];
  const { secret: serviceKey } = await createServiceKey(database.db, scopes);
  const gate = { isUp: true };
  const client = createGaugeClient({
    baseUrl: service.url,
    serviceKey,
    fetch: (request) => (gate.isUp ? fetch(request) : Promise.reject(new TypeError('no connection'))),
  });
  const errors: unknown[] = [];
  const own = client.forOrganization(organization.slug);
  const list = async () => {
    const { data } = await own.GET('/api/usage/reservations', {});
    return data!.reservations.map(({ status, quantity, settledQuantity }) => [
      status,
      quantity,
      settledQuantity,
    ]);
  };
  return {
    organization,
    key,
    gate,
    client,
    errors,
    list,
    api: { client, productSlug: product.slug, onError: (error: unknown) => void errors.push(error) },
    events: async () =>
      (await readUsage(database.db, organization.id)).events.map(({ quantity }) => quantity),
  };
}

const call = (path: string, secret?: string, signal?: AbortSignal) =>
  new Request(`http://api${path}`, {
    ...(secret === undefined ? {} : { headers: { authorization: `Bearer ${secret}` } }),
    ...(signal ? { signal } : {}),
  });

async function readProblem(response: Response) {
  expect(response.headers.get('content-type')).toBe('application/problem+json; charset=utf-8');
  expect(response.headers.get('cache-control')).toBe('no-store');
  const problem = (await response.json()) as Record<string, unknown>;
  expect(problem).toMatchObject({ status: response.status, type: `/docs/errors#${String(problem.code)}` });
  expect(problem.requestId).toBe(response.headers.get('x-request-id'));
  return problem;
}

function spooling(client: GaugeClient) {
  const spooled: ReportedEvent[] = [];
  return {
    spooled,
    reporter: { report: (event: ReportedEvent) => Promise.resolve(spooled.push(event)) },
    send: () =>
      client.POST('/service/usage/events', {
        body: { events: spooled.map((one) => ({ idempotencyKey: crypto.randomUUID(), ...one })) as never },
      }),
  };
}

const startIn = async (name: string, api: Api): Promise<Send> =>
  frameworks[name]!({ reporter: createDirectReporter(api.client), ...api });

describe.each(Object.keys(frameworks))('with %s', (name) => {
  const start = (api: Api) => startIn(name, api);

  it('a call needs a valid key, and is answered as Gauge itself answers', async () => {
    const { organization, key, api, errors } = await vendor();
    const send = await start(api);
    const ok = await send(call('/verified', key.secret));
    expect([ok.status, await ok.json()]).toEqual([200, { organization: organization.slug }]);

    const missing = await send(call('/verified'));
    expect(missing.headers.get('www-authenticate')).toBe('Bearer');
    expect(await readProblem(missing)).toMatchObject({
      status: 401,
      code: 'missing_key',
      title: 'Unauthorized',
    });
    const gauge = await readProblem(await fetch(`${service.url}/api/key`));
    expect(Object.keys(await readProblem(await send(call('/verified'))))).toEqual(Object.keys(gauge));

    const refuse = async (secret: string) => readProblem(await send(call('/verified', secret)));
    expect(await refuse(`org_live_${'0'.repeat(32)}`)).toMatchObject({ status: 401, code: 'invalid_key' });
    expect(await refuse("' or 1=1 --")).toMatchObject({ status: 401, code: 'invalid_key' });
    expect(await refuse('x'.repeat(5_000))).toMatchObject({ status: 401, code: 'invalid_key' });
    const keyWith = async (values: object) => (await createKey(database.db, organization.id, values)).secret;
    expect(await refuse(await keyWith({ revokedAt: new Date('2021-01-01') }))).toMatchObject({
      code: 'key_revoked',
    });
    expect(await refuse(await keyWith({ scopes: ['usage:write'] }))).toMatchObject({
      status: 403,
      code: 'insufficient_scope',
    });
    expect(await refuse(await keyWith({ livemode: false, scopes: ['usage:read'] }))).toMatchObject({
      code: 'invalid_key',
      detail: 'Send a live key.',
    });
    expect(errors).toEqual([]);
  });

  it('a call needs an entitlement with room', async () => {
    const { organization, key, api } = await vendor('10');
    const send = await start(api);
    expect((await send(call('/entitled', key.secret))).status).toBe(200);
    const other = await createKey(database.db, (await createOrganization(database.db)).id);
    const problem = await readProblem(await send(call('/entitled', other.secret)));
    expect(problem).toMatchObject({ status: 403, code: 'entitlement_required' });
    expect((await send(call('/limited', key.secret))).status).toBe(200);
    await until(async () => (await readUsage(database.db, organization.id)).events.length === 1);
    const full = await readProblem(await send(call('/entitled', key.secret)));
    expect(full).toMatchObject({ status: 409, code: 'limit_reached' });
  });

  it('a successful call is metered, and a failed one is not', async () => {
    const { key, api, events } = await vendor();
    const send = await start(api);
    expect((await send(call('/metered?status=500', key.secret))).status).toBe(500);
    expect((await send(call('/metered', key.secret))).status).toBe(200);
    await until(async () => (await events()).length > 0);
    expect(await events()).toEqual(['2']);
  });

  it('a call holds its limit, settles what it used, and releases it if it fails', async () => {
    const { key, api, events, list } = await vendor();
    const send = await start(api);
    await send(call('/limited?used=3.5', key.secret));
    await send(call('/limited?status=404', key.secret));
    await until(async () => (await list()).every(([status]) => status !== 'held'));
    expect(await list()).toHaveLength(2);
    expect(await list()).toContainEqual(['settled', 10, 3.5]);
    expect(await list()).toContainEqual(['released', 10, null]);
    expect(await events()).toEqual(['3.5']);
  });

  it('a call without room is refused with the limit and Retry-After', async () => {
    const { key, api } = await vendor('9');
    const refused = await (await start(api))(call('/limited', key.secret));
    expect(await readProblem(refused)).toMatchObject({
      status: 409,
      code: 'limit_reached',
      title: 'Conflict',
      limit: { remaining: 9 },
    });
  });

  it('100 parallel calls against room for 40 pass exactly 40', async () => {
    let working = 0;
    let go = () => {};
    const all = new Promise<void>((resolve) => (go = resolve));
    const { key, api, events } = await vendor('400');
    const send = await start({ ...api, work: () => (working++, all) });
    let refusals = 0;
    const statuses = Array.from({ length: 100 }, async () => {
      const { status } = await send(call('/limited', key.secret));
      if (status === 409) refusals++;
      return status;
    });
    // No call ends before each was decided.
    await until(() => working + refusals === 100);
    go();
    expect((await Promise.all(statuses)).filter((status) => status === 200)).toHaveLength(40);
    await until(async () => (await events()).length === 40);
  });

  it('without Gauge, calls are refused, except those that need no key in the mode spool', async () => {
    const { organization, key, api, gate, client, events, list, errors } = await vendor();
    const { reporter, send: sendSpooled } = spooling(client);
    const own = { ...api, organization: () => organization.slug };
    const strict = await start(own);
    const lenient = await start({ ...own, reporter, onUnavailable: 'spool' });
    gate.isUp = false;
    for (const [send, path] of [
      [strict, '/verified'],
      [strict, '/anonymous'],
      [lenient, '/verified'],
    ] as const) {
      const refused = await send(call(path, key.secret));
      expect(refused.headers.get('retry-after')).toBe('1');
      expect(await readProblem(refused)).toMatchObject({ status: 503, code: 'unavailable' });
    }
    expect(errors).toHaveLength(3);
    expect((await lenient(call('/anonymous'))).status).toBe(200);
    gate.isUp = true;
    expect((await sendSpooled()).data).toMatchObject({ accepted: 1 });
    expect(await events()).toEqual(['10']);
    expect(await list()).toEqual([]);
  });

  it("a refusal of the vendor's own key is not shown to the caller", async () => {
    const { key, api, errors } = await vendor();
    const client = createGaugeClient({ baseUrl: service.url, serviceKey: `service_live_${'0'.repeat(32)}` });
    const refused = await (await start({ ...api, client }))(call('/verified', key.secret));
    expect(await readProblem(refused)).toMatchObject({ status: 503, code: 'unavailable' });
    expect(errors).toMatchObject([{ problem: { code: 'invalid_key' } }]);
  });

  it('a usage that cannot be settled is reported, so that it is counted once', async () => {
    const { key, api, gate, client, events } = await vendor();
    const { reporter, spooled, send: sendSpooled } = spooling(client);
    const work = () => Promise.resolve((gate.isUp = false));
    const send = await start({ ...api, reporter, work });
    expect((await send(call('/limited?used=4', key.secret))).status).toBe(200);
    await until(() => spooled.length === 1);
    gate.isUp = true;
    await sendSpooled();
    await sendSpooled();
    expect(await events()).toEqual(['4']);
  });
});

it('a caller of Express that goes away releases its hold', async () => {
  const { key, api, list } = await vendor();
  const stop = new AbortController();
  const work = () => Promise.resolve(stop.abort()).then(() => new Promise(() => {}));
  const send = await startIn('Express', { ...api, work });
  await expect(send(call('/limited', key.secret, stop.signal))).rejects.toThrow('abort');
  await until(async () => (await list())[0]?.[0] === 'released');
});

it('a handler that throws releases its hold', async () => {
  const { key, api, list } = await vendor();
  const work = () => Promise.reject(new Error('the handler failed'));
  const send = await startIn('a handler of Next or Workers', { ...api, work });
  await expect(send(call('/limited', key.secret))).rejects.toThrow('the handler failed');
  expect((await list()).map(([status]) => status)).toEqual(['released']);
});

it('a runtime that waits counts after the response', async () => {
  const { organization, api, events } = await vendor();
  const works: Promise<unknown>[] = [];
  const guard = createFetchGuard({
    ...api,
    organization: () => organization.slug,
    reporter: createDirectReporter(api.client),
    waitUntil: (work) => void works.push(work),
  });
  const { productSlug } = api;
  const handler = guarded([guard.meter({ productSlug, metric })], () => new Response('ok'));
  expect(await (await handler(call('/'))).text()).toBe('ok');
  await Promise.all(works);
  expect([works.length, await events()]).toEqual([1, ['1']]);
});

it('metering and spooling need a reporter', async () => {
  const { api } = await vendor();
  const { productSlug } = api;
  expect(() => createFetchGuard(api).meter({ productSlug, metric })).toThrow('meter needs a reporter');
  expect(() => createExpressGuard(api).meter({ productSlug, metric })).toThrow('meter needs a reporter');
  expect(() => createExpressGuard({ ...api, onUnavailable: 'spool' })).toThrow('needs a reporter');
});
