import type { Server } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import type { Logger } from 'pino';
import { deleteOldKeyCalls } from './accounts/api-keys/key-use-queries.js';
import { isAnyKeyWatched } from './accounts/api-keys/queries.js';
import { createApp } from './app.js';
import { auditExportJobs } from './accounts/audit/export-heads.js';
import type { Config } from './config.js';
import { systemClock } from './core/time.js';
import { isDatabaseUnavailable } from './core/db/client.js';
import { startJobs, type Job } from './core/db/jobs.js';
import { countNewer, type Opened } from './core/db/migrate.js';
import { connectDatabase, prepareDatabase } from './core/db/open.js';
import { describeAwaited } from './core/db/outage.js';
import { memoryLimitStores, redisLimitStores } from './core/http/limit-store.js';
import { createHttpServer, listen } from './core/http/server.js';
import { createLifecycle } from './core/http/context.js';
import { createMetrics } from './core/metrics.js';
import { readDemo, writeDemo, type DemoData } from './demo/demo.js';
import { seedDemo } from './demo/seed.js';
import { seedDemoTrading } from './markets/demo/trading.js';
import { seedDemoUsage } from './metering/demo/usage.js';
import { createBackfillRunner } from './metering/backfills/runner.js';
import { createReservationWatch } from './metering/reservations/reservations.js';
import { answerPasswordRequests } from './accounts/identity/account/reset.js';
import { deleteOldLinks, type NewLink } from './accounts/identity/links/links.js';
import { createSetUpLink } from './accounts/identity/operators/operators.js';
import { preparePasswordRules } from './accounts/identity/password.js';
import { createSecretBox, resealSecrets } from './accounts/identity/second-factor/secret-box.js';
import { deleteExpiredSessions } from './accounts/identity/session/queries.js';
import { watchPools, watchShards } from './health/database.js';
import { deleteOldFailedSignIns } from './accounts/identity/sign-in/failed-queries.js';
import { createMailSender, deleteOldMails } from './accounts/mail/sender.js';
import { createApiServices, type ApiServices } from './mounts/api.js';
import type { DashboardOptions } from './mounts/dashboard.js';
import { createEndingMessages } from './metering/notices/endings.js';
import { createCapNotices, createKeyNotices, deleteOldNotices } from './metering/notices/notices.js';
import { FREE_FORECASTS, type TradingContext } from './markets/config.js';
import {
  bookingJobs,
  createTradingServices,
  tradingJobs,
  type TradingServices,
} from './markets/services/services.js';
import type { TapePlayer } from './markets/tape/player.js';
import { createDispatcher } from './accounts/webhooks/dispatcher.js';
import { resealWebhookSecrets } from './accounts/webhooks/endpoints.js';
import { webhookJobs } from './accounts/webhooks/upkeep.js';

export interface Service {
  context: TradingContext;
  /** Undefined if markets are off. */
  trading: TradingServices | undefined;
  /** Address of the service, with the actual port. */
  url: string;
  /** Undefined in production and on a database with other data. */
  demo: DemoData | undefined;
  /** Resolves when the demo's past is filled in, or left to a later start. */
  pastReady: Promise<void>;
  /** Link for the first operator; undefined if there is one, or a demo. */
  setUpLink: (Pick<NewLink, 'expiresAt'> & { url: string }) | undefined;
  /** Finishes accepted requests, refuses others, and closes everything that `startService` opened. */
  stop(): Promise<void>;
}

interface ServiceDeps extends Pick<TradingContext, 'log' | 'accessLog'>, DashboardOptions {
  /** Replays the markets of a tape, by its own clock. */
  replay?: TapePlayer;
  /** Days of past to create for an invented world; 0: none. */
  pastDays?: number;
}

/** The address to listen on is unavailable; the message says what to do. */
export class CannotListenError extends Error {}

