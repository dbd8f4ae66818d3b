import { addDecimals, minDecimal, subtractDecimals } from '../../core/decimal.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { NOBODY, type CreditEntryKind } from '../credits/table.js';

export interface HeldGrant {
  id: string;
  /** All amounts are exact decimals. */
  rest: string;
  startsMs: number;
  /** Infinity if it never expires. */
  endsMs: number;
  /** Product ids separated by spaces; '' for every product. */
  scope: string;
  priority: number;
  /** 0 if the grant does not roll over, or has already done so. */
  rollPercent: number;
  rollDays: number;
}

export interface Account {
  /** In burning order. */
  grants: HeldGrant[];
  overdrafts: { productId: string; amount: string }[];
}

export const emptyAccount: Account = { grants: [], overdrafts: [] };

/** Times are RFC 3339. */
export interface Entry {
  kind: CreditEntryKind;
  productId: string;
  grantId: string;
  at: string;
  hour: string;
  amount: string;
}

const compareUuids = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

type Place = Pick<HeldGrant, 'priority' | 'endsMs' | 'id'>;

/** `gauge_burn` burns grants in this order. */
const comparePlaces = (a: Place, b: Place): number =>
  a.priority - b.priority || (a.endsMs === b.endsMs ? compareUuids(a.id, b.id) : a.endsMs - b.endsMs);

export const putIn = (account: Account, grant: HeldGrant): Account => ({
  ...account,
  grants: [...account.grants, grant].toSorted(comparePlaces),
});

export const takeOut = (account: Account, grantId: string): Account => ({
  ...account,
  grants: account.grants.filter(({ id }) => id !== grantId),
});

export const clearOverdraft = (account: Account, productId: string): Account => ({
  ...account,
  overdrafts: account.overdrafts.filter((one) => one.productId !== productId),
});

export const overdraftOf = ({ overdrafts }: Account, productId: string): string =>
  overdrafts.find((one) => one.productId === productId)?.amount ?? '0';

const toHour = (atMs: number): string => new Date(Math.floor(atMs / HOUR_MS) * HOUR_MS).toISOString();

export const voidEntry = (grantId: string, amount: string, at: Date): Entry =>
  changeEntry({ kind: 'void', productId: NOBODY, grantId, amount }, at);

export const forgiveEntry = (productId: string, amount: string, at: Date): Entry =>
  changeEntry({ kind: 'forgive', productId, grantId: NOBODY, amount }, at);

const changeEntry = (entry: Omit<Entry, 'at' | 'hour'>, at: Date): Entry => ({
  ...entry,
  at: at.toISOString(),
  hour: toHour(at.getTime()),
});

/** Corrections need these, even if the grant has left the account. */
export interface GrantTerms {
  /** As it would return to an account. Its remaining amount is not used. */
  held: HeldGrant;
  /** Before any rollover. */
  expiresMs: number;
  rollDays: number;
  isVoided: boolean;
}

/** One flush's credits for an hour's usage. */
export type Flush = Pick<Entry, 'at' | 'productId' | 'hour'>;

/** Independent of the format of times. */
export const nameFlush = ({ at, productId, hour }: Flush): string =>
  `${Date.parse(at)} ${productId} ${Date.parse(hour)}`;

/** The part of the ledger that corrections need. Giving back credits updates it. */
export interface Past {
  /** Per flush, by grant. The product's own id stands for its overdraft. */
  burned: Map<string, Map<string, string>>;
  /** Per product, newest first, without those that a correction has undone. */
  repaid: Map<string, { grantId: string; amount: string }[]>;
  terms: Map<string, GrantTerms>;
}

export function addToPast({ burned, repaid }: Past, entries: readonly Entry[]): void {
  for (const { kind, productId, grantId, amount, ...flush } of entries) {
    if (kind === 'burn') {
      const name = nameFlush({ ...flush, productId });
      const parts = burned.get(name) ?? new Map<string, string>();
      burned.set(name, parts.set(grantId, addDecimals(parts.get(grantId) ?? '0', amount)));
    } else if (kind === 'repay')
      repaid.set(productId, [{ grantId, amount }, ...(repaid.get(productId) ?? [])]);
  }
}

