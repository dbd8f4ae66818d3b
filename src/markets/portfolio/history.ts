import type { Logger } from 'pino';
import { DAY_MS } from '../../core/time.js';
import { beforeAll, type Account } from '../ledger/queries.js';
import { ageOf, type Snapshot } from '../snapshot/snapshot.js';
import { listAccounts, listHoldingAccounts, thinOutPoints, writePoint } from './history-queries.js';
import { readPortfolio, type Portfolio, type PortfolioDeps } from './portfolio.js';
import { feeRuleOf } from '../market/fees.js';
import { MAX_TRADING_AGE_MS } from '../market/source.js';

/** Every point is kept for so long, and then one a day for ever. */
const ALL_POINTS_KEPT_MS = 90 * DAY_MS;
const ACCOUNTS_AT_ONCE = 100;

/** A market whose end the venue names takes hours; one that takes longer than a day counts as what it can be sold for. */
const MAX_WAIT_MS = DAY_MS;
/** After the begin of a day in UTC it is over, and its markets closed, everywhere. */
const DAY_OVER_MS = 2 * DAY_MS;

/** Asked between parts of the work: once it is false, what is left is left to others. */
type MayGoOn = () => Promise<boolean>;

/**
 * Records what an account is worth now, as the portfolio shows it. Nothing is recorded where that cannot be told: the data are
 * old, a market's fee is not known, or it is closed or left out of the list and the venue has not named its result yet. Nothing
 * can be sold of it then, and to count it as nothing would draw a hole into every night, and a day that begins in a hole may
 * lose what it was deep.
 */
async function recordPoint(deps: PortfolioDeps, { orgId, mode }: Account): Promise<void> {
  const snapshot = deps.snapshots.current;
  const at = deps.clock.now();
  if (!snapshot || ageOf(snapshot, at) > MAX_TRADING_AGE_MS) return;
  const portfolio = await readPortfolio(deps, orgId, mode);
  if (portfolio.liquidation === null || portfolio.unrealised === null) return;
  if (portfolio.isCut || isBetweenStates(portfolio, snapshot, at)) return;
  await writePoint(deps.db.orm, {
    orgId,
    mode,
    at: new Date(at),
    cash: portfolio.cash,
    liquidation: portfolio.liquidation,
    realised: portfolio.realised,
    unrealised: portfolio.unrealised,
    fees: portfolio.fees,
  });
}

function isBetweenStates({ positions }: Portfolio, snapshot: Snapshot, nowMs: number): boolean {
  return positions.some(({ ticker, date, mark }) => {
    const market = snapshot.markets.get(ticker);
    // What is sold without a fee that is known may bring anything.
    if (mark.valuation === 'book') return !market || !feeRuleOf(snapshot.data, market);
    if (mark.valuation === 'not_listed')
      return date !== null && nowMs - Date.parse(date) < DAY_OVER_MS + MAX_WAIT_MS;
    return (
      mark.valuation === 'closed' && market !== undefined && nowMs - market.closeTime.getTime() < MAX_WAIT_MS
    );
  });
}

/** What accounts were worth: points of a curve, which nothing else is made of. */
export function createPortfolioHistory(deps: PortfolioDeps & { log: Logger }) {
  const { orm } = deps.db;
  const tryToRecordPoint = (account: Account): Promise<void> =>
    recordPoint(deps, account).catch((error: unknown) =>
      deps.log.warn({ err: error, ...account }, 'a point of the portfolio’s history was not written'),
    );
  return {
    /** Adds a point for one account. Never rejects: a curve without it is no reason to do anything again. */
    recordPoint: tryToRecordPoint,
    /** Adds a point for each account that holds something. One that fails keeps no other from its point. */
    recordAll: (mayGoOn: MayGoOn): Promise<void> =>
      forEachAccount((after) => listHoldingAccounts(orm, after, ACCOUNTS_AT_ONCE), mayGoOn, tryToRecordPoint),
    /** Keeps one point a day of what is older than three months. */
    thinOut(mayGoOn: MayGoOn): Promise<void> {
      const before = new Date(deps.clock.now() - ALL_POINTS_KEPT_MS);
      return forEachAccount(
        (after) => listAccounts(orm, after, ACCOUNTS_AT_ONCE),
        mayGoOn,
        (account) => thinOutPoints(orm, account, before),
      );
    },
  };
}

async function forEachAccount(
  list: (after: Account) => Promise<Account[]>,
  mayGoOn: MayGoOn,
  work: (account: Account) => Promise<unknown>,
): Promise<void> {
  for (let after = beforeAll; await mayGoOn();) {
    const accounts = await list(after);
    for (const account of accounts) await work(account);
    if (accounts.length < ACCOUNTS_AT_ONCE) return;
    after = accounts.at(-1)!;
  }
}
