import { marketsConfig } from './markets/config.js';
import { meteringConfig } from './metering/config.js';
import type { Product } from './product.js';

export const products: Product[] = [{ config: meteringConfig }, { config: marketsConfig }];