/**
 * First to the overdraft, then to the grants, most recently burned first. Credits beyond the overdraft undo repayments,
 * newest first, and then forgiveness. The caller must settle the account afterwards.
 */
export function giveBack(account: Account, past: Past, flush: Flush, credits: string, now: Date) {
  const { productId } = flush;
  const parts = past.burned.get(nameFlush(flush)) ?? new Map<string, string>();
  const entries: Entry[] = [];
  let left = credits;
  const raise = (grantId: string, amount: string) => {
    const { held, isVoided } = past.terms.get(grantId)!;
    if (isVoided) entries.push(voidEntry(grantId, amount, now));
    else account = raiseRest(account, held, amount);
  };
  for (const grantId of [productId, ...toReturnOrder(parts, past.terms, flush)]) {
    const part = minDecimal(left, parts.get(grantId) ?? '0');
    if (part === '0') continue;
    left = subtractDecimals(left, part);
    parts.set(grantId, subtractDecimals(parts.get(grantId)!, part));
    entries.push({ ...flush, kind: 'return', grantId, amount: part });
    if (grantId !== productId) raise(grantId, part);
    else {
      const overdraft = overdraftOf(account, productId);
      account = setOverdraft(account, productId, subtractDecimals(overdraft, part));
      let excess = subtractDecimals(part, overdraft);
      for (const payment of past.repaid.get(productId) ?? []) {
        const undone = minDecimal(excess, payment.amount);
        if (undone === '0') continue;
        excess = subtractDecimals(excess, undone);
        payment.amount = subtractDecimals(payment.amount, undone);
        const repay = { kind: 'repay' as const, productId, grantId: payment.grantId, amount: `-${undone}` };
        entries.push(changeEntry(repay, now));
        raise(payment.grantId, undone);
      }
      if (excess !== '0') entries.push(forgiveEntry(productId, `-${excess}`, now));
    }
  }
  if (left !== '0') throw new Error(`The ledger has no burn for ${left} credits of ${nameFlush(flush)}.`);
  return { account, entries };
}

/** The reverse of burning order. */
function toReturnOrder(
  parts: ReadonlyMap<string, string>,
  terms: ReadonlyMap<string, GrantTerms>,
  { at, productId }: Flush,
): string[] {
  const placeOf = (id: string): Place => {
    const { held, expiresMs, rollDays } = terms.get(id)!;
    const isRolled = rollDays > 0 && Date.parse(at) >= expiresMs;
    return { id, priority: held.priority, endsMs: expiresMs + (isRolled ? rollDays * DAY_MS : 0) };
  };
  return [...parts.keys()]
    .filter((id) => id !== productId)
    .toSorted((a, b) => comparePlaces(placeOf(b), placeOf(a)));
}

const raiseRest = (account: Account, held: HeldGrant, amount: string): Account =>
  account.grants.some(({ id }) => id === held.id)
    ? {
        ...account,
        grants: account.grants.map((one) =>
          one.id === held.id ? { ...one, rest: addDecimals(one.rest, amount) } : one,
        ),
      }
    : putIn(account, { ...held, rest: amount });

const setOverdraft = (account: Account, productId: string, amount: string): Account =>
  amount === '0'
    ? clearOverdraft(account, productId)
    : {
        ...account,
        overdrafts: account.overdrafts.map((one) =>
          one.productId === productId ? { productId, amount } : one,
        ),
      };

/** Part of an event's cost, burned at `at`. */
export type Share = Record<'at' | 'credits', string>;

/** Returns the removed parts. */
export function takeLatest(shares: Share[], credits: string): Share[] {
  const taken: Share[] = [];
  let left = credits;
  while (left !== '0') {
    const last = shares.at(-1)!;
    const part = minDecimal(left, last.credits);
    left = subtractDecimals(left, part);
    last.credits = subtractDecimals(last.credits, part);
    if (last.credits === '0') shares.pop();
    taken.push({ at: last.at, credits: part });
  }
  return taken;
}
