import { pino } from 'pino';
import { readConfig } from '../../src/config.js';
import { createAccessLog, createLogger } from '../../src/log.js';
import { startService } from '../../src/service.js';

/**
 * The service as a process of its own, for tests that kill it: `node --import tsx test/support/serve.ts` with the
 * service's environment. Prints `{"port":…}` once it is ready; SIGTERM is its graceful end.
 */
const config = readConfig(process.env);
const destination = pino.destination({ dest: 1, sync: true });
const log = createLogger(config.logLevel, destination);
const service = await startService(config, {
  log,
  accessLog: createAccessLog(config.logLevel, destination),
});
process.stdout.write(`${JSON.stringify({ port: Number(new URL(service.url).port) })}\n`);

process.once('SIGTERM', () => {
  service.stop().then(
    () => process.exit(0),
    (error: unknown) => {
      log.fatal({ err: error }, 'the shutdown failed');
      process.exit(1);
    },
  );
});
