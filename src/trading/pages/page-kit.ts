import type { Page } from '../../core/pages/layout.js';
import type { ClimateWatch } from '../climate/watch.js';
import type { Orders } from '../orders/order.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';

/** What the pages about markets have in common. */

export interface MarketsPagesDeps {
  snapshots: SnapshotStore;
  orders: Pick<Orders, 'place'>;
  /** Undefined for an invented world. */
  climate: Pick<ClimateWatch, 'crossChecks'> | undefined;
}

export const SECTION = 'markets';
/** What stands in place of the markets until the first prices are there. */
export const loadingPage: Page = { view: 'markets/loading', title: 'Markets', section: SECTION };