const MARKETS_WAIT_MS = 3_000;
/** Time for accepted requests to finish; an orchestrator kills after 30 s. */
const DRAIN_MS = 25_000;
/** Time for which new requests still get a 503 after the shutdown has begun. */
const REFUSE_MS = 500;

/** Resolves when the service is ready. It answers 503 from the moment it listens. */
export async function startService(
  config: Config,
  { log, accessLog, ...options }: ServiceDeps,
): Promise<Service> {
  const { replay } = options;
  const context = await openContext(config, { log, accessLog, clock: replay?.clock ?? systemClock });
  const { db, lifecycle, limitStores } = context;
  const services = createApiServices(context);
  const trading = config.hasMarkets ? createTradingServices(context, options) : undefined;
  let demo: DemoData | undefined;
  const listDemoLogins = () => demo?.logins ?? [];
  const server = createHttpServer(createApp(context, services, trading, { ...options, listDemoLogins }), {
    limits: config.limits.connections,
    log,
    accessLog,
  });
  let setUpLink: NewLink | undefined;
  try {
    await listen(server, config).catch((error: NodeJS.ErrnoException) => {
      throw explainListen(error, config);
    });
    // Markets become available at about the same time as the database.
    const refreshed = trading?.refresher.refresh();
    await Promise.all([prepareWhenReachable(db, config, log), preparePasswordRules()]);
    if (trading && !replay) await Promise.all([trading.trainer.load(), tryToJudgeGates(trading, log)]);
    if (!config.production) demo = (await seedDemo(context)) ?? (await readDemo(context));
    // The greeting contains an order to paste.
    if (demo) await Promise.race([refreshed, setTimeout(MARKETS_WAIT_MS, undefined, { ref: false })]);
    if (!demo && !replay) setUpLink = await tryToCreateSetUpLink(context);
  } catch (error) {
    server.close();
    await Promise.allSettled([trading?.stop(), limitStores.close(), db.close()]);
    throw error;
  }
  if (config.production && trading && config.trading.marketSource === 'simulated')
    log.warn('market data is simulated; set MARKET_SOURCE=kalshi to read real markets');
  // A tape does not query forecasts.
  if (trading && !replay && config.trading.hasFreeForecasts)
    log[config.trading.liveOrg === undefined ? 'info' : 'warn'](FREE_FORECASTS);
  lifecycle.state = 'ready';
  // Live trading stays closed until orders, fills, positions and cash agree with the venue's.
  void trading?.live?.reconcile();
  const work = startWork(context, services, trading, { demo, replay });
  const url = urlOf(server, config);
  return {
    context,
    trading,
    url,
    demo,
    pastReady: work.pastReady,
    setUpLink: setUpLink && {
      url: (config.publicUrl ?? url) + setUpLink.path,
      expiresAt: setUpLink.expiresAt,
    },
    async stop() {
      lifecycle.state = 'draining';
      await work.stop();
      // Incoming connections get a 503 and find another instance, instead of a closed port.
      await setTimeout(REFUSE_MS);
      await closeServer(server);
      await Promise.all([
        services.ingestion.drain(),
        services.reservations.drain(),
        services.settlements.drain(),
      ]);
      await services.thresholds.drain();
      await services.keyUse.flush();
      await Promise.all([limitStores.close(), db.close()]);
    },
  };
}

async function openContext(
  config: Config,
  { log, accessLog, clock }: Pick<TradingContext, 'log' | 'accessLog' | 'clock'>,
): Promise<TradingContext & { db: Opened }> {
  const db = await connectDatabase(config, log);
  const metrics = createMetrics();
  watchShards(db.shards, metrics);
  if ('pools' in db) watchPools(db.pools, metrics);
  const limitStores = config.redisUrl
    ? redisLimitStores({ url: config.redisUrl, log, metrics })
    : memoryLimitStores();
  return { config, db, clock, log, accessLog, metrics, lifecycle: createLifecycle(), limitStores };
}

interface DemoOptions {
  demo: DemoData | undefined;
  replay: TapePlayer | undefined;
}

