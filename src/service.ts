import type { Server } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { accountJobs } from './accounts/jobs.js';
import { createSetUpLink } from './accounts/identity/operators/operators.js';
import type { NewLink } from './accounts/identity/links/links.js';
import { preparePasswordRules } from './accounts/identity/password.js';
import { createChat } from './accounts/webhooks/chat.js';
import { createDispatcher } from './accounts/webhooks/dispatcher.js';
import { createApp, healthApp } from './app.js';
import type { Config } from './config.js';
import { systemClock, type Clock } from './core/time.js';
import { isDatabaseUnavailable } from './core/db/client.js';
import { startJobs } from './core/db/jobs.js';
import { countNewer, OutdatedError, type OpenDatabase } from './core/db/migrate.js';
import { connectDatabase, prepareDatabase } from './core/db/open.js';
import { describeAwaited } from './core/db/outage.js';
import { createLifecycle, type Context } from './core/http/context.js';
import { memoryLimitStores, redisLimitStores } from './core/http/limit-store.js';
import { createHttpServer, listen } from './core/http/server.js';
import { createMetrics } from './core/metrics.js';
import { describeDemo } from './greeting.js';
import { keepSecret, readDemo, writeDemo, type DemoData } from './demo/demo.js';
import { createDemoPortal, seedDemo } from './demo/seed.js';
import { watchPools, watchShards } from './health/database.js';
import { createReadiness } from './health/readiness.js';
import type { DashboardOptions } from './mounts/dashboard.js';
import type { ProductOptions, Services } from './product.js';
import { createProducts, products, webhookTypes, type Running } from './products.js';

export interface Service {
  context: Context;
  services: Services;
  /** With the port in use. */
  url: string;
  /** Undefined without HEALTH_PORT. */
  healthUrl: string | undefined;
  /** Undefined in production and if the database has other data. */
  demo: DemoData | undefined;
  /** Undefined without a demo. */
  greeting: string | undefined;
  /** Also resolves if a later start must complete the demo's past. */
  pastReady: Promise<unknown>;
  /** Undefined if an operator or a demo exists. */
  setUpLink: (Pick<NewLink, 'expiresAt'> & { url: string }) | undefined;
  /** Finishes accepted requests and closes everything that `startService` opened. */
  stop(): Promise<void>;
}

interface ServiceDeps extends Pick<Context, 'log' | 'accessLog'>, DashboardOptions {
  clock?: Clock;
  products?: ProductOptions;
  beforeReady?: () => void;
}

/** The message says what to do. */
export class CannotListenError extends Error {}

/** For a demo's products to load at startup. */
const LOADING_WAIT_MS = 3_000;
/** Orchestrators kill the process after 30 s. */
const DRAIN_MS = 25_000;
/** New requests still get a 503 for this long. */
const REFUSE_MS = 500;

