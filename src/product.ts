import type { ConfigPart } from './core/config.js';

export interface Product {
  config: ConfigPart;
}
