import { writeSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { createUsageReporter } from '../../src/client/reporter.js';

// Reports usage until the process is killed, and prints each key once its event is accepted. Without a prefix, only
// sends the remaining events. With slugs of Organizations, the key is a service key.
const [baseUrl = '', key = '', directory = '', productSlug = '', prefix = '', ...slugs] =
  process.argv.slice(2);
const credential = slugs.length > 0 ? { serviceKey: key } : { apiKey: key };
const reporter = await createUsageReporter({ baseUrl, ...credential, directory, intervalMs: 20 });
writeSync(1, `ready ${reporter.bytes}\n`);
if (prefix === '') writeSync(1, `${await reporter.close({ timeoutMs: 60_000 })}\n`);
for (let i = 0; prefix !== ''; await setTimeout(Math.random() * 5)) {
  const events = Array.from({ length: 1 + Math.floor(Math.random() * 20) }, () => ({
    productSlug,
    metric: 'calls',
    quantity: 1,
    ...(slugs.length > 0 ? { organization: slugs[i % slugs.length]! } : {}),
    idempotencyKey: `${prefix}-${i++}`,
  }));
  await Promise.all(
    events.map(async (event) => {
      await reporter.report(event);
      writeSync(1, `${event.idempotencyKey}\n`);
    }),
  );
}
