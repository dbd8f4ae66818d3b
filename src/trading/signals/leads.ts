import type { TemperatureKind } from '../market/market.js';

/** Hours before the end of the climate day at which forecasts are written down: the evening two days before, the mornings, the afternoon. */
export const LEAD_HOURS = [36, 24, 12, 6] as const;
/** The same before an hour: its markets open a day before it at most, and by then most of the day's runs are alike. */
const HOURLY_LEADS = [12, 6, 3, 1] as const;

type Leads = readonly [longest: number, second: number, ...rest: number[]];

/** The longest first. */
export const leadsOf = (kind: TemperatureKind): Leads => (kind === 'hourly' ? HOURLY_LEADS : LEAD_HOURS);
