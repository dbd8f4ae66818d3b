import { HOUR_MS } from '../../core/time.js';
import { NOBODY, type CreditEntryKind } from '../credits/table.js';

/** A grant in an account. */
export interface HeldGrant {
  id: string;
  /** What is left of it; all amounts are exact decimals. */
  rest: string;
  startsMs: number;
  /** Infinity for never. */
  endsMs: number;
  /** Product ids with a space between; '' for every product. */
  scope: string;
  priority: number;
  /** 0 without rollover, or once it has happened. */
  rollPercent: number;
  rollDays: number;
}

export interface Account {
  /** In the order in which they burn. */
  grants: HeldGrant[];
  overdrafts: { productId: string; amount: string }[];
}

export const emptyAccount: Account = { grants: [], overdrafts: [] };

/** A row of the ledger. Times are RFC 3339. */
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

/** The order of `gauge_burn`. */
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
