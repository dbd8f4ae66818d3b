import type { WorkContext } from '../../core/http/context.js';
import { AppError } from '../../core/errors.js';
import type { Source } from '../../accounts/identity/source.js';
import { findOrganization } from '../../accounts/identity/organizations/queries.js';
import { UnexpectedAnswerError, VenueUnavailableError } from '../venue/kalshi-client.js';
import type { VenueBudget } from '../venue/venue-budget.js';
import type { LiveOrder, RestingOrder, VenueOutcome } from '../orders/order.js';
import { recordOutcome } from '../orders/record-outcome.js';
import { shareRun } from '../../core/steps.js';
import { createLease } from '../../core/db/jobs.js';
import type { Clock } from '../../core/time.js';
import { acceptDifferences } from './book.js';
import {
  createAccountStream,
  type AccountStream,
  type AccountStreamTimings,
  type OrderHint,
  type TradeListener,
} from './account-stream.js';
import { compareAccounts, lookUpHinted, reconcile, watchResting, type ReconcileDeps } from './reconcile.js';
import { findLiveAccount, listOrdersNamed, updateLiveAccount } from './queries.js';
import { dissolveOrderGroup } from './order-group.js';
import { createLiveStatus, type LiveReport } from './report.js';
import { sendOrder, withdraw, type SendDeps } from './send.js';
import { signRequest, type VenueKey } from './sign.js';
import { createVenue } from './venue.js';
import type { Authority } from '../../accounts/audit/audit.js';

/** Reconciliations start a minute apart. */
const LEASE_SECONDS = 90;

const timings = {
  timeoutMs: 5_000,
  backoffMs: 250,
  fillPausesMs: [200, 400, 800, 1600],
  lookUpPausesMs: [300, 700, 1500],
  confirmPausesMs: [2_000, 4_000],
  secondLookMs: 2_000,
};
export type LiveTimings = typeof timings;

export interface LiveOptions {
  key: VenueKey | undefined;
  budget: VenueBudget;
  timings?: Partial<LiveTimings> | undefined;
  streamTimings?: Partial<AccountStreamTimings> | undefined;
}

export type LiveTrading = NonNullable<ReturnType<typeof createLiveTrading>>;

/** The account at the venue belongs to one Organization. Undefined unless the configuration names it. */
export function createLiveTrading(
  context: WorkContext,
  { key, budget, timings: given, streamTimings }: LiveOptions,
) {
  const { config, db, clock, log } = context;
  const { liveOrg: slug, kalshi } = config.trading;
  if (slug === undefined || !key) return undefined;
  const all = { ...timings, ...given };
  const now = () => clock.now();
  const stopping = new AbortController();
  const lease = createLease(context, `live-reconciliation ${slug}`, { lengthSeconds: LEASE_SECONDS });
  const status = createLiveStatus(slug, context);
  const venue = createVenue({ ...all, baseUrl: kalshi.baseUrl, key, budget, clock, log });
  const { track, isTracked, settled } = createTracker();
  const sendingIds = { has: isTracked } as ReadonlySet<string>;
  const deps: ReconcileDeps = { ...all, db, venue, now, log, status, lease, sending: sendingIds };
  const watch = createWatch(deps, slug, stopping.signal);
  const reviews = createReviews();
  const depsOf = ({ orgId }: LiveOrder): SendDeps => {
    const close = (problem: string) => {
      watch.close(orgId, problem);
      reviews.start();
    };
    return { ...deps, ...all, close, nextReview: reviews.next };
  };

  const stream = createStreamKeeper(context, { key, timings: streamTimings, watch });

  const change = (order: RestingOrder, remaining: number) =>
    track(order, withdraw(depsOf(order), order, remaining, stopping.signal));

  return {
    assertOpen: () => status.assertOpen(),
    get report(): LiveReport {
      return status.report;
    },
    /** Undefined for any other Organization. */
    reportOf: (orgId: string) => (orgId === watch.owner ? status.report : undefined),
    /** Rejects waiting orders that a switch now blocks. */
    reviewWaiting: reviews.start,
    send: (order: LiveOrder) => track(order, sendOrder(depsOf(order), order, stopping.signal)),
    cancel: (order: RestingOrder) => change(order, 0),
    decrease: (order: RestingOrder, remaining: number) => change(order, remaining),
    async cancelAll(orgId: string) {
      await dissolveOrderGroup(deps, orgId, stopping.signal);
      await watch.watchResting();
    },
    /** A concurrent call joins the running reconciliation. Never rejects. */
    async reconcile() {
      if (context.lifecycle.refusal) return;
      await watch.reconcile();
      if (!stopping.signal.aborted) stream.open();
    },
    /** A concurrent call joins the running pass. Never rejects. */
    watchResting: () => watch.watchResting(),
    /** @throws UnexpectedAnswerError, VenueUnavailableError */
    listQueuePositions: (tickers: readonly string[], signal: AbortSignal) =>
      venue.listQueuePositions(tickers, signal),
    /** Replaces the followed markets. Reports arrive only while the venue's stream is connected. */
    followTrades: stream.followTrades,
    /**
     * Adopts the venue's side of every difference; none if both sides agreed.
     * @throws AppError unavailable while the accounts cannot be compared
     */
    accept: (source: Source, by: Authority) =>
      acceptVenue(deps, { clock, slug, watch, signal: stopping.signal }, source, by),
    async stop(): Promise<void> {
      stopping.abort();
      const { restingOrders } = status.report;
      if (restingOrders > 0) log.warn({ restingOrders }, 'live orders stay in the book at the venue');
      await Promise.all([stream.stop(), watch.settled(), settled()]);
      await lease.release();
    },
  };
}

