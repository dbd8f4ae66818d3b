import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base';
import { generateText } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import { expect, it, onTestFinished } from 'vitest';
import { createGaugeClient } from '../../src/client/client.js';
import { createUsageProcessor, type UsageProcessorOptions } from '../../src/client/opentelemetry.js';
import { createUsageReporter, type RefusedEvent } from '../../src/client/reporter.js';
import { systemClock } from '../../src/core/time.js';
import { createProduct, grant } from '../metering/support/products.js';
import { createKey, createOrganization, createServiceKey } from '../support/fixtures.js';
import { useService } from '../support/use.js';

const { database, service } = useService({ context: { clock: systemClock } });

async function tracing(options: Partial<UsageProcessorOptions> = {}, copies = 1) {
  const organization = await createOrganization(database.db);
  const product = await createProduct(database.db, {
    usageMetric: 'tokens',
    dimensions: ['model', 'kind'],
    subjectsSince: new Date('2020-01-01'),
  });
  await grant(database.db, organization.id, product.id);
  const { secret: serviceKey } = await createServiceKey(database.db, ['usage:write']);
  const directory = mkdtempSync(join(tmpdir(), 'gauge-spans-'));
  const refused: RefusedEvent[] = [];
  const onRefused = (events: RefusedEvent[]) => refused.push(...events);
  const reporter = await createUsageReporter({ baseUrl: service.url, serviceKey, directory, onRefused });
  onTestFinished(async () => {
    await reporter.close();
    rmSync(directory, { recursive: true });
  });
  const processor = () => createUsageProcessor({ reporter, productSlug: product.slug, ...options });
  const provider = new BasicTracerProvider({ spanProcessors: Array.from({ length: copies }, processor) });
  const { secret: apiKey } = await createKey(database.db, organization.id, { scopes: ['usage:read'] });
  const client = createGaugeClient({ baseUrl: service.url, apiKey });
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  const range = { from: day(Date.now() - 86_400_000), to: day(Date.now() + 2 * 86_400_000) };
  const sums = async (groupBy: string) => {
    await provider.forceFlush();
    const query = { ...range, productSlug: product.slug, groupBy };
    const { data } = await client.GET('/api/usage', { params: { query } });
    return data!.series.map(({ dimensions, subject, total }) => [subject ?? dimensions![groupBy], total]);
  };
  return { organization, provider, tracer: provider.getTracer('test'), refused, sums };
}

it('counts the tokens of spans by model and kind, once although two processors see them', async () => {
  const { organization, tracer, sums, refused } = await tracing({}, 2);
  const common = { 'gauge.organization': organization.slug, 'gauge.subject': 'user-1' };
  const span = (attributes: Record<string, string | number>) =>
    tracer.startSpan('chat', { attributes: { ...common, ...attributes } }).end();
  span({
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': 'small',
    'gen_ai.response.model': 'small-2',
    'gen_ai.usage.input_tokens': 30,
    'gen_ai.usage.cache_read.input_tokens': 10,
    'gen_ai.usage.output_tokens': 7,
  });
  span({
    'gen_ai.request.model': 'small',
    'gen_ai.usage.prompt_tokens': 5,
    'gen_ai.usage.completion_tokens': 2,
  });
  span({
    'gen_ai.operation.name': 'embeddings',
    'gen_ai.request.model': 'vector',
    'gen_ai.usage.input_tokens': 4,
  });
  // The agent repeats what its calls used.
  span({
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.usage.input_tokens': 30,
    'gen_ai.usage.output_tokens': 7,
  });
  span({ 'http.request.method': 'GET' });
  span({ 'gen_ai.usage.input_tokens': 'many', 'gen_ai.usage.output_tokens': -1 });
  expect(new Map((await sums('kind')) as [string, number][])).toEqual(
    new Map([
      ['input', 29],
      ['cached_input', 10],
      ['output', 9],
    ]),
  );
  expect(new Map((await sums('model')) as [string, number][])).toEqual(
    new Map([
      ['small-2', 37],
      ['small', 7],
      ['vector', 4],
    ]),
  );
  expect(await sums('subject')).toEqual([['user-1', 48]]);
  expect(refused).toEqual([]);
});

it('counts the spans of the AI SDK once, although its outer spans repeat their sums', async () => {
  const { organization, tracer, sums } = await tracing({ organization: () => slug });
  const { slug } = organization;
  const usage = {
    inputTokens: { total: 30, noCache: 20, cacheRead: 10, cacheWrite: undefined },
    outputTokens: { total: 7, text: 7, reasoning: undefined },
  };
  const finishReason = { unified: 'stop' as const, raw: 'stop' };
  const model = new MockLanguageModelV3({ doGenerate: { content: [], finishReason, usage, warnings: [] } });
  await generateText({ model, prompt: 'Hello', experimental_telemetry: { isEnabled: true, tracer } });
  expect(new Map((await sums('kind')) as [string, number][])).toEqual(
    new Map([
      ['input', 20],
      ['cached_input', 10],
      ['output', 7],
    ]),
  );
});

it('an event that the reporter does not accept is passed to onError, and no span fails', async () => {
  const errors: unknown[] = [];
  const { provider, tracer } = await tracing({ onError: (error) => void errors.push(error) });
  // Without an Organization, the reporter of a service key refuses the event.
  tracer.startSpan('chat', { attributes: { 'gen_ai.usage.output_tokens': 1 } }).end();
  await provider.shutdown();
  expect(errors).toMatchObject([{ message: expect.stringContaining('organization is missing') as string }]);
});
