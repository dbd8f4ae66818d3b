import type { ProductOptions } from '../../../src/product.js';
import { leadingStations, type Selection } from '../../../src/markets/venue/simulation/world.js';

/** The leading cities' daily maxima, a small part of the simulated world. */
export const fewMarkets: Selection = { stations: leadingStations, kinds: ['daily_maximum'] };

export const marketsDefaults = ({ trading }: ProductOptions): ProductOptions => ({
  trading: { selection: fewMarkets, ...trading },
});