/** Until the service is ready, it responds with 503. */
export async function startService(
  config: Config,
  { log, accessLog, clock = systemClock, products: options, beforeReady, ...pages }: ServiceDeps,
): Promise<Service> {
  const kept = await keepSecrets(config);
  const deps = { log, accessLog, clock };
  const context = await openContext({ ...config, ...kept }, deps, options?.inThreads);
  const { db, lifecycle, limitStores } = context;
  const running = createProducts(context, options);
  const { services } = running;
  const stopProducts = () => Promise.all(running.products.map(async ({ stop }) => stop?.()));
  let demo: DemoData | undefined;
  const listDemoLogins = () => demo?.logins ?? [];
  const readiness = createReadiness(context);
  const app = createApp(context, running, { ...pages, listDemoLogins }, readiness);
  const { keepAliveMs } = config;
  const server = createHttpServer(app, { limits: config.limits.connections, keepAliveMs, log, accessLog });
  const healthServer =
    config.healthPort === undefined ? undefined : createHttpServer(healthApp(app), { log, accessLog });
  let setUpLink: NewLink | undefined;
  try {
    await listenOn(server, config, 'PORT');
    if (healthServer)
      await listenOn(healthServer, { host: config.host, port: config.healthPort! }, 'HEALTH_PORT');
    const loading = Promise.all(running.products.map(async ({ beginLoading }) => beginLoading?.()));
    await Promise.all([prepareWhenReachable(context), preparePasswordRules()]);
    // An instance whose clock differs must not answer even its first request, nor begin any work.
    await readiness.check();
    await Promise.all(running.products.map(async ({ load }) => load?.()));
    const parts = products.map((product) => product.demo);
    if (!config.production) demo = (await seedDemo(context, parts)) ?? (await readDemo(context, parts));
    // The greeting shows commands that need the loaded data.
    if (demo) await Promise.race([loading, setTimeout(LOADING_WAIT_MS, undefined, { ref: false })]);
    else setUpLink = await tryToCreateSetUpLink(context);
  } catch (error) {
    server.close();
    healthServer?.close();
    await Promise.allSettled([stopProducts(), limitStores.close(), db.close()]);
    throw error;
  }
  for (const { start } of running.products) start?.();
  const stopWatch = readiness.watch();
  const work = startWork(context, running, demo);
  const url = urlOf(server, config);
  const greeting =
    demo &&
    describeDemo(demo, url, running.products, {
      operatorToken: kept.operatorTokens[0]?.token,
      portalPath: await createDemoPortal(context),
    });
  beforeReady?.();
  lifecycle.state = 'ready';
  return {
    context,
    services,
    url,
    healthUrl: healthServer && urlOf(healthServer, config),
    demo,
    greeting,
    pastReady: work.pastReady,
    setUpLink: setUpLink && {
      url: (config.publicUrl ?? url) + setUpLink.path,
      expiresAt: setUpLink.expiresAt,
    },
    async stop() {
      lifecycle.state = 'draining';
      stopWatch();
      await work.stop();
      // After a 503, clients try another instance; a closed port would not tell them.
      await setTimeout(REFUSE_MS);
      await closeServer(server);
      if (healthServer) await closeServer(healthServer);
      await Promise.all(running.products.map(async ({ drain }) => drain?.()));
      await services.keyUse.flush();
      await Promise.all([limitStores.close(), db.close()]);
    },
  };
}

/** Without a writable data directory, a restart signs everybody out, and there is no operator API. */
async function keepSecrets(config: Config): Promise<Pick<Config, 'sessionKeys' | 'operatorTokens'>> {
  const keep = (name: Parameters<typeof keepSecret>[1]): Promise<string | undefined> =>
    keepSecret(config.dataDir, name).catch(() => undefined);
  const { production, sessionKeys, operatorTokens } = config;
  const key = sessionKeys ? undefined : await keep('session-key');
  const token = production || operatorTokens.length > 0 ? undefined : await keep('operator-token');
  return {
    sessionKeys: key === undefined ? sessionKeys : [key],
    operatorTokens: token === undefined ? operatorTokens : [{ actor: 'operator', token }],
  };
}

async function openContext(
  config: Config,
  { log, accessLog, clock }: Pick<Context, 'log' | 'accessLog' | 'clock'>,
  inThreads: boolean | undefined,
): Promise<Context & { db: OpenDatabase }> {
  const db = await connectDatabase(config, log, inThreads);
  const metrics = createMetrics(products.map((product) => product.createMetrics));
  watchShards(db.shards, metrics);
  if ('pools' in db) watchPools(db.pools, metrics);
  const limitStores = config.redisUrl
    ? redisLimitStores({ url: config.redisUrl, log, metrics })
    : memoryLimitStores();
  return { config, db, clock, log, accessLog, metrics, lifecycle: createLifecycle(), limitStores };
}

function startWork(context: Context, { products: running, services }: Running, demo: DemoData | undefined) {
  const { log } = context;
  const stopping = new AbortController();
  const succeeds = (work: Promise<unknown>, warning: string): Promise<boolean> =>
    work.then(
      () => true,
      (error: unknown) => {
        if (!stopping.signal.aborted) log.warn({ err: error }, warning);
        return false;
      },
    );
  const pastReady = succeeds(
    fillDemo(context, running, demo, stopping.signal),
    "the demo's history could not be completed; the next start continues it",
  );
  const afterPast = pastReady.then((isFilled) => {
    if (stopping.signal.aborted) return undefined;
    const finish = async () => {
      const isDone = await succeeds(
        Promise.all(running.map(async (product) => product.afterPast?.())),
        'the results of the past could not be completed',
      );
      // An interrupted part ends early without an error.
      if (isFilled && isDone && !stopping.signal.aborted) await forgetPast(context, demo);
    };
    return {
      stopJobs: startJobs(
        running.flatMap(({ jobsAfterPast = [] }) => jobsAfterPast),
        context,
      ),
      done: finish(),
    };
  });
  const { publicUrl, port } = context.config;
  const chat = createChat(webhookTypes, publicUrl ?? `http://localhost:${port}`);
  const dispatcher = createDispatcher(context, chat);
  dispatcher.start();
  const stopJobs = startJobs(
    [...accountJobs(context, services.keyUse), ...running.flatMap(({ jobs }) => jobs)],
    context,
  );
  return {
    pastReady,
    async stop() {
      stopping.abort();
      await Promise.all(running.map(async (product) => product.stop?.()));
      const after = await afterPast;
      await Promise.all([stopJobs(), dispatcher.stop(), after?.stopJobs()]);
      await after?.done;
    },
  };
}

