import { APICallError, generateText, simulateReadableStream, streamText, wrapLanguageModel } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import { describe, expect, it } from 'vitest';
import { createUsageMiddleware, type MiddlewareOptions } from '../../src/client/ai-sdk.js';
import {
  createGaugeClient,
  RefusedError,
  type GaugeClient,
  type UsageEvent,
} from '../../src/client/client.js';
import type { ReportedEvent } from '../../src/client/reporter.js';
import { createProduct, grant } from '../metering/support/products.js';
import { createKey, createOrganization, createServiceKey } from '../support/fixtures.js';
import { until } from '../support/until.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
type Behavior = NonNullable<ConstructorParameters<typeof MockLanguageModelV3>[0]>;
type Stream = Awaited<ReturnType<MockLanguageModelV3['doStream']>>['stream'];
type StreamPart = Stream extends ReadableStream<infer Part> ? Part : never;

const usage = {
  inputTokens: { total: 30, noCache: 20, cacheRead: 10, cacheWrite: undefined },
  outputTokens: { total: 7, text: 7, reasoning: undefined },
};
const finishReason = { unified: 'stop' as const, raw: 'stop' };
const answer = { content: [{ type: 'text' as const, text: 'Sunny.' }], finishReason, usage, warnings: [] };
const parts: StreamPart[] = [
  { type: 'text-start', id: '1' },
  { type: 'text-delta', id: '1', delta: 'Sunny.' },
  { type: 'text-end', id: '1' },
  { type: 'finish', usage, finishReason },
];

type Gate = 'up' | 'down' | 'slow';

async function tenant(room = '1000') {
  const organization = await createOrganization(database.db);
  const product = await createProduct(database.db, { usageMetric: 'tokens', dimensions: ['model', 'kind'] });
  const limits = [{ quantity: room, window: 'PT1H', enforcement: 'block' as const }];
  await grant(database.db, organization.id, product.id, { limits });
  const scopes = ['usage:write', 'usage:read'];
  const { secret } = await createKey(database.db, organization.id, { scopes });
  const gate = { now: 'up' as Gate };
  const client = createGaugeClient({
    baseUrl: service.url,
    apiKey: secret,
    // While the service is slow, no request ends before this time.
    timeoutMs: 600_000,
    fetch: (request) => {
      if (gate.now === 'up') return fetch(request);
      const isSlow = gate.now === 'slow';
      return Promise.reject(
        isSlow ? new DOMException('too slow', 'TimeoutError') : new TypeError('no connection'),
      );
    },
  });
  const options = { client, productSlug: product.slug, maxOutputTokens: 15, estimateInput: () => 10 };
  const wrap = (behavior: Behavior, more: Partial<MiddlewareOptions> = {}) =>
    wrapLanguageModel({
      model: new MockLanguageModelV3({ modelId: 'small', ...behavior }),
      middleware: createUsageMiddleware({ ...options, ...more }),
    });
  const list = async () => {
    const { data } = await client.GET('/api/usage/reservations', {});
    return data!.reservations.map(({ status, quantity, settledQuantity }) => [
      status,
      quantity,
      settledQuantity,
    ]);
  };
  return { organization, product, client, gate, wrap, list, count: () => countTokens(client, product.slug) };
}

/** Tokens by kind. */
async function countTokens(client: GaugeClient, productSlug: string): Promise<Record<string, number>> {
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  const now = service.clock.now();
  const range = { from: day(now - 86_400_000), to: day(now + 2 * 86_400_000) };
  const query = { ...range, productSlug, groupBy: 'kind' };
  const { data } = await client.GET('/api/usage', { params: { query } });
  return Object.fromEntries(data!.series.map(({ dimensions, total }) => [dimensions!.kind!, total]));
}

const call = { prompt: 'How is the weather?', maxRetries: 0 };
const counted = { input: 20, cached_input: 10, output: 7 };

/** Parts as a model that is read slowly gives them. */
const streamOf = (chunks: StreamPart[]): Behavior => ({
  doStream: () => Promise.resolve({ stream: simulateReadableStream({ chunks, chunkDelayInMs: null }) }),
});

async function readText(options: Pick<Parameters<typeof streamText>[0], 'model' | 'abortSignal'>) {
  const errors: unknown[] = [];
  const { textStream } = streamText({ ...call, ...options, onError: ({ error }) => void errors.push(error) });
  let text = '';
  try {
    for await (const part of textStream) text += part;
  } catch (error) {
    errors.push(error);
  }
  return { text, errors };
}