function startWork(
  context: TradingContext,
  services: ApiServices,
  trading: TradingServices | undefined,
  options: DemoOptions,
) {
  const { log } = context;
  const stopping = new AbortController();
  const pastReady = fillDemo(context, services, options, stopping.signal).catch((error: unknown) => {
    if (!stopping.signal.aborted)
      log.warn({ err: error }, "the demo's history could not be completed; the next start continues it");
  });
  const bookings = pastReady.then(() =>
    // Past events are booked at their own times first; the booking jobs would date them now.
    trading && !stopping.signal.aborted ? startJobs(bookingJobs(trading), context) : undefined,
  );
  // Gates stay closed until they have been judged. A failure here is retried on its schedule.
  const filling = pastReady.then(() =>
    trading && !trading.isReplay && !stopping.signal.aborted ? fillPast(trading, log) : undefined,
  );
  const dispatcher = createDispatcher(context);
  dispatcher.start();
  const stopJobs = startJobs(
    [...jobs(context, services), ...(trading ? tradingJobs(context, trading) : [])],
    context,
  );
  return {
    pastReady,
    async stop() {
      stopping.abort();
      // Streams do not end on their own: the server would wait for their readers.
      await trading?.stop();
      await Promise.all([stopJobs(), dispatcher.stop(), bookings.then((stopBookings) => stopBookings?.())]);
      await filling;
    },
  };
}

/** Gates stay closed until they have been judged, which their schedule retries. */
const tryToJudgeGates = ({ scores }: TradingServices, log: Logger): Promise<void> =>
  scores
    .judge()
    .catch((error: unknown) =>
      log.warn({ err: error }, 'the gates could not be judged; the job tries again'),
    );

const fillPast = ({ scores, refresher }: TradingServices, log: Logger): Promise<void> =>
  scores
    .backfill()
    // The results show at once, not only after the next refresh.
    .then(() => refresher.refresh())
    .catch((error: unknown) => log.warn({ err: error }, 'past forecasts and results could not be loaded'));

/** A read-only database, for example, still serves people who need no link. */
const tryToCreateSetUpLink = (context: TradingContext): Promise<NewLink | undefined> =>
  createSetUpLink(context).catch((error: unknown) => {
    context.log.warn({ err: error }, 'no set-up link could be created');
    return undefined;
  });

/**
 * Completes the demo's past that an earlier start, or this one, has left. Every step is keyed and dated to the
 * creation of the demo, so the work of a killed process is found again and nothing is duplicated.
 */
async function fillDemo(
  context: TradingContext,
  { keyUse }: ApiServices,
  { demo, replay }: DemoOptions,
  signal: AbortSignal,
): Promise<void> {
  if (demo?.pastUpTo === undefined) return;
  const { pastUpTo, ...whole } = demo;
  const asOf = { ...context, clock: { now: () => Date.parse(pastUpTo) } };
  await seedDemoUsage(asOf, keyUse, demo, signal);
  // Trades before the beginning of the tape are unknown.
  if (context.config.hasMarkets && !replay) await seedDemoTrading(asOf, demo, signal);
  await writeDemo(context.config.dataDir, whole);
}

const jobs = (context: TradingContext, services: ApiServices): Job[] => [
  ...ownJobs(context, services),
  ...mailJobs(context),
  ...webhookJobs(context),
  ...auditExportJobs(context),
];