const LOST = 'the venue no longer knows it';

type Watch = ReturnType<typeof createWatch>;

async function acceptVenue(
  deps: ReconcileDeps,
  { clock, slug, watch, signal }: { clock: Clock; slug: string; watch: Watch; signal: AbortSignal },
  source: Source,
  by: Authority,
) {
  const { db, status } = deps;
  let { account, comparison } = await compareToAccept(deps, slug, signal);
  // The venue has no record of the order.
  const outcome: VenueOutcome = { kind: 'done', venueOrderId: null, fills: [], reason: LOST };
  for (const { orgId, id } of await listOrdersNamed(db.orm, account.orgId, comparison.lost))
    await recordOutcome(db.orm, orgId, id, outcome, source.at);
  if (comparison.lost.length > 0) ({ account, comparison } = await compareToAccept(deps, slug, signal));
  const problem = account.problem ?? status.problem;
  if (comparison.differences.length > 0 || problem !== null)
    await acceptDifferences({ db, clock, by }, { ...account, slug, problem }, comparison, source);
  watch.open();
  await watch.reconcile();
  return { accepted: comparison.differences, report: status.report };
}

/** Once, after the first reconciliation. Until then, only remembers the markets. */
function createStreamKeeper(
  { config, clock, log, metrics }: WorkContext,
  { key, timings: given, watch }: { key: VenueKey; timings: LiveOptions['streamTimings']; watch: Watch },
) {
  let stream: AccountStream | undefined;
  let trades: { tickers: readonly string[]; listener: TradeListener } | undefined;
  return {
    open(): void {
      stream ??= createAccountStream({
        url: config.trading.kalshi.wsUrl,
        headers: (method, path) => signRequest(key, { atMs: clock.now(), method, path }),
        log,
        clock,
        metrics,
        timings: given,
        lookUp: watch.lookUp,
        onMissed: () => void watch.watchResting(),
        onTrade: (ticker, yesPrice) => trades?.listener(ticker, yesPrice),
      });
      if (trades) stream.follow(trades.tickers);
    },
    followTrades(this: void, tickers: readonly string[], listener: TradeListener): void {
      trades = { tickers, listener };
      stream?.follow(tickers);
    },
    stop: async (): Promise<void> => stream?.stop(),
  };
}

function createTracker() {
  const sending = new Map<string, Promise<unknown>>();
  return {
    isTracked: (id: string): boolean => sending.has(id),
    settled: () => Promise.allSettled(sending.values()),
    track: async (order: LiveOrder, work: Promise<VenueOutcome>): Promise<VenueOutcome> => {
      const before = sending.get(order.id);
      const both = Promise.allSettled([before, work]);
      sending.set(order.id, both);
      try {
        return await work;
      } finally {
        if (sending.get(order.id) === both) sending.delete(order.id);
      }
    },
  };
}

