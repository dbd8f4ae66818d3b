import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { createMetrics } from '../../../src/core/metrics.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { createStripeClient } from '../../../src/metering/stripe/client.js';
import { createMeterSender, planHours } from '../../../src/metering/stripe/stripe.js';

/**
 * Compares and sends without pauses until the process is killed. TEST_CLOCK works as in `test/support/serve.ts`. Prints
 * a line after its first send.
 */
const {
  DATABASE_URL: databaseUrl,
  STRIPE_API_KEY: key = '',
  STRIPE_URL: url = '',
  TEST_CLOCK = '',
} = process.env;
const [from = 0, factor = 1] = TEST_CLOCK.split(',').map(Number);
const clock = { now: () => from + (Date.now() - from) * factor };
const log = pino({ level: 'silent' });
const db = await openDatabase({ databaseUrl, dataDir: '' }, log);
const metrics = createMetrics([createMeteringMetrics], { ofProcess: false });
const send = createMeterSender({
  db,
  clock,
  log,
  metrics,
  livemode: true,
  stripe: createStripeClient(key, url),
});

async function repeat(work: () => Promise<unknown>): Promise<never> {
  for (;;) {
    await work();
    await setTimeout(5);
  }
}

await send();
console.log('ready');
await Promise.all([
  repeat(() => planHours(db, { nowMs: clock.now(), livemode: true, fromMs: clock.now() - 40 * 86_400_000 })),
  repeat(send),
]);