const ownJobs = (
  { config, db, clock, metrics, log }: TradingContext,
  { keyUse, thresholds }: ApiServices,
): Job[] => [
  { name: 'send-ending-notices', schedule: '20 */10 * * * *', run: createEndingMessages({ db, clock }) },
  { name: 'evaluate-thresholds', schedule: '* * * * * *', run: () => thresholds.evaluateAll() },
  {
    name: 'count-reservations',
    schedule: '40 * * * * *',
    run: createReservationWatch({ db, clock, metrics, log }),
  },
  { name: 'run-backfills', schedule: '*/2 * * * * *', run: createBackfillRunner({ db, clock }) },
  { name: 'write-key-use', schedule: '*/30 * * * * *', run: () => keyUse.flush() },
  {
    name: 'write-watched-key-use',
    schedule: '*/2 * * * * *',
    run: async () => {
      if (await isAnyKeyWatched(db.orm, new Date(clock.now()))) await keyUse.flush();
    },
  },
  { name: 'delete-old-key-calls', schedule: '0 23 * * * *', run: () => deleteOldKeyCalls(db, clock) },
  {
    name: 'delete-expired-sessions',
    schedule: '0 17 * * * *',
    run: () => deleteExpiredSessions(db, new Date(clock.now())),
  },
  {
    name: 'delete-old-links',
    schedule: '0 19 * * * *',
    run: async () => {
      await deleteOldLinks(db, new Date(clock.now()));
      await deleteOldFailedSignIns(db, new Date(clock.now()));
    },
  },
  {
    name: 'reseal-secrets',
    schedule: '0 29 * * * *',
    run: async () => {
      await resealSecrets(db, createSecretBox(config.secretKeys));
      await resealWebhookSecrets({ config, db, clock });
    },
  },
];

/** If mail is off, this only deletes what an earlier start has left. */
function mailJobs(context: TradingContext): Job[] {
  const { config, db, clock } = context;
  const send = createMailSender(context);
  const answerAndSend = async () => {
    await answerPasswordRequests(context);
    await send();
  };
  return [
    {
      name: 'delete-old-mails',
      schedule: '0 31 * * * *',
      run: async () => {
        await deleteOldMails(db, new Date(clock.now()));
        await deleteOldNotices(db, new Date(clock.now()));
      },
    },
    ...(config.mail
      ? [
          { name: 'send-mails', schedule: '*/5 * * * * *', run: answerAndSend },
          { name: 'mail-cap-notices', schedule: '20 */5 * * * *', run: createCapNotices(context) },
          { name: 'mail-key-notices', schedule: '50 41 * * * *', run: createKeyNotices(context) },
        ]
      : []),
  ];
}

/** Uses localhost, because browsers keep no passkeys for an IP address. In production, people use PUBLIC_URL. */
function urlOf(server: Server, { production }: Config): string {
  const { address, port, family } = server.address() as { address: string; port: number; family: string };
  const isWildcard = address === '0.0.0.0' || address === '::';
  const isLocal = isWildcard || (!production && (address === '127.0.0.1' || address === '::1'));
  return `http://${isLocal ? 'localhost' : family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

function explainListen(error: NodeJS.ErrnoException, { port, host }: Pick<Config, 'port' | 'host'>): Error {
  switch (error.code) {
    case 'EADDRINUSE':
      return new CannotListenError(
        `port ${port} of ${host} is in use. Stop the process that listens there, or set PORT to another port.`,
      );
    case 'EACCES':
      return new CannotListenError(
        `this user may not listen on port ${port} of ${host}. Set PORT to 1024 or above.`,
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new CannotListenError(`${host} is not an address of this machine. Correct HOST.`);
    default:
      return error;
  }
}

/** Waits for a database that starts beside the service, but not if the database refuses the connection. */
async function prepareWhenReachable(db: Opened, config: Config, log: Logger): Promise<void> {
  let lastReason: string | undefined;
  for (let pauseMs = 250; ; pauseMs = Math.min(pauseMs * 2, 5_000)) {
    try {
      await prepareDatabase(db, config);
      const newer = await countNewer(db);
      if (newer > 0)
        log.warn(
          { newerMigrations: newer },
          'a newer version has migrated the database; the changelog says whether this version can run on it',
        );
      return;
    } catch (error) {
      if (!isDatabaseUnavailable(error)) throw error;
      const awaited = describeAwaited(error, config.databaseUrl);
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
  // A connection whose last answer was sent stays open for the client's next request, so it is closed as soon as it is idle.
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
