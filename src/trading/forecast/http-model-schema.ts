import { z } from 'zod';
import { findStation } from '../settlement/stations.js';
import { MIN_MEMBERS } from './known-weather.js';

const MAX_FORECASTS = 10_000;
const possibleF = z.number().min(-100).max(150);

/** One run of the operator's model for one climate day: its members, or what it thinks in two numbers. */
const forecastSchema = z
  .object({
    station: z
      .string()
      .refine((id) => findStation(id) !== undefined, 'is no station that there are markets of'),
    date: z.iso.date(),
    modelRunAt: z.iso.datetime({ offset: true }),
    membersF: z.array(possibleF).min(MIN_MEMBERS).max(500).optional(),
    meanF: possibleF.optional(),
    standardDeviationF: z.number().min(0.1).max(40).optional(),
  })
  .superRefine(({ membersF, meanF, standardDeviationF }, context) => {
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
