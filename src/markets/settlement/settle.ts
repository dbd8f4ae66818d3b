import { byService, confirmAuthority } from '../../accounts/audit/audit.js';
import type { WorkContext } from '../../core/http/context.js';
import { DAY_MS, MINUTE_MS } from '../../core/time.js';
import type { Orm } from '../../core/db/client.js';
import { newId } from '../../core/ids.js';
import { inChunks } from '../../core/steps.js';
import { beforeAll, listHeldTickers, lockAccount, type Account } from '../ledger/queries.js';
import { ledgerEntries, tradingSettlements } from '../ledger/portfolio-table.js';
import { queueForTradeMode } from '../ledger/webhooks.js';
import type { ListedMarket, MarketResult } from '../market/market.js';
import { dollarsOrNull, formatDollars } from '../market/money.js';
import type { MarketSource } from '../market/source.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import {
  closePositions,
  listHolders,
  listRecentTickers,
  listOutdatedAccounts,
  moveCash,
  readPositions,
  readRecorded,
  type ListAccounts,
} from './queries.js';
import {
  doubtAbout,
  planSettlement,
  settlementEventOf,
  type PlannedEvent,
  type SettlementEvent,
} from './settlement-event.js';

/**
 * In one transaction under the account's lock. Idempotent across instances: the second waits for the lock and sees the
 * first one's rows.
 * @returns `hasMoved` if money was booked, even for a payout of zero
 */
export const settleAccount = (
  orm: Orm,
  account: Account,
  events: ReadonlyMap<string, SettlementEvent>,
  at: Date,
): Promise<{ events: number; hasMoved: boolean }> =>
  orm.transaction(async (tx) => {
    if ((await lockAccount(tx, account)) === undefined)
      throw new Error(`the account ${account.orgId} ${account.mode} holds positions but does not exist`);
    const tickers = [...events.keys()];
    const positions = await readPositions(tx, account, tickers);
    const recorded = await readRecorded(tx, account, tickers);
    const planned = positions.flatMap(({ ticker, eventTicker, ...held }) => {
      const before = recorded.filter((row) => row.ticker === ticker);
      return planSettlement(held, before, events.get(ticker)!).map((event) => ({
        ...event,
        ticker,
        eventTicker,
      }));
    });
    if (planned.length === 0) return { events: 0, hasMoved: false };
    await write(tx, account, planned, at);
    return { events: planned.length, hasMoved: planned.some(({ entry }) => entry !== null) };
  });

type NamedEvent = PlannedEvent & { ticker: string; eventTicker: string };

async function write(tx: Orm, account: Account, planned: NamedEvent[], at: Date): Promise<void> {
  await tx.insert(tradingSettlements).values(
    planned.map(({ entry, ...event }) => ({
      ...account,
      ...event,
      cashChange: entry?.postings.cash ?? 0n,
      at,
    })),
  );
  const entries = planned.flatMap(({ entry, ticker, n }) => (entry ? [{ ...entry, ticker, n }] : []));
  if (entries.length === 0) return;
  await tx.insert(ledgerEntries).values(
    entries.map(({ kind, postings, ticker, n }) => ({
      ...account,
      ...postings,
      id: newId(at.getTime()),
      kind,
      at,
      ticker,
      settlementN: n,
    })),
  );
  for (const event of planned) await notifySettled(tx, account, event, at);
  const earned = new Map<string, bigint>();
  for (const { ticker, postings } of entries)
    earned.set(ticker, (earned.get(ticker) ?? 0n) - postings.realised);
  await closePositions(tx, account, earned, at);
  const cash = entries.reduce((sum, { postings }) => sum + postings.cash, 0n);
  await moveCash(tx, account, cash);
}

async function notifySettled(
  tx: Orm,
  { orgId, mode }: Account,
  { entry, state, value, temperature, ticker, eventTicker, side, contracts }: NamedEvent,
  at: Date,
): Promise<void> {
  if (!entry || (state !== 'finalized' && state !== 'void')) return;
  const data = {
    mode,
    ticker,
    eventTicker,
    state,
    value: dollarsOrNull(value),
    temperature,
    side,
    contracts,
    payout: formatDollars(entry.postings.cash),
    isCorrection: entry.kind === 'correction',
  };
  const decided = await confirmAuthority(tx, byService, at);
  await queueForTradeMode(decided, mode, { orgId, type: 'market.settled', data, at });
}

/** The venue may amend a result for this long. */
const AMENDABLE_MS = 7 * DAY_MS;
/** For markets outside the regular refresh, and results that the venue may still amend. */
const RECHECK_MS = 5 * MINUTE_MS;
const TICKERS_AT_ONCE = 500;
const ACCOUNTS_AT_ONCE = 100;
/** They mostly wait for the database. */
const PARALLEL = 4;

interface SettleDeps extends Pick<WorkContext, 'clock' | 'log'> {
  orm: Orm;
  markets: MarketSource;
  onMoved: (account: Account) => Promise<void>;
}

