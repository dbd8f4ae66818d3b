import { isSupported, type FeeRule } from './fees.js';
import type { Market } from './market.js';
import type { MarketData } from './source.js';

/** What an order of a market is charged by: its event's own rule, or else its series'. Undefined where it is not known: no orders then. */
export function feeRuleOf(
  { feeRules }: Pick<MarketData, 'feeRules'>,
  { eventTicker, seriesTicker }: Pick<Market, 'eventTicker' | 'seriesTicker'>,
): FeeRule | undefined {
  const rule = feeRules.get(eventTicker) ?? feeRules.get(seriesTicker);
  return isSupported(rule) ? rule : undefined;
}
