import { writeSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { createUsageReporter } from '../../src/client/reporter.js';

// Reports usage until the process is killed, and prints each key once its event is accepted. Without a prefix, only
// sends the remaining events.
const [baseUrl = '', apiKey = '', directory = '', productSlug = '', prefix = ''] = process.argv.slice(2);
const reporter = await createUsageReporter({ baseUrl, apiKey, directory, intervalMs: 20 });
writeSync(1, `ready ${reporter.bytes}\n`);
if (prefix === '') writeSync(1, `${await reporter.close({ timeoutMs: 60_000 })}\n`);
for (let i = 0; prefix !== ''; await setTimeout(Math.random() * 5)) {
  const events = Array.from({ length: 1 + Math.floor(Math.random() * 20) }, () => ({
    productSlug,
    metric: 'calls',
    quantity: 1,
    idempotencyKey: `${prefix}-${i++}`,
  }));
  await Promise.all(
    events.map(async (event) => {
      await reporter.report(event);
      writeSync(1, `${event.idempotencyKey}\n`);
    }),
  );
}
