import { generateText, wrapLanguageModel } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import { createUsageMiddleware } from '../../src/client/ai-sdk.js';
import { createGaugeClient } from '../../src/client/client.js';

// Calls a model that never answers, until the process is killed.
const [baseUrl = '', apiKey = '', productSlug = ''] = process.argv.slice(2);
setInterval(() => undefined, 60_000);
await generateText({
  prompt: 'How is the weather?',
  model: wrapLanguageModel({
    model: new MockLanguageModelV3({
      modelId: 'small',
      doGenerate() {
        process.stdout.write('called\n');
        return new Promise(() => {});
      },
    }),
    middleware: createUsageMiddleware({
      client: createGaugeClient({ baseUrl, apiKey }),
      productSlug,
      maxOutputTokens: 15,
      estimateInput: () => 10,
    }),
  }),
});
