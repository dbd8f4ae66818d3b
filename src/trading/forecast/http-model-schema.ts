import { z } from 'zod';
import { temperatureKinds } from '../market/market.js';
import { findPlace, isStation } from '../market/stations.js';
import { MIN_MEMBERS } from './known-weather.js';

/** Of 31 days: five runs of each maximum and minimum at 24 stations, and of each hour in 4 areas. */
const MAX_FORECASTS = 25_000;
const possibleF = z.number().min(-100).max(150);

/** One run of the operator's model for one day's maximum or minimum, or one hour: its members, or what it thinks in two numbers. */
const forecastSchema = z
  .object({
    station: z
      .string()
      .refine((id) => findPlace(id) !== undefined, 'is no station or area that there are markets of'),
    kind: z.enum(temperatureKinds).default('daily_maximum'),
    date: z.iso.date(),
    /** By the clock of the area; of `hourly` only. */
    hour: z.int().min(0).max(23).optional(),
    modelRunAt: z.iso.datetime({ offset: true }),
    membersF: z.array(possibleF).min(MIN_MEMBERS).max(500).optional(),
    meanF: possibleF.optional(),
    standardDeviationF: z.number().min(0.1).max(40).optional(),
  })
  .superRefine(({ station, kind, hour, membersF, meanF, standardDeviationF }, context) => {
    const isHour = kind === 'hourly';
    const place = findPlace(station);
    if ((hour !== undefined) !== isHour)
      context.addIssue({
        code: 'custom',
        path: ['hour'],
        message: isHour ? 'is missing: this is a forecast of an hour' : 'is of hourly forecasts only',
      });
    if (place && isStation(place) === isHour)
      context.addIssue({
        code: 'custom',
        path: ['kind'],
        message: isHour
          ? 'is of areas only: no market is about an hour at a station'
          : 'must be hourly: an area has no days',
      });
    const numbers = [meanF, standardDeviationF].filter((value) => value !== undefined).length;
    if (numbers !== (membersF ? 0 : 2))
      context.addIssue({
        code: 'custom',
        message: 'must have either membersF, or both meanF and standardDeviationF',
      });
  });

/** What a model answers. Other fields may be there and are not read. */
export const modelAnswerSchema = z.object({
  /** A name for the log. */
  model: z.string().min(1).max(100).optional(),
  forecasts: z.array(forecastSchema).max(MAX_FORECASTS),
});

export type ModelAnswer = z.output<typeof modelAnswerSchema>;
export type ModelForecast = ModelAnswer['forecasts'][number];
