import type { z } from 'zod';
import { formatDollars, type Micros } from '../market/money.js';
import type { differenceSchema } from './schema.js';

export const reportJson = ({ foreign, ...report }: LiveReport) => ({
  ...report,
  foreign: {
    ...foreign,
    fills: foreign.fills.map((fill) => ({ ...fill, yesPrice: formatDollars(fill.yesPrice) })),
  },
});

/** An Organization that does not trade live. */
export const offJson = (organization: string) => ({
  organization,
  state: 'off' as const,
  reason: null,
  comparedAt: null,
  agreedAt: null,
  differences: [],
  pendingOrders: 0,
  restingOrders: 0,
  settling: [],
  foreign: { orders: [], fills: [], positions: [] },
});

/** Something on which the venue and this service do not agree. Texts, because it may be a count, money or a state. */
export type LiveDifference = z.infer<typeof differenceSchema>;

/** An order at the venue that this service did not place. */
interface ForeignOrder {
  venueOrderId: string;
  clientOrderId: string;
  ticker: string;
  status: 'resting' | 'canceled' | 'executed';
  filled: string;
  initial: string;
  createdAt: Date | null;
}

interface ForeignFill {
  venueFillId: string;
  venueOrderId: string;
  ticker: string;
  contracts: string;
  /** Of YES. */
  yesPrice: Micros;
  filledAt: Date | null;
}

/** Contracts at the venue beyond ours: positive for YES, negative for NO. */
export interface ForeignPosition {
  ticker: string;
  contracts: string;
}

export interface LiveReport {
  /** Slug of the Organization that trades live. */
  organization: string;
  state: 'open' | 'closed';
  /** Why trading is closed; null while it is open. */
  reason: string | null;
  /** Of the last complete comparison, and of the last one without a difference. */
  comparedAt: Date | null;
  agreedAt: Date | null;
  differences: readonly LiveDifference[];
  /** Orders whose outcome is not known yet. */
  pendingOrders: number;
  /** Orders that stand in the venue's book. */
  restingOrders: number;
  /** Markets that one of both has settled already, and the other has not yet. */
  settling: readonly string[];
  /** What others do with the same account: shown, never adopted. At most 100 of each, newest first. */
  foreign: {
    orders: readonly ForeignOrder[];
    fills: readonly ForeignFill[];
    positions: readonly ForeignPosition[];
  };
}
