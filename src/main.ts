import { ConfigError } from './core/config.js';
import { readConfig, type Config } from './config.js';
import { UnsuitableDatabaseError } from './core/db/check-server.js';
import { DirectoryInUseError } from './core/db/directory-lock.js';
import { embeddedNotice } from './greeting.js';
import { createBlockStream, createLogger, createPlainLog, createTerminalStream } from './core/log/log.js';
import { collectGarbage, limitHeapGrowth } from './core/memory.js';
import { onStopSignal } from './core/stop-signals.js';
import { canStartThreads } from './core/threads.js';
import { describeSetUpLink } from './accounts/identity/operators/operators.js';
import { CannotListenError, startService, type Service } from './service.js';

function configure(): Config {
  try {
    return readConfig(process.env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return process.exit(1);
  }
}

limitHeapGrowth();
const config = configure();
const buffer = process.stdout.isTTY ? undefined : createBlockStream();
const destination = buffer ?? (await createTerminalStream(process.stdout));
const log = createLogger(config.logLevel, destination, config.secrets);

function exit(code: number): never {
  buffer?.flushSync();
  process.exit(code);
}

process.on('uncaughtException', (error) => {
  log.fatal({ err: error }, 'uncaught exception');
  exit(1);
});

let service: Service | undefined;
onStopSignal(
  (signal) => {
    if (!service) {
      // As process 1 of a container, Node would ignore SIGTERM without a handler, even while the service waits for its
      // database.
      log.info({ signal }, 'stopped before startup was complete');
      exit(0);
    }
    log.info({ signal }, 'shutting down after the accepted requests are finished');
    void stop(service);
  },
  () => exit(1),
);

service = await startService(config, {
  log,
  accessLog: createPlainLog(config.logLevel, destination),
  products: { inThreads: canStartThreads },
  beforeReady: collectGarbage,
}).catch((error: unknown) => {
  const isExpected =
    error instanceof ConfigError ||
    error instanceof DirectoryInUseError ||
    error instanceof UnsuitableDatabaseError ||
    error instanceof CannotListenError;
  if (isExpected) process.stderr.write(`Gauge could not start: ${error.message}\n`);
  else log.fatal({ err: error }, 'Gauge could not start');
  return exit(1);
});

log.info(
  { url: service.url, database: service.context.db.kind, seconds: Math.round(process.uptime() * 10) / 10 },
  'Gauge is ready',
);
// Logged unmasked, because the log may be the only remaining record of the link, and Gauge cannot be set up without a
// link.
if (service.setUpLink && buffer)
  createPlainLog(config.logLevel, buffer).warn(
    service.setUpLink,
    'Gauge has no operator yet. Open this address to set it up. Earlier set-up links no longer work.',
  );
// Flushes the log first, so that the logins appear below it.
buffer?.flushSync();
if (service.greeting !== undefined) process.stdout.write(service.greeting);
else if (service.context.db.kind === 'embedded') process.stdout.write(embeddedNotice);
if (service.setUpLink) process.stdout.write(describeSetUpLink(service.setUpLink.url));

async function stop(running: Service): Promise<void> {
  try {
    await running.stop();
    log.info('stopped');
    exit(0);
  } catch (error) {
    log.fatal({ err: error }, 'shutdown failed');
    exit(1);
  }
}
