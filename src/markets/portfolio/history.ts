import type { Logger } from 'pino';
import { DAY_MS } from '../../core/time.js';
import { beforeAll, type Account } from '../ledger/queries.js';
import { ageOf, type Snapshot } from '../snapshot/snapshot.js';
import { listAccounts, listHoldingAccounts, thinOutPoints, writePoint } from './history-queries.js';
import { readPortfolio, type Portfolio, type PortfolioDeps } from './portfolio.js';
import { feeRuleOf } from '../market/fees.js';
import { MAX_TRADING_AGE_MS } from '../market/source.js';

/** After that, one point per day is kept forever. */
const ALL_POINTS_KEPT_MS = 90 * DAY_MS;
const ACCOUNTS_AT_ONCE = 100;

/** Without a result, a closed market then counts at its sale value. The venue usually reports within hours. */
const MAX_WAIT_MS = DAY_MS;
/** A UTC date is then over, and its markets closed, in every time zone. */
const DAY_OVER_MS = 2 * DAY_MS;

/** If false, the rest is left to other instances. */
type MayContinue = () => Promise<boolean>;

/**
 * Skips the point if the value is unknown: stale data, an unknown fee, or a closed market without a result. Counting
 * such a market as zero would dip the curve every night, and a day that starts in the dip could exceed its loss limit.
 */
async function recordPoint(deps: PortfolioDeps, { orgId, mode }: Account): Promise<void> {
  const snapshot = deps.snapshots.current;
  const at = deps.clock.now();
  if (!snapshot || ageOf(snapshot, at) > MAX_TRADING_AGE_MS) return;
  const portfolio = await readPortfolio(deps, orgId, mode);
  const { cash, liquidation, realised, unrealised, fees } = portfolio;
  if (liquidation === null || unrealised === null) return;
  if (portfolio.isCut || isBetweenStates(portfolio, snapshot, at)) return;
  const values = { cash, liquidation, realised, unrealised, fees };
  await writePoint(deps.db.orm, { orgId, mode, at: new Date(at), ...values });
}

function isBetweenStates({ positions }: Portfolio, snapshot: Snapshot, nowMs: number): boolean {
  return positions.some(({ ticker, date, mark }) => {
    const market = snapshot.markets.get(ticker);
    // Without a known fee, the proceeds are unknown.
    if (mark.valuation === 'book') return !market || !feeRuleOf(snapshot.data, market);
    if (mark.valuation === 'not_listed')
      return date !== null && nowMs - Date.parse(date) < DAY_OVER_MS + MAX_WAIT_MS;
    return (
      mark.valuation === 'closed' && market !== undefined && nowMs - market.closeTime.getTime() < MAX_WAIT_MS
    );
  });
}

/** Only curves use the history. */
export function createPortfolioHistory(deps: PortfolioDeps & { log: Logger }) {
  const { orm } = deps.db;
  const tryToRecordPoint = (account: Account): Promise<void> =>
    recordPoint(deps, account).catch((error: unknown) =>
      deps.log.warn({ err: error, ...account }, 'a point of the portfolio’s history could not be written'),
    );
  return {
    /** Never rejects: a missing point is no reason to repeat the caller's work. */
    recordPoint: tryToRecordPoint,
    /** A failing account does not hold up the others. */
    recordAll: (mayContinue: MayContinue): Promise<void> =>
      forEachAccount(
        (after) => listHoldingAccounts(orm, after, ACCOUNTS_AT_ONCE),
        mayContinue,
        tryToRecordPoint,
      ),
    thinOut(mayContinue: MayContinue): Promise<void> {
      const before = new Date(deps.clock.now() - ALL_POINTS_KEPT_MS);
      return forEachAccount(
        (after) => listAccounts(orm, after, ACCOUNTS_AT_ONCE),
        mayContinue,
        (account) => thinOutPoints(orm, account, before),
      );
    },
  };
}

async function forEachAccount(
  list: (after: Account) => Promise<Account[]>,
  mayContinue: MayContinue,
  work: (account: Account) => Promise<unknown>,
): Promise<void> {
  for (let after = beforeAll; await mayContinue();) {
    const accounts = await list(after);
    for (const account of accounts) await work(account);
    if (accounts.length < ACCOUNTS_AT_ONCE) return;
    after = accounts.at(-1)!;
  }
}
