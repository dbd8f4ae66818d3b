import { Readable } from 'node:stream';
import { generateText, wrapLanguageModel } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import { expect, it } from 'vitest';
import { createUsageMiddleware, pricedDimensions } from '../../../src/client/ai-sdk.js';
import { createGaugeClient } from '../../../src/client/client.js';
import { runApplyCommand } from '../../../src/metering/commands/declare/command.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { operatorClient, operatorToken } from '../../support/operator.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();
const operate = operatorClient(() => service);

async function apply(): Promise<string> {
  let output = '';
  const write = (text: string) => (output += text);
  const code = await runApplyCommand({
    args: ['docs/examples/model-prices.yaml'],
    env: { GAUGE_URL: service.url, OPERATOR_TOKEN: operatorToken },
    stdin: Readable.from([]),
    stdout: { write },
    stderr: { write },
  });
  expect(code).toBe(0);
  return output;
}

it("the example's prices can be applied, and a call costs what they say", async () => {
  expect(await apply()).toBe('+ product assistant\n1 created, 0 unchanged.\n');
  expect(await apply()).toBe('Nothing to change.\n');

  const { id, slug } = await createOrganization(database.db);
  await operate('PUT', `/organizations/${slug}/entitlements/assistant`, { kind: 'live' });
  const reason = 'a dollar';
  await operate('PUT', `/organizations/${slug}/credits/grants/first`, { amount: 1, reason });
  const { secret } = await createKey(database.db, id, { scopes: ['usage:write', 'usage:read'] });
  const client = createGaugeClient({ baseUrl: service.url, apiKey: secret });
  const usage = {
    inputTokens: { total: 1_000, noCache: 600, cacheRead: 400, cacheWrite: undefined },
    outputTokens: { total: 300, text: 300, reasoning: undefined },
  };
  const finishReason = { unified: 'stop' as const, raw: 'stop' };
  const ask = (modelId: string) =>
    generateText({
      prompt: 'How is the weather?',
      maxRetries: 0,
      model: wrapLanguageModel({
        model: new MockLanguageModelV3({
          modelId,
          doGenerate: { content: [], finishReason, usage, warnings: [] },
        }),
        middleware: createUsageMiddleware({ client, productSlug: 'assistant', dimensions: pricedDimensions }),
      }),
    });
  const balance = async () => (await client.GET('/api/credits')).data!.balance;

  await ask('gpt-6-sol');
  // 600 × 2, 400 × 0.2 and 300 × 10 dollars for a million.
  expect(await balance()).toBe(1 - 0.004_28);
  await ask('a-new-model');
  // 1,300 × 50 dollars for a million.
  expect(await balance()).toBeCloseTo(1 - 0.004_28 - 0.065, 12);
  const refused = wrapLanguageModel({
    model: new MockLanguageModelV3({ modelId: 'claude-fable-5-1' }),
    middleware: createUsageMiddleware({ client, productSlug: 'assistant', dimensions: pricedDimensions }),
  });
  // 20,000 × 50 dollars for a million are more than a dollar's rest.
  await expect(
    generateText({ prompt: 'Write a book.', maxRetries: 0, maxOutputTokens: 20_000, model: refused }),
  ).rejects.toMatchObject({ problem: { code: 'credits_exhausted' }, available: 0.930_72 });
});
