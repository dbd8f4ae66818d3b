/** Hours before the end of the climate day at which forecasts are written down: the evening two days before, the mornings, the afternoon. */
export const LEAD_HOURS = [36, 24, 12, 6] as const;
