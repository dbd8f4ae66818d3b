import type { Orm } from '../../core/db/client.js';
import { newId } from '../market/ids.js';
import { lockAccount } from '../ledger/accounts.js';
import { ledgerEntries, tradingSettlements } from '../ledger/portfolio-table.js';
import { closePositions, moveCash, readPositions, readRecorded, type Account } from './queries.js';
import { planSettlement, type PlannedWord } from './settle-plan.js';
import type { Word } from './settle-word.js';

export interface Settled {
  /** Rows that were added. */
  words: number;
  /** True if money was booked, be it a payout of nothing. */
  hasMoved: boolean;
}

/**
 * Books what the venue says about markets that one account holds or held, in one transaction under the account's lock. Two
 * instances that do it at once book it once: the second waits, and then sees what the first has written.
 */
export const settleAccount = (
  orm: Orm,
  account: Account,
  words: ReadonlyMap<string, Word>,
  at: Date,
): Promise<Settled> =>
  orm.transaction(async (tx) => {
    if ((await lockAccount(tx, account)) === undefined)
      throw new Error(`the account ${account.orgId} ${account.mode} holds positions and does not exist`);
    const tickers = [...words.keys()];
    const positions = await readPositions(tx, account, tickers);
    const recorded = await readRecorded(tx, account, tickers);
    const planned = positions.flatMap(({ ticker, eventTicker, ...held }) => {
      const before = recorded.filter((row) => row.ticker === ticker);
      return planSettlement(held, before, words.get(ticker)!).map((word) => ({
        ...word,
        ticker,
        eventTicker,
      }));
    });
    if (planned.length === 0) return { words: 0, hasMoved: false };
    await write(tx, account, planned, at);
    return { words: planned.length, hasMoved: planned.some(({ entry }) => entry !== null) };
  });

type NamedWord = PlannedWord & { ticker: string; eventTicker: string };

async function write(tx: Orm, account: Account, planned: NamedWord[], at: Date): Promise<void> {
  await tx.insert(tradingSettlements).values(
    planned.map(({ entry, ...word }) => ({
      ...account,
      ...word,
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
  const earned = new Map<string, bigint>();
  for (const { ticker, postings } of entries)
    earned.set(ticker, (earned.get(ticker) ?? 0n) - postings.realised);
  await closePositions(tx, account, earned, at);
  await moveCash(
    tx,
    account,
    entries.reduce((sum, { postings }) => sum + postings.cash, 0n),
  );
}
