import type { ProductOptions } from '../../../src/product.js';
import { leadingStations, type Selection } from '../../../src/markets/venue/simulation/world.js';

/** A few of the invented world's twenty-four cities with four kinds of market each. */
export const fewMarkets: Selection = { stations: leadingStations, kinds: ['daily_maximum'] };

export const marketsDefaults = ({ trading }: ProductOptions): ProductOptions => ({
  trading: { selection: fewMarkets, ...trading },
});
