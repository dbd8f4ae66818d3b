import { pino } from 'pino';
import { readConfig } from '../../src/config.js';
import { createLogger, createPlainLog } from '../../src/core/log/log.js';
import { canStartThreads } from '../../src/core/threads.js';
import { startService } from '../../src/service.js';

/**
 * The service as a separate process, for tests that kill it: `node --import tsx test/support/serve.ts` with the
 * service's environment. TEST_PAST_DAYS: days of simulated past to create. TEST_SIGN_IN_DELAY_MS: maximum delay of
 * failed sign-ins. TEST_CLOCK: `<time>,<factor>`, where the service's clock runs faster than real time by the factor
 * from the given time (in ms since 1970) onward. TEST_LIVE_TIMINGS: pauses of live trading, as JSON. Prints
 * `{"port":…}` once it is ready; SIGTERM ends it gracefully.
 */
const config = readConfig(process.env);
const destination = pino.destination({ dest: 1, sync: true });
const log = createLogger(config.logLevel, destination, config.secrets);
const {
  TEST_PAST_DAYS: pastDays,
  TEST_SIGN_IN_DELAY_MS: maxDelayMs,
  TEST_CLOCK: clock,
  TEST_LIVE_TIMINGS: liveTimings,
} = process.env;
const [from = 0, factor = 1] = clock?.split(',').map(Number) ?? [];
const service = await startService(config, {
  log,
  accessLog: createPlainLog(config.logLevel, destination),
  ...(clock !== undefined && { clock: { now: () => from + (Date.now() - from) * factor } }),
  products: {
    inThreads: canStartThreads,
    ...(pastDays !== undefined && { trading: { pastDays: Number(pastDays) } }),
    ...(liveTimings !== undefined && { trading: { liveTimings: JSON.parse(liveTimings) as object } }),
  },
  ...(maxDelayMs !== undefined && { signInLimits: { maxDelayMs: Number(maxDelayMs) } }),
});
const live = service.services as { trading?: { live?: { reconcile(): Promise<void> } | undefined } };
// Reconciles every minute of the faster clock.
if (clock !== undefined) setInterval(() => void live.trading?.live?.reconcile(), 60_000 / factor).unref();
process.once('SIGTERM', () => {
  service.stop().then(
    () => process.exit(0),
    (error: unknown) => {
      log.fatal({ err: error }, 'shutdown failed');
      process.exit(1);
    },
  );
});

process.stdout.write(`${JSON.stringify({ port: Number(new URL(service.url).port) })}\n`);