/** Every step has a fixed key and date, so resuming after a crash duplicates nothing. */
async function fillDemo(
  context: Context,
  running: Running['products'],
  demo: DemoData | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (demo?.pastUpTo === undefined) return;
  const { pastUpTo } = demo;
  const asOf = { ...context, clock: { now: () => Date.parse(pastUpTo) } };
  const fills = running.map(async (product) => product.fillDemo?.(asOf, demo, signal));
  // After an error the caller closes the database.
  await Promise.allSettled(fills);
  await Promise.all(fills);
}

/** Later starts do not try to fill in the past. */
async function forgetPast({ config }: Context, demo: DemoData | undefined): Promise<void> {
  if (demo?.pastUpTo === undefined) return;
  const { pastUpTo: _, ...whole } = demo;
  await writeDemo(config.dataDir, whole);
}

/** A failure is only logged: without a link, for example on a read-only database, the service is still useful. */
const tryToCreateSetUpLink = (context: Context): Promise<NewLink | undefined> =>
  createSetUpLink(context).catch((error: unknown) => {
    context.log.warn({ err: error }, 'no set-up link could be created');
    return undefined;
  });

/** Localhost, because browsers do not store passkeys for IP addresses. In production, people use PUBLIC_URL. */
function urlOf(server: Server, { production }: Config): string {
  const { address, port, family } = server.address() as { address: string; port: number; family: string };
  const isWildcard = address === '0.0.0.0' || address === '::';
  const isLocal = isWildcard || (!production && (address === '127.0.0.1' || address === '::1'));
  return `http://${isLocal ? 'localhost' : family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

const listenOn = (server: Server, address: Address, name: string): Promise<void> =>
  listen(server, address).catch((error: NodeJS.ErrnoException) => {
    throw explainListen(error, address, name);
  });

type Address = Pick<Config, 'port' | 'host'>;

function explainListen(error: NodeJS.ErrnoException, { port, host }: Address, name: string): Error {
  switch (error.code) {
    case 'EADDRINUSE':
      return new CannotListenError(
        `port ${port} of ${host} is in use. Stop the process that listens there, or set ${name} to another port.`,
      );
    case 'EACCES':
      return new CannotListenError(
        `this user may not listen on port ${port} of ${host}. Set ${name} to 1024 or above.`,
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new CannotListenError(`${host} is not an address of this machine. Correct HOST.`);
    default:
      return error;
  }
}

/** Waits where a restart would not help: for a starting database or a newer version. Fails if it is refused. */
async function prepareWhenReachable({
  db,
  config,
  log,
  lifecycle,
}: Context & { db: OpenDatabase }): Promise<void> {
  let lastReason: string | undefined;
  for (let pauseMs = 250; ; pauseMs = Math.min(pauseMs * 2, 5_000)) {
    try {
      await prepareDatabase(db, config);
      const newer = await countNewer(db);
      if (newer > 0)
        log.warn(
          { newerMigrations: newer },
          'a newer version has migrated the database, and says that this version can run on it',
        );
      lifecycle.refusal = undefined;
      return;
    } catch (error) {
      const isOutdated = error instanceof OutdatedError;
      if (!isOutdated && !isDatabaseUnavailable(error)) throw error;
      const awaited = isOutdated ? error.message : describeAwaited(error, config.databaseUrl);
      lifecycle.refusal = isOutdated ? { code: 'unavailable', detail: awaited } : undefined;
      if (awaited !== lastReason) log.warn(awaited);
      lastReason = awaited;
      await setTimeout(pauseMs);
    }
  }
}

async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  // Clients keep connections open for their next request.
  const sweep = setInterval(() => server.closeIdleConnections(), 50);
  const deadline = new AbortController();
  await Promise.race([
    closed,
    setTimeout(DRAIN_MS, undefined, { signal: deadline.signal }).catch(() => undefined),
  ]);
  deadline.abort();
  clearInterval(sweep);
  server.closeAllConnections();
}
