import { lockAccount } from '../ledger/queries.js';
import { recordAudit, change, type ChangeDeps, type Authority } from '../../accounts/audit/audit.js';
import type { Orm } from '../../core/db/client.js';
import type { Source } from '../../accounts/identity/source.js';
import { AppError } from '../../core/errors.js';
import { newId } from '../../core/ids.js';
import type { Micros } from '../market/money.js';
import { keyOf, type AccountComparison } from './compare.js';
import {
  addCash,
  insertAccount,
  insertEntry,
  insertLiveAccount,
  listBookedTransfers,
  readFingerprint,
  updateLiveAccount,
  type LiveAccountRow,
  type NewEntry,
} from './queries.js';
import type { ShardTransfer } from './wire.js';

/** Beyond it, the oldest are dropped. */
const MAX_ACCEPTED = 500;

/** Positions already at the venue belong to others. */
export function openLiveAccount(orm: Orm, { orgId, cash, foreignPositions, at }: OpenedAccount) {
  return orm.transaction(async (tx) => {
    await insertAccount(tx, orgId, at);
    const before = (await lockAccount(tx, { orgId, mode: 'live' }))!;
    await insertLiveAccount(tx, {
      orgId,
      foreignPositions,
      accepted: [],
      problem: null,
      orderGroupId: null,
      openedAt: at,
      updatedAt: at,
    });
    const memo = 'balance at the venue when the account was opened';
    if (cash !== before) await moveCash(tx, orgId, { kind: 'deposit', change: cash - before, memo, at });
  });
}

type OpenedAccount = Pick<LiveAccountRow, 'orgId' | 'foreignPositions'> & { cash: Micros; at: Date };

/** The venue rounds the amount of each fill separately. */
export function bookRounding(orm: Orm, orgId: string, comparison: AccountComparison, at: Date) {
  return orm.transaction(async (tx) => {
    await lockAccount(tx, { orgId, mode: 'live' });
    await assertUnchanged(tx, orgId, comparison);
    const memo = 'rounding by the venue';
    const { cashDifference: change } = comparison;
    await moveCash(tx, orgId, { kind: 'adjustment', change, memo, at, isFee: true });
  });
}

/** Books each transfer to or from another shard of the venue once. */
export function bookTransfers(orm: Orm, orgId: string, transfers: readonly ShardTransfer[], at: Date) {
  return orm.transaction(async (tx) => {
    await lockAccount(tx, { orgId, mode: 'live' });
    const ids = transfers.map(({ id }) => id);
    const booked = await listBookedTransfers(tx, orgId, ids);
    for (const { id, change, memo } of transfers)
      if (!booked.has(id)) await moveCash(tx, orgId, { kind: 'transfer', change, memo, at, transferId: id });
  });
}

/** Adopts the venue's side and writes an audit row. */
export function acceptDifferences(
  { by, ...deps }: ChangeDeps & { by: Authority },
  account: { orgId: string; slug: string; accepted: readonly string[]; problem: string | null },
  comparison: AccountComparison,
  source: Source,
): Promise<void> {
  const { orgId, slug, accepted, problem } = account;
  return change(deps, by, async (tx) => {
    await lockAccount(tx, { orgId, mode: 'live' });
    await assertUnchanged(tx, orgId, comparison);
    const kinds = new Set(comparison.differences.map(({ kind }) => kind));
    if (kinds.has('cash')) {
      const memo = "accepted: the venue's cash differed";
      const { cashDifference: change } = comparison;
      await moveCash(tx, orgId, { kind: 'adjustment', change, memo, at: source.at });
    }
    const ofOrders = comparison.differences.filter(({ kind }) => kind === 'order' || kind === 'fill');
    await updateLiveAccount(tx, orgId, {
      accepted: [...accepted, ...ofOrders.map(keyOf)].slice(-MAX_ACCEPTED),
      ...(kinds.has('position') ? { foreignPositions: comparison.foreignPositions } : {}),
      problem: null,
      updatedAt: source.at,
    });
    const details = { accepted: comparison.differences, ...(problem === null ? {} : { problem }) };
    await recordAudit(tx, orgId, { ...source, action: 'live_account.accepted', target: slug, details });
  });
}

/** @throws AppError unavailable if something was ordered or booked since the comparison */
async function assertUnchanged(tx: Orm, orgId: string, { fingerprint }: AccountComparison): Promise<void> {
  if ((await readFingerprint(tx, orgId)) === fingerprint) return;
  const detail = 'Something was booked while the accounts were compared.';
  throw new AppError('unavailable', detail, { retryAfterSeconds: 1 });
}

async function moveCash(tx: Orm, orgId: string, { change, isFee, ...entry }: CashMove): Promise<void> {
  await insertEntry(tx, {
    ...entry,
    orgId,
    id: newId(entry.at.getTime()),
    mode: 'live',
    cash: change,
    positions: 0n,
    fees: isFee ? -change : 0n,
    realised: 0n,
    capital: isFee ? 0n : -change,
  });
  await addCash(tx, orgId, change);
}

type CashMove = Pick<NewEntry, 'kind' | 'memo' | 'at'> & {
  change: Micros;
  isFee?: boolean;
  transferId?: string;
};
