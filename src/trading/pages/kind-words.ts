import type { MarketKind, TemperatureKind } from '../market/market.js';

/** What the pages call each kind of temperature. */
export const kindWords = {
  daily_maximum: {
    tab: 'Maxima',
    value: 'Maximum',
    temperature: 'highest temperature',
    short: 'high',
    question: 'What the highest temperature of a day will be.',
    observed: 'Observed so far',
    passed: 'below what was observed already',
  },
  daily_minimum: {
    tab: 'Minima',
    value: 'Minimum',
    temperature: 'lowest temperature',
    short: 'low',
    question: 'What the lowest temperature of a day will be.',
    observed: 'Observed so far',
    passed: 'above what was observed already',
  },
  hourly: {
    tab: 'Hours',
    value: 'Temperature',
    temperature: 'temperature',
    short: 'hour',
    question: 'What the temperature will be when an hour strikes.',
    observed: 'The index said',
    passed: 'ruled out',
  },
} as const satisfies Record<TemperatureKind, Record<string, string>>;

/** Of a market that has no place. */
export const kindNames: Readonly<Record<MarketKind, string>> = {
  daily_maximum: 'Maximum',
  daily_minimum: 'Minimum',
  hourly: 'Hour',
  rain: 'Rain',
  other: 'Other',
};

/** `07:00`, by the clock of the place. */
export const formatHour = (hour: number): string => `${String(hour).padStart(2, '0')}:00`;
