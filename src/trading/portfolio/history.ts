import type { Logger } from 'pino';
import { beforeAll, type Account } from '../settlement/queries.js';
import { MAX_TRADING_AGE_MS, ageOf, type Snapshot } from '../snapshot/snapshot.js';
import { listAccounts, listHoldingAccounts, thinOutPoints, writePoint } from './history-queries.js';
import { readPortfolio, type Portfolio, type PortfolioDeps } from './portfolio.js';

const DAY_MS = 24 * 60 * 60 * 1000;
/** Every point is kept for so long, and then one a day for ever. */
const ALL_POINTS_KEPT_MS = 90 * DAY_MS;
const ACCOUNTS_AT_ONCE = 100;

/** A market whose end the venue names takes hours; one that takes longer than a day counts as what it can be sold for. */
const MAX_WAIT_MS = DAY_MS;

/** Asked between parts of the work: once it is false, what is left is left to others. */
type MayGoOn = () => Promise<boolean>;

/**
 * Writes down what an account is worth now, as the portfolio shows it. Returns false where that cannot be told: the data are
 * old, or a market is closed and the venue has not named its result yet. Nothing can be sold of it then, and to count it
 * as nothing would draw a hole into every night.
 */
async function recordPoint(deps: PortfolioDeps, { orgId, mode }: Account): Promise<boolean> {
  const snapshot = deps.snapshots.current;
  const at = deps.clock.now();
  if (!snapshot || ageOf(snapshot, at) > MAX_TRADING_AGE_MS) return false;
  const portfolio = await readPortfolio(deps, orgId, mode);
  if (portfolio.liquidation === null || portfolio.unrealised === null) return false;
  if (portfolio.isCut || isBetweenStates(portfolio, snapshot, at)) return false;
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
  return true;
}

function isBetweenStates({ positions }: Portfolio, snapshot: Snapshot, nowMs: number): boolean {
  return positions.some(({ ticker, mark }) => {
    const closed = mark.valuation === 'closed' && snapshot.markets.get(ticker);
    return closed && nowMs - closed.closeTime.getTime() < MAX_WAIT_MS;
  });
}

/** A point for each account that holds something. One that fails keeps no other from its point. */
export async function recordHistory(deps: PortfolioDeps & { log: Logger }, mayGoOn: MayGoOn): Promise<void> {
  const list = (after: Account) => listHoldingAccounts(deps.db.orm, after, ACCOUNTS_AT_ONCE);
  await forEachAccount(list, mayGoOn, (account) => tryToRecordPoint(deps, account));
}

export async function tryToRecordPoint(
  deps: PortfolioDeps & { log: Logger },
  account: Account,
): Promise<void> {
  try {
    await recordPoint(deps, account);
  } catch (error) {
    deps.log.warn({ err: error, ...account }, 'a point of the portfolio’s history was not written');
  }
}

/** Keeps one point a day of what is older than three months. */
export async function thinOutHistory(
  { db: { orm }, clock }: Pick<PortfolioDeps, 'db' | 'clock'>,
  mayGoOn: MayGoOn,
): Promise<void> {
  const list = (after: Account) => listAccounts(orm, after, ACCOUNTS_AT_ONCE);
  const before = new Date(clock.now() - ALL_POINTS_KEPT_MS);
  await forEachAccount(list, mayGoOn, (account) => thinOutPoints(orm, account, before));
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
