import { z } from 'zod';
import { timeField } from '../../http/fields.js';
import { text } from '../../http/validate.js';

export const scoresQuerySchema = z.strictObject({
  station: text(64).optional().describe('Only this station: its id, like `KNYC`, in upper or lower case.'),
});

const scoreField = (description: string) => z.number().meta({ description });

const pairSchema = z
  .object({
    logScore: scoreField(
      'Mean of −ln of the probability that the outcome was given; smaller is better. Probabilities below 0.0001 count as 0.0001.',
    ),
    rps: scoreField(
      'Mean ranked probability score over the brackets from cold to warm, divided by one less than their number: 0 is perfect, 1 the worst.',
    ),
  })
  .meta({ id: 'ScorePair' });

const summaryFields = {
  n: z
    .int()
    .describe(
      'Forecasts whose day has settled and that had a market price for every bracket: only these are compared.',
    ),
  waiting: z.int().describe('Forecasts whose day has not settled yet.'),
  withoutMarket: z
    .int()
    .describe('Settled ones without a market price for every bracket. They are in no mean.'),
  since: z.iso.date().nullable().describe('The first day in the means; `null` if there is none.'),
  model: pairSchema.nullable().describe('Of the forecast; `null` while `n` is 0.'),
  market: pairSchema
    .nullable()
    .describe(
      'Of the market: the middle between bid and ask of each bracket, without fees, made to sum to one.',
    ),
  difference: pairSchema
    .nullable()
    .describe('Model less market: below zero the forecast was better. Few days say little.'),
};

const summarySchema = z.object(summaryFields).meta({ id: 'ScoreSummary' });
const leadField = z.int().describe('Hours from the forecast to the end of the climate day.');
const leadSchema = z.object({ leadHours: leadField, ...summaryFields }).meta({ id: 'LeadScores' });

const sideSchema = z.object({
  probability: z.number().describe('What was given to the bracket that won.'),
  logScore: z.number(),
  rps: z.number(),
});

const recordSchema = z
  .object({
    station: z.string(),
    date: z.iso.date().describe('The climate day.'),
    leadHours: leadField,
    recordedAt: timeField('When model and market were written down.'),
    modelRunAt: timeField('When the weather model was started.'),
    temperatureF: z.int().describe('The reported maximum, °F.'),
    ticker: z.string().describe('The market that won.'),
    model: sideSchema,
    market: sideSchema.nullable().describe('`null` where not every bracket had a price.'),
  })
  .meta({ id: 'ScoredForecast' });

export const scoresSchema = z
  .object({
    marketSource: z.string(),
    forecastSource: z.string(),
    method: z.string().describe('How the forecasts were made: `raw_ensemble`.'),
    isCalibrated: z.boolean().describe('Whether they were corrected by how earlier ones came out.'),
    windowDays: z.int().describe('Only days this far back are in the scores.'),
    overall: summarySchema,
    leads: z.array(leadSchema).describe('Over all stations that were asked for, the longest lead first.'),
    stations: z.array(
      z.object({
        station: z.string(),
        city: z.string(),
        overall: summarySchema,
        leads: z.array(leadSchema),
      }),
    ),
    records: z.array(recordSchema).describe('The newest that have settled, at most 100.'),
    asOf: timeField('When these scores were added up; at most half a minute ago.'),
  })
  .meta({ id: 'Scores' });

export type ScoresAnswer = z.output<typeof scoresSchema>;
export type ScoreSummary = z.output<typeof summarySchema>;
