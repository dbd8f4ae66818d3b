import { ConfigError } from './core/config.js';
import { readConfig, type Config } from './config.js';
import { UnsuitableDatabaseError } from './core/db/check-server.js';
import { DirectoryInUseError } from './core/db/directory-lock.js';
import { embeddedNotice } from './greeting.js';
import { createBlockStream, createLogger, createPlainLog, createTerminalStream } from './core/log/log.js';
import { collectGarbage, limitHeapGrowth } from './core/memory.js';
import { useProxies } from './core/http/proxy.js';
import { onStopSignal } from './core/stop-signals.js';
import { canStartThreads } from './core/threads.js';
import { describeSetUpLink } from './accounts/identity/operators/operators.js';
import { CannotListenError, startService, type Service } from './service.js';

async function configure(): Promise<Config> {
  try {
    const config = readConfig(process.env);
    await useProxies();
    return config;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return process.exit(1);
  }
}

limitHeapGrowth();
const { stdout, stderr } = process;
// Without a reader, the service goes on.
for (const stream of [stdout, stderr]) stream.on('error', () => undefined);
const config = await configure();
const buffer = process.stdout.isTTY
  ? undefined
  : createBlockStream(({ code }) =>
      stderr.write(`Gauge cannot write its log to standard output (${code}), and continues.\n`),
    );
const destination = buffer ?? (await createTerminalStream(stdout));
const log = createLogger(config.logLevel, destination, config.secrets);

async function exit(code: number): Promise<never> {
  await buffer?.flush();
  process.exit(code);
}

process.on('uncaughtException', (error) => {
  log.fatal({ err: error }, 'uncaught exception');
  void exit(1);
});

let service: Service | undefined;
onStopSignal(
  (signal) => {
    if (!service) {
      // As process 1 of a container, Node would ignore SIGTERM without a handler, even while the service waits for its
      // database.
      log.info({ signal }, 'stopped before startup was complete');
      void exit(0);
      return;
    }
    log.info({ signal }, 'shutting down after the accepted requests are finished');
    void stop(service);
  },
  () => process.exit(1),
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
  if (isExpected) stderr.write(`Gauge could not start: ${error.message}\n`);
  else log.fatal({ err: error }, 'Gauge could not start');
  return exit(1);
});

log.info(
  {
    url: service.url,
    health: service.healthUrl,
    database: service.context.db.kind,
    seconds: Math.round(process.uptime() * 10) / 10,
  },
  'Gauge is ready',
);
// Written to the same stream as the log, so that the logins appear below it.
const screen = buffer ?? stdout;
if (service.greeting !== undefined) screen.write(service.greeting);
else if (service.context.db.kind === 'embedded') screen.write(embeddedNotice);
if (service.setUpLink && !buffer) stdout.write(describeSetUpLink(service.setUpLink.url));
// Logged unmasked and at every LOG_LEVEL, because the log may be the only remaining record of the link, and Gauge cannot
// be set up without a link.
else if (service.setUpLink)
  createPlainLog('warn', destination).warn(
    service.setUpLink,
    'Gauge has no operator yet. Open this address to set it up. Earlier set-up links no longer work.',
  );
await buffer?.flush();

async function stop(running: Service): Promise<void> {
  try {
    await running.stop();
    log.info('stopped');
    await exit(0);
  } catch (error) {
    log.fatal({ err: error }, 'shutdown failed');
    await exit(1);
  }
}