describe('a call of a model', () => {
  it('holds its longest size, and counts each kind of token as the model says', async () => {
    const { wrap, list, count } = await tenant();
    const model = new MockLanguageModelV3({ doGenerate: answer });
    const { text } = await generateText({
      ...call,
      model: wrap({ doGenerate: (options) => model.doGenerate(options) }),
    });
    expect(text).toBe('Sunny.');
    expect(model.doGenerateCalls.map(({ maxOutputTokens }) => maxOutputTokens)).toEqual([15]);
    expect(await list()).toEqual([['settled', 25, 7]]);
    expect(await count()).toEqual(counted);
  });

  it('is counted before the last part of its stream', async () => {
    const { wrap, list, count } = await tenant();
    expect(await readText({ model: wrap(streamOf(parts)) })).toEqual({ text: 'Sunny.', errors: [] });
    expect(await list()).toEqual([['settled', 25, 7]]);
    expect(await count()).toEqual(counted);
  });

  it('holds its own limit and an estimate of its prompt', async () => {
    const { product, client, list } = await tenant('100000');
    const model = wrapLanguageModel({
      model: new MockLanguageModelV3({ modelId: 'small', doGenerate: answer }),
      middleware: createUsageMiddleware({ client, productSlug: product.slug }),
    });
    const prompt = 'word '.repeat(300);
    await generateText({ ...call, model, prompt, maxOutputTokens: 2_000 });
    await generateText({ ...call, model, prompt });
    const held = (await list()).map(([, quantity]) => Number(quantity)).toSorted((a, b) => b - a);
    expect(held[0]! - held[1]!).toBe(4_096 - 2_000);
    // The prompt has 1,500 characters, and its JSON a few more.
    expect(held[1]! - 2_000).toBeGreaterThan(500);
    expect(held[1]! - 2_000).toBeLessThan(550);
  });

  it('costs what was held if the model does not say its usage', async () => {
    const { wrap, list, count } = await tenant();
    const tokens = { total: undefined, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
    const silent = {
      inputTokens: tokens,
      outputTokens: { total: undefined, text: undefined, reasoning: undefined },
    };
    await generateText({ ...call, model: wrap({ doGenerate: { ...answer, usage: silent } }) });
    expect(await list()).toEqual([['settled', 25, 25]]);
    expect(await count()).toEqual({ output: 25 });
  });

  it('counts for the Organization and subject that it names, with a service key', async () => {
    const { organization, client, product, count } = await tenant();
    await database.db.run(
      { name: 'test_subjects', text: 'update products set subjects_since = $2 where id = $1' },
      [product.id, '2020-01-01T00:00:00Z'],
    );
    const { secret } = await createServiceKey(database.db, ['usage:write']);
    const model = wrapLanguageModel({
      model: new MockLanguageModelV3({ modelId: 'small', doGenerate: answer }),
      middleware: createUsageMiddleware({
        client: createGaugeClient({ baseUrl: service.url, serviceKey: secret }),
        productSlug: product.slug,
        organization: 'nobody',
        maxOutputTokens: 15,
      }),
    });
    const gauge = { organization: organization.slug, subject: 'user-1' };
    await generateText({ ...call, model, providerOptions: { gauge } });
    expect(await count()).toEqual(counted);
    const { data } = await client.GET('/api/usage/reservations', {});
    expect(data!.reservations.map(({ subject }) => subject)).toEqual(['user-1']);
    await expect(generateText({ ...call, model })).rejects.toMatchObject({ problem: { code: 'not_found' } });
  });
});

describe('no call of the model, and an error with the problem', () => {
  const forbidden: Behavior = {
    doGenerate: () => Promise.reject(new Error('the model was called')),
    doStream: () => Promise.reject(new Error('the model was called')),
  };

  it('if there is no room', async () => {
    const { wrap, list } = await tenant('24');
    const refused = generateText({ ...call, maxRetries: 2, model: wrap(forbidden) });
    await expect(refused).rejects.toBeInstanceOf(RefusedError);
    await expect(refused).rejects.toMatchObject({
      problem: { code: 'limit_reached', status: 409, limit: { remaining: 24 } },
    });
    const { errors } = await readText({ model: wrap(forbidden) });
    expect(errors).toMatchObject([{ problem: { code: 'limit_reached' } }]);
    expect(await list()).toEqual([]);
  });

  it('with a wrong key', async () => {
    const client = createGaugeClient({ baseUrl: service.url, apiKey: `org_live_${'0'.repeat(32)}` });
    const { wrap } = await tenant();
    await expect(generateText({ ...call, model: wrap(forbidden, { client }) })).rejects.toMatchObject({
      problem: { code: 'invalid_key', status: 401 },
    });
    expect(() => createGaugeClient({ baseUrl: service.url, apiKey: '' })).toThrow('apiKey is missing');
  });

  it.each(['down', 'slow'] as const)('if Gauge is %s', async (state) => {
    const { wrap, gate } = await tenant();
    gate.now = state;
    await expect(generateText({ ...call, model: wrap(forbidden) })).rejects.toMatchObject({
      problem: { code: 'unavailable', status: 503 },
    });
    expect(() =>
      createUsageMiddleware({ client: {} as GaugeClient, productSlug: 'a', onUnavailable: 'spool' }),
    ).toThrow('needs a reporter');
  });
});

describe('with a reporter', () => {
  function reporting(client: GaugeClient) {
    const spooled: ReportedEvent[] = [];
    const reporter = { report: (event: ReportedEvent) => Promise.resolve(spooled.push(event)) };
    const send = () =>
      client
        .POST('/api/usage/events', { body: { events: spooled as UsageEvent[] } })
        .then(({ data }) => data);
    return { reporter, send };
  }

  it('a call runs while Gauge is down and is counted later, if the mode is spool', async () => {
    const { wrap, gate, client, list, count } = await tenant();
    const { reporter, send } = reporting(client);
    gate.now = 'down';
    const model = wrap({ doGenerate: answer }, { reporter, onUnavailable: 'spool' });
    expect((await generateText({ ...call, model })).text).toBe('Sunny.');
    gate.now = 'up';
    expect(await send()).toMatchObject({ accepted: 3, warnings: [] });
    expect(await count()).toEqual(counted);
    expect(await list()).toEqual([]);
  });

  it('a call is counted once although Gauge goes down during it, and then also answers', async () => {
    const { wrap, gate, client, count } = await tenant();
    const { reporter, send } = reporting(client);
    const doGenerate = () => Promise.resolve(((gate.now = 'down'), answer));
    expect((await generateText({ ...call, model: wrap({ doGenerate }, { reporter }) })).text).toBe('Sunny.');
    gate.now = 'up';
    expect((await send())?.accepted).toBe(3);
    expect((await send())?.deduped).toBe(3);
    expect(await count()).toEqual(counted);
  });

  it('only a refusal stops a call in the mode spool', async () => {
    const { wrap, client } = await tenant('24');
    const { reporter } = reporting(client);
    const model = wrap({ doGenerate: answer }, { reporter, onUnavailable: 'spool' });
    await expect(generateText({ ...call, model })).rejects.toMatchObject({
      problem: { code: 'limit_reached' },
    });
  });
});

describe('the hold is released', () => {
  const failure = new Error('the model is away');

  it('if the model fails', async () => {
    const { wrap, list, count } = await tenant();
    const model = wrap({
      doGenerate: () => Promise.reject(failure),
      doStream: () => Promise.reject(failure),
    });
    await expect(generateText({ ...call, model })).rejects.toThrow('the model is away');
    expect((await readText({ model })).errors).toEqual([failure]);
    expect(await list()).toEqual([
      ['released', 25, null],
      ['released', 25, null],
    ]);
    expect(await count()).toEqual({});
  });

  it('if the stream breaks or ends without its last part', async () => {
    const { wrap, list } = await tenant();
    const broken = new ReadableStream<StreamPart>({
      pull: (controller) => (controller.enqueue(parts[0]!), controller.error(failure)),
    });
    await readText({ model: wrap({ doStream: () => Promise.resolve({ stream: broken }) }) });
    await readText({ model: wrap(streamOf(parts.slice(0, 3))) });
    expect((await list()).map(([status]) => status)).toEqual(['released', 'released']);
  });

  it('if the stream is aborted', async () => {
    const { wrap, list, count } = await tenant();
    const stop = new AbortController();
    const model = wrap({
      doStream: ({ abortSignal }) =>
        Promise.resolve({
          stream: new ReadableStream<StreamPart>({
            start(controller) {
              for (const part of parts.slice(0, 2)) controller.enqueue(part);
              abortSignal?.addEventListener('abort', () => controller.error(abortSignal.reason));
            },
          }),
        }),
    });
    const { textStream } = streamText({ ...call, model, abortSignal: stop.signal });
    for await (const text of textStream) if (text !== '') stop.abort();
    await until(async () => (await list())[0]?.[0] === 'released');
    expect(await count()).toEqual({});
  });

  it('if nobody reads the stream to its end', async () => {
    const { wrap, list } = await tenant();
    const { stream } = await wrap(streamOf(parts)).doStream({ prompt: [] });
    await stream.cancel();
    expect(await list()).toEqual([['released', 25, null]]);
  });

  it('and a repeated call is counted once', async () => {
    const { wrap, list, count } = await tenant();
    let calls = 0;
    const away = new APICallError({ message: 'away', url: '', requestBodyValues: {}, isRetryable: true });
    const doGenerate = () => (calls++ === 0 ? Promise.reject(away) : Promise.resolve(answer));
    await generateText({ ...call, maxRetries: 1, model: wrap({ doGenerate }) });
    expect((await list()).filter(([status]) => status === 'released')).toHaveLength(1);
    expect(await count()).toEqual(counted);
  });
});

it('100 parallel calls against room for 40 pass exactly 40', async () => {
  const { wrap, count } = await tenant(String(40 * 25));
  let calls = 0;
  let go = () => {};
  const all = new Promise<void>((resolve) => (go = resolve));
  const doGenerate = async () => {
    calls++;
    await all;
    return answer;
  };
  const model = wrap({ doGenerate });
  const ends = Array.from({ length: 100 }, () => generateText({ ...call, model }));
  let refusals = 0;
  for (const end of ends) end.catch(() => refusals++);
  // No call ends before each was decided.
  await until(() => calls + refusals === 100);
  go();
  const results = await Promise.allSettled(ends);
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(40);
  expect(calls).toBe(40);
  expect(await count()).toEqual({ input: 800, cached_input: 400, output: 280 });
});
