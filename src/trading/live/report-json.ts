import { formatDollars } from '../market/money.js';
import type { LiveReport } from './report.js';

/** The report as the API shows it. */
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
  settling: [],
  foreign: { orders: [], fills: [], positions: [] },
});
