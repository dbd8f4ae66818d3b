import type { Logger } from 'pino';
import type { Clock } from '../../core/clock.js';
import type { Orm } from '../../core/db/client.js';
import { inChunks } from '../market/chunks.js';
import type { ListedMarket } from '../market/market.js';
import type { MarketSource } from '../market/source.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import {
  beforeAll,
  listHeldTickers,
  listHolders,
  listRecentTickers,
  listToldOtherwise,
  type Account,
} from './queries.js';
import { settleAccount } from './settle-account.js';
import { doubtAbout, wordOf, type Word } from './settle-word.js';

/** The venue may take its word back for so long. */
const AMENDABLE_MS = 7 * 24 * 60 * 60 * 1000;
/** How often it is asked about markets that no refresh reads any more, and whether it has changed a word. */
const LOOK_AGAIN_MS = 5 * 60 * 1000;
/** Markets that are looked at together. */
const TICKERS_AT_ONCE = 500;
const ACCOUNTS_AT_ONCE = 100;
/** Transactions side by side: they spend their time waiting for the database. */
const PARALLEL = 4;

export interface SettleDeps {
  orm: Orm;
  markets: MarketSource;
  clock: Clock;
  log: Logger;
  /** Called after an account's cash has moved. */
  onMoved: (account: Account) => Promise<void>;
}

export interface SettleReport {
  /** Rows that were recorded. */
  words: number;
  /** Accounts whose money moved. */
  moved: number;
  /** Accounts that could not be settled; they are tried again with the next pass. */
  failed: number;
}

/** Passes over everything that is held, or was settled lately. What one pass has learned spares the next one questions. */
export function createSettling({ orm, markets, clock, log, onMoved }: SettleDeps) {
  const askedAt = new Map<string, number>();
  const doubted = new Set<string>();
  let checkedAt = -Infinity;
  /** In both directions: a clock that was set back must not keep anything waiting. */
  const isRecent = (at: number) => Math.abs(clock.now() - at) < LOOK_AGAIN_MS;

  type List = (words: ReadonlyMap<string, Word>, after: Account) => Promise<Account[]>;
  const holders: List = (words, after) => listHolders(orm, words, after, ACCOUNTS_AT_ONCE);
  const toldOtherwise: List = (words, after) => listToldOtherwise(orm, words, after, ACCOUNTS_AT_ONCE);

  /**
   * @param mayGoOn asked between the parts of the work; once it is false, what is left is left to others
   */
  async function pass(
    snapshot: Snapshot,
    signal: AbortSignal,
    mayGoOn: () => Promise<boolean>,
  ): Promise<SettleReport> {
    const report: SettleReport = { words: 0, moved: 0, failed: 0 };
    const now = clock.now();
    for (const [ticker, at] of askedAt) if (!isRecent(at)) askedAt.delete(ticker);
    const settleAll = async (tickersAfter: (after: string) => Promise<{ ticker: string }[]>, list: List) => {
      for (let last = '', page; ; last = page.at(-1)!.ticker) {
        page = await tickersAfter(last);
        if (page.length > 0) {
          const words = await learn(
            snapshot,
            page.map(({ ticker }) => ticker),
            signal,
          );
          if (words.size > 0 && !(await walk(words, list, report, mayGoOn))) return false;
        }
        if (page.length < TICKERS_AT_ONCE) return true;
      }
    };
    if (!(await settleAll((after) => listHeldTickers(orm, after, TICKERS_AT_ONCE), holders))) return report;
    if (isRecent(checkedAt)) return report;
    const since = new Date(now - AMENDABLE_MS);
    const recent = (after: string) => listRecentTickers(orm, since, after, TICKERS_AT_ONCE);
    if (await settleAll(recent, toldOtherwise)) checkedAt = now;
    return report;
  }

  /** The venue's present words about those of the markets of which it has one. */
  async function learn(
    snapshot: Snapshot,
    tickers: string[],
    signal: AbortSignal,
  ): Promise<Map<string, Word>> {
    const listed = tickers.flatMap((ticker) => snapshot.markets.get(ticker) ?? []);
    const gone = tickers.filter((ticker) => !snapshot.markets.has(ticker) && !askedAt.has(ticker));
    const words = new Map<string, Word>();
    for (const market of [...listed, ...(await find(gone, signal))]) {
      const doubt = doubtAbout(market);
      if (doubt !== undefined && !doubted.has(`${market.ticker} ${doubt}`)) {
        doubted.add(`${market.ticker} ${doubt}`);
        log.warn({ ticker: market.ticker }, doubt);
      }
      const word = wordOf(market);
      if (word) words.set(market.ticker, word);
    }
    return words;
  }

  /** A venue that cannot be asked holds up nothing that is known. */
  async function find(tickers: string[], signal: AbortSignal): Promise<ListedMarket[]> {
    if (tickers.length === 0) return [];
    try {
      const found = await markets.find(tickers, signal);
      for (const ticker of tickers) askedAt.set(ticker, clock.now());
      return found;
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ err: error, markets: tickers.length }, 'the venue could not be asked about settled markets');
      return [];
    }
  }

  /** True if it came to the end. */
  async function walk(
    words: ReadonlyMap<string, Word>,
    list: List,
    report: SettleReport,
    mayGoOn: () => Promise<boolean>,
  ): Promise<boolean> {
    for (let after = beforeAll; ;) {
      if (!(await mayGoOn())) return false;
      const accounts = await list(words, after);
      for (const some of inChunks(accounts, PARALLEL))
        await Promise.all(some.map((account) => settleOne(account, words, report)));
      if (accounts.length < ACCOUNTS_AT_ONCE) return true;
      after = accounts.at(-1)!;
    }
  }

  /** An account that cannot be settled keeps no other from being settled. */
  async function settleOne(
    account: Account,
    words: ReadonlyMap<string, Word>,
    report: SettleReport,
  ): Promise<void> {
    try {
      const settled = await settleAccount(orm, account, words, new Date(clock.now()));
      report.words += settled.words;
      if (!settled.hasMoved) return;
      report.moved++;
      await onMoved(account);
    } catch (error) {
      report.failed++;
      log.error({ err: error, ...account }, 'an account could not be settled; it is tried again');
    }
  }

  return { pass };
}
