import { groupBy } from '../../core/collections.js';
import type { Tx } from '../../core/db/client.js';
import { differenceOf, multiplyDecimals } from '../../core/decimal.js';
import { addToPast, giveBack, takeLatest, type Entry, type Share } from '../credit-grants/account.js';
import { burn, lockAccount, writeAccount, type AccountId, type Demand } from '../credit-grants/queries.js';
import { readPast } from '../credit-grants/past.js';
import { listHistory, type CorrectionTarget, type NewCorrection } from './queries.js';

interface Change {
  event: CorrectionTarget;
  /** RFC 3339. */
  hour: string;
  isLess: boolean;
  credits: string;
}

/** Every event has its own price. Call this after writing all sums: the account is locked last. */
export async function correctCredits(tx: Tx, orgId: string, at: Date, corrections: readonly NewCorrection[]) {
  const changes = corrections.flatMap(toChange);
  for (const livemode of [false, true]) {
    const own = changes.filter(({ event }) => event.livemode === livemode);
    if (own.length > 0) await correctAccount(tx, { orgId, livemode }, at, own, corrections);
  }
}

function toChange({ event, previousQuantity, quantity }: NewCorrection): Change[] {
  const difference = differenceOf(quantity, previousQuantity);
  const isLess = difference.startsWith('-');
  const credits = multiplyDecimals(difference.replace('-', ''), event.creditPrice);
  return credits === '0' ? [] : [{ event, hour: toHour(event.occurredAt), isLess, credits }];
}

const toHour = (time: string): string => `${time.slice(0, 13)}:00:00.000000Z`;

async function correctAccount(
  tx: Tx,
  id: AccountId,
  at: Date,
  changes: readonly Change[],
  corrections: readonly NewCorrection[],
): Promise<void> {
  const entries: Entry[] = [];
  let account = await lockAccount(tx, id);
  const settle = async (demands: Demand[] = []) => {
    const burnt = await burn(tx, account, at, demands);
    account = burnt.account;
    entries.push(...burnt.entries);
    return burnt.entries;
  };
  const settled = await settle();
  const shares = changes.some(({ isLess }) => isLess)
    ? await readShares(tx, id.orgId, changes, corrections)
    : new Map<string, Share[]>();
  const flushes = changes.flatMap(({ event: { productId, idempotencyKey }, hour }) =>
    (shares.get(idempotencyKey) ?? []).map((share) => ({ at: share.at, productId, hour })),
  );
  const past = await readPast(tx, id, account, flushes);
  addToPast(past, settled);
  for (const { event, hour, isLess, credits } of changes) {
    const { productId, idempotencyKey } = event;
    if (!isLess) {
      addToPast(past, await settle([{ productId, hour, credits }]));
      shares.get(idempotencyKey)?.push({ at: at.toISOString(), credits });
      continue;
    }
    const { length } = account.grants;
    for (const share of takeLatest(shares.get(idempotencyKey)!, credits)) {
      const given = giveBack(account, past, { at: share.at, productId, hour }, share.credits, at);
      account = given.account;
      entries.push(...given.entries);
    }
    // Credits given back may repay overdrafts, and a grant may have expired.
    if (account.overdrafts.length > 0 || account.grants.length > length) addToPast(past, await settle());
  }
  await writeAccount(tx, id, account, entries);
}

/** Before these corrections, in burning order. */
async function readShares(
  tx: Tx,
  orgId: string,
  changes: readonly Change[],
  corrections: readonly NewCorrection[],
): Promise<Map<string, Share[]>> {
  const events = new Map(changes.toReversed().map(({ event }) => [event.idempotencyKey, event]));
  const corrected = [...events.values()].filter((event) => event.corrections > 0);
  const newKeys = corrections.map(({ correctionKey }) => correctionKey);
  const history = corrected.length === 0 ? [] : await listHistory(tx, orgId, corrected, newKeys);
  const earlier = groupBy(history, ({ idempotencyKey }) => idempotencyKey);
  return new Map(
    [...events].map(([key, { receivedAt, quantity, creditPrice }]): [string, Share[]] => {
      const steps = earlier.get(key) ?? [];
      const sent = steps[0]?.previousQuantity ?? quantity;
      const shares = [{ at: receivedAt, credits: multiplyDecimals(sent, creditPrice) }];
      for (const step of steps) {
        const change = differenceOf(step.quantity, step.previousQuantity);
        if (!change.startsWith('-'))
          shares.push({ at: step.correctedAt, credits: multiplyDecimals(change, creditPrice) });
        else takeLatest(shares, multiplyDecimals(change.slice(1), creditPrice));
      }
      return [key, shares];
    }),
  );
}