function createReviews() {
  let next = new AbortController();
  return {
    /** Aborts when the next review starts. */
    next: (): AbortSignal => next.signal,
    start: (): void => {
      const due = next;
      next = new AbortController();
      due.abort();
    },
  };
}

/** One at a time. Shares problems that close live trading with the other instances. */
function createWatch(deps: ReconcileDeps, slug: string, stopping: AbortSignal) {
  const { db, status, now, log } = deps;
  let unsharedProblem: string | undefined;
  let owner: string | undefined;

  /** Live trading stays closed until a person accepts the problem on one instance. */
  async function shareProblem(orgId: string): Promise<void> {
    if (unsharedProblem !== undefined) {
      await updateLiveAccount(db.orm, orgId, { problem: unsharedProblem, updatedAt: new Date(now()) });
      unsharedProblem = undefined;
      return;
    }
    const account = await findLiveAccount(db.orm, orgId);
    status.setProblem(account?.problem ?? null);
  }

  async function once(): Promise<void> {
    const before = status.report.reason;
    try {
      const orgId = (await findOrganization(db.orm, { slug }))?.id;
      owner = orgId;
      if (orgId === undefined) status.failed(`there is no Organization "${slug}"`, false);
      else {
        await shareProblem(orgId);
        await reconcile(deps, orgId, stopping);
      }
    } catch (error) {
      if (stopping.aborted) return;
      const isUnexpected = error instanceof UnexpectedAnswerError;
      const isOfVenue = isUnexpected || error instanceof VenueUnavailableError;
      const what = isOfVenue ? error.message.slice(0, 300) : 'the comparison failed on our side';
      status.failed(`the venue's account cannot be read: ${what}`, isUnexpected);
      log.warn({ err: error }, "the live account could not be compared with the venue's");
    }
    const { reason, differences } = status.report;
    if (reason !== before && reason !== null) log.error({ reason, differences }, 'live trading is closed');
    if (reason !== before && reason === null) log.info('live trading is open');
  }

  /** The reconciliation makes the same requests and reports failures. */
  async function watchOnce(): Promise<void> {
    try {
      if (owner !== undefined && reconciling.running === undefined) await watchResting(deps, owner, stopping);
    } catch (error) {
      if (!stopping.aborted)
        log.warn({ err: error }, 'orders in the book at the venue could not be looked up');
    }
  }

  const reconciling = shareRun(once);
  const watching = shareRun(watchOnce);
  return {
    get owner() {
      return owner;
    },
    settled: () => Promise.allSettled([reconciling.running, watching.running]),
    watchResting: watching.run,
    reconcile: reconciling.run,
    lookUp: async (hints: readonly OrderHint[]): Promise<readonly OrderHint[]> =>
      owner === undefined || stopping.aborted ? [] : lookUpHinted(deps, owner, hints, stopping),
    close(orgId: string, problem: string): void {
      log.error({ problem }, 'live trading is closed: a venue response is unreadable');
      status.setProblem(problem);
      unsharedProblem = problem;
      shareProblem(orgId).catch((error: unknown) =>
        log.error({ err: error }, 'the other instances learn later that live trading is closed'),
      );
    },
    open(): void {
      unsharedProblem = undefined;
      status.setProblem(null);
    },
  };
}

/** @throws AppError unavailable while the accounts cannot be compared */
async function compareToAccept(deps: ReconcileDeps, slug: string, signal: AbortSignal) {
  const { db, status } = deps;
  const orgId = (await findOrganization(db.orm, { slug }))?.id;
  const account = orgId === undefined ? undefined : await findLiveAccount(db.orm, orgId);
  if (orgId === undefined || !account)
    throw new AppError('unavailable', `The live account is not open yet: ${status.report.reason}.`);
  const comparison = await compareAccounts(deps, orgId, signal).catch((error: unknown) => {
    const what = error instanceof Error ? error.message.slice(0, 300) : '';
    throw new AppError('unavailable', `The venue's account cannot be read: ${what}`, { cause: error });
  });
  if (comparison?.gap)
    throw new AppError('unavailable', `The venue's account cannot be read: ${comparison.gap.message}`);
  if (!comparison) {
    const detail = 'The outcome of an order is not known yet, so the accounts cannot be compared.';
    throw new AppError('unavailable', detail, { retryAfterSeconds: 60 });
  }
  const { accepted, problem } = account;
  return { account: { orgId, accepted, problem }, comparison };
}