export interface SettleReport {
  events: number;
  moved: number;
  /** The next pass tries these accounts again. */
  failed: number;
}

/** Markets outside the regular refresh are requested by ticker, at most every `RECHECK_MS`. */
function createEnds({ markets, clock, log }: Pick<SettleDeps, 'markets' | 'clock' | 'log'>) {
  const askedAt = new Map<string, number>();
  const doubted = new Set<string>();

  async function learn(snapshot: Snapshot, tickers: string[], signal: AbortSignal) {
    const { results, doubts } = snapshot.data;
    const resultOf = (ticker: string) => snapshot.markets.get(ticker) ?? results?.get(ticker);
    const listed = tickers.flatMap((ticker) => resultOf(ticker) ?? []);
    // A market in doubt may be shown as it was before the venue decided it.
    const isUnsure = (ticker: string) => resultOf(ticker) === undefined || doubts?.has(ticker) === true;
    const gone = tickers.filter((ticker) => isUnsure(ticker) && !askedAt.has(ticker));
    const events = new Map<string, SettlementEvent>();
    for (const market of [...listed, ...(await find(gone, signal))]) {
      const doubt = doubtAbout(market);
      if (doubt !== undefined && !doubted.has(`${market.ticker} ${doubt}`)) {
        doubted.add(`${market.ticker} ${doubt}`);
        log.warn({ ticker: market.ticker }, doubt);
      }
      const event = settlementEventOf(market);
      if (event) events.set(market.ticker, event);
    }
    return events;
  }

  /** If the venue cannot be read, known results still settle. */
  async function find(tickers: string[], signal: AbortSignal): Promise<(ListedMarket | MarketResult)[]> {
    if (tickers.length === 0) return [];
    try {
      const found = await markets.find(tickers, signal);
      for (const ticker of tickers) askedAt.set(ticker, clock.now());
      return found;
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ err: error, markets: tickers.length }, 'settled markets could not be read from the venue');
      return [];
    }
  }

  return {
    learn,
    forget(isRecent: (at: number) => boolean): void {
      for (const [ticker, at] of askedAt) if (!isRecent(at)) askedAt.delete(ticker);
    },
  };
}

/** Passes share the times at which markets were last requested. */
export function createSettling({ orm, markets, clock, log, onMoved }: SettleDeps) {
  const ends = createEnds({ markets, clock, log });
  let checkedAt = -Infinity;
  /** Setting the clock back delays nothing. */
  const isRecent = (at: number) => Math.abs(clock.now() - at) < RECHECK_MS;

  /** @param mayContinue checked between parts of the work; once false, the rest is left to other instances */
  async function pass(snapshot: Snapshot, signal: AbortSignal, mayContinue: () => Promise<boolean>) {
    const report: SettleReport = { events: 0, moved: 0, failed: 0 };
    const now = clock.now();
    ends.forget(isRecent);
    const settleAll = async (
      tickersAfter: (after: string) => Promise<{ ticker: string }[]>,
      list: ListAccounts,
    ) => {
      for (let last = '', page; ; last = page.at(-1)!.ticker) {
        page = await tickersAfter(last);
        if (page.length > 0) {
          const tickers = page.map(({ ticker }) => ticker);
          const events = await ends.learn(snapshot, tickers, signal);
          if (events.size > 0 && !(await walk(events, list, report, mayContinue))) return false;
        }
        if (page.length < TICKERS_AT_ONCE) return true;
      }
    };
    if (!(await settleAll((after) => listHeldTickers(orm, after, TICKERS_AT_ONCE), listHolders)))
      return report;
    if (isRecent(checkedAt)) return report;
    const since = new Date(now - AMENDABLE_MS);
    const recent = (after: string) => listRecentTickers(orm, since, after, TICKERS_AT_ONCE);
    if (await settleAll(recent, listOutdatedAccounts)) checkedAt = now;
    return report;
  }

  async function walk(
    events: ReadonlyMap<string, SettlementEvent>,
    list: ListAccounts,
    report: SettleReport,
    mayContinue: () => Promise<boolean>,
  ): Promise<boolean> {
    for (let after = beforeAll; ;) {
      if (!(await mayContinue())) return false;
      const accounts = await list(orm, events, after, ACCOUNTS_AT_ONCE);
      for (const some of inChunks(accounts, PARALLEL))
        await Promise.all(some.map((account) => settleOne(account, events, report)));
      if (accounts.length < ACCOUNTS_AT_ONCE) return true;
      after = accounts.at(-1)!;
    }
  }

  /** A failing account does not hold up the others. */
  async function settleOne(
    account: Account,
    events: ReadonlyMap<string, SettlementEvent>,
    report: SettleReport,
  ): Promise<void> {
    try {
      const settled = await settleAccount(orm, account, events, new Date(clock.now()));
      report.events += settled.events;
      if (!settled.hasMoved) return;
      report.moved++;
      await onMoved(account);
    } catch (error) {
      report.failed++;
      log.error({ err: error, ...account }, 'an account could not be settled; the job tries again');
    }
  }

  return { pass };
}
