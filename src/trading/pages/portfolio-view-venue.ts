import type { LiveReport } from '../live/report.js';
import { formatPrice } from './portfolio-view-text.js';

/** How the live account stands beside the venue's, for its page; undefined where the Organization does not trade live. */
export function toVenueView(report: LiveReport | undefined) {
  if (!report) return { isOff: true as const };
  const { state, reason, comparedAt, agreedAt, differences, pendingOrders, settling, foreign } = report;
  return {
    isOff: false as const,
    isOpen: state === 'open',
    reason,
    comparedAt,
    agreedAt,
    differences,
    pendingOrders,
    settling,
    orders: foreign.orders,
    fills: foreign.fills.map((fill) => ({ ...fill, price: formatPrice(fill.yesPrice) })),
    positions: foreign.positions,
    isAlone: foreign.orders.length + foreign.fills.length + foreign.positions.length === 0,
  };
}
