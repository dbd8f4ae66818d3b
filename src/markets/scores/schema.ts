import { z } from 'zod';
import { timeField } from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { forecastMethods } from '../learning/forecast.js';
import { temperatureKinds } from '../market/market.js';

const gateSchema = z
  .object({
    isOpen: z.boolean().describe('Whether signals of this station at this lead are let through.'),
    n: z.int().describe('Settled days that it was judged by.'),
    dropped: z
      .int()
      .describe(
        'Days in between without a record, a price or a calibrated forecast: they count for nothing.',
      ),
    evidence: z
      .number()
      .describe(
        'What one dollar has become that was bet on the forecast being ahead, day by day. If on no day the forecast could be expected to be ahead of the prices that could be paid, it is at most 1 on average at any one time, and x or more with a probability of at most 1 / x. 1 says nothing.',
      ),
    needed: z.number().describe('The evidence with which the gate is open, given that of all other gates.'),
    difference: z
      .object({
        mean: z.number(),
        low: z.number(),
        high: z.number(),
      })
      .nullable()
      .describe(
        'Over the last days: mean log score of the model less that of what each outcome cost to buy, fee included, and the ends of its interval: below zero the model was ahead. `null` for too few days.',
      ),
    reason: z.string().describe('Why it is open or closed, as a sentence.'),
  })
  .meta({ id: 'Gate' });

const gateRuleSchema = z
  .object({
    rule: z.string().describe('The rule in words.'),
    falseShare: z
      .number()
      .describe(
        'Largest expected share of the open gates whose forecasts could not be expected to be ahead of the prices that could be paid on any day.',
      ),
    minimumDays: z.int().describe('Days that must have settled.'),
    windowDays: z.int().describe('The last days, over which it must not be behind.'),
    blockDays: z
      .int()
      .describe('For the interval: the length of the blocks of days that are drawn together.'),
    confidence: z
      .number()
      .describe('The confidence of the interval, which leaves out as much at either end.'),
    errorRates: z
      .object({
        gates: z.int().describe('The number of gates in each simulation.'),
        boundary: z
          .number()
          .describe(
            "Most gates ever open in a year, on average, where each day's expected advantage over the prices that could be paid is zero.",
          ),
        equal: z
          .number()
          .describe(
            "Most gates ever open in a year, on average, for models as good as their markets' mid prices, which pay `costs`. Without costs more open: equally good on average does not mean that no day's advantage can be expected.",
          ),
        costs: z.number().describe('Spread and fees in nats a day, in `equal` and `better`.'),
        better: z
          .number()
          .describe(
            'Fewest gates ever open in a year, on average, for models better by `betterBy` that pay `costs`.',
          ),
        betterBy: z.number().describe("In log score, than the market's mid prices."),
        betterAfterDays: z.int().describe('Days until half of those are open.'),
        small: z
          .number()
          .describe(
            'Fewest gates ever open in two years, on average, where the expected advantage over the prices that could be paid is `smallBy`.',
          ),
        smallBy: z
          .number()
          .describe('In nats a day, after spread and fees; it varies from day to day by 0.42.'),
      })
      .describe(
        'Simulated over many years of days and cities that depend on each other; tests hold the rule to them.',
      ),
  })
  .meta({ id: 'GateRule' });

const binSchema = z
  .object({
    from: z.number().describe('Probabilities of at least this,'),
    to: z.number().describe('and below this; in the last bin of at most this.'),
    n: z.int(),
    meanProbability: z.number().nullable().describe('`null` for an empty bin.'),
    frequency: z.number().nullable().describe('How often the bracket won; `null` for an empty bin.'),
    expected: z
      .object({ low: z.number(), high: z.number() })
      .nullable()
      .describe(
        'Where the frequency of a reliable forecast is found nine times of ten. What was said about a market at several leads counts as one.',
      ),
  })
  .meta({ id: 'ReliabilityBin' });

const crpsPointSchema = z
  .object({
    date: z.iso.date(),
    n: z.int(),
    model: z.number(),
    raw: z.number(),
    climate: z.number(),
    market: z.number(),
  })
  .meta({ id: 'CrpsPoint' });

const diagnosticsSchema = z
  .object({
    reliability: z
      .object({ model: z.array(binSchema), market: z.array(binSchema) })
      .describe(
        'How often what was given about the same probability came true: the same forecasts for both.',
      ),
    pit: z
      .object({
        n: z.int(),
        shares: z
          .array(z.number())
          .describe('The shares of bins of equal width from 0 to 1; they sum to one.'),
        pFlat: z
          .number()
          .nullable()
          .describe(
            'The probability of a histogram at least as uneven if the forecast is calibrated, with days as the unit; `null` for too few.',
          ),
      })
      .describe(
        "Where the outcomes lie in the forecasts' distributions: flat if calibrated, a bowl if too sure, a hill if not sure enough. A whole degree counts with the share of each bin that it covers.",
      ),
    crps: z
      .array(crpsPointSchema)
      .describe('Mean CRPS in °F of each climate day, over the forecasts that all four could be scored for.'),
  })
  .meta({ id: 'ScoreDiagnostics' });

export const scoresQuerySchema = z.strictObject({
  kind: z
    .enum(temperatureKinds)
    .optional()
    .describe('What was forecast; different kinds are never added up. Left out: `daily_maximum`.'),
  station: text(64)
    .optional()
    .describe(
      'Only this station: its id, like `KNYC`, in upper or lower case. Of hours the id of an area, like `INDEX-NYC`, or of the station of its city.',
    ),
  lead: z
    .enum(['36', '24', '12', '6', '3', '1'])
    .optional()
    .describe(
      'Only forecasts this many hours before the end of the climate day: 36, 24, 12 or 6; before the hour: 12, 6, 3 or 1.',
    ),
});

const scoreField = (description: string) => z.number().describe(description);

const pairSchema = z
  .object({
    logScore: scoreField(
      'Mean of −ln of the probability that the outcome was given; smaller is better. Probabilities below 0.0001 count as 0.0001.',
    ),
    rps: scoreField(
      'Mean ranked probability score over what the brackets tell apart, from cold to warm, divided by one less than their number: 0 is perfect, 1 the worst.',
    ),
  })
  .meta({ id: 'ScorePair' });

const crpsSchema = z
  .object({
    n: z.int().describe('Forecasts that all four have a CRPS for: only these are in the means.'),
    model: scoreField('The forecast, given what had been observed when it was recorded.'),
    raw: scoreField(
      "The ensemble as it was: its members' shares of each whole degree, knowing nothing of the day's observations.",
    ),
    climate: scoreField(
      'Climatology: a normal distribution with the mean and spread of the last 30 days whose reports were known then.',
    ),
    market: scoreField(
      'The market: its probabilities of the brackets, shared out within each by the normal distribution that comes nearest to all of them, and over degrees that the day could still reach.',
    ),
  })
  .meta({
    id: 'CrpsMeans',
    description:
      'Mean continuous ranked probability scores in °F, all of the same whole degrees: the sum over d of (F(d) − 1{outcome ≤ d})². Smaller is better; one sure degree scores its distance from the outcome.',
  });

const summaryFields = {
  n: z
    .int()
    .describe(
      'Forecasts whose day has settled and that had a market price for every bracket: only these are compared.',
    ),
  waiting: z.int().describe('Forecasts whose day has not settled yet.'),
  withoutMarket: z
    .int()
    .describe(
      'Settled forecasts without a market price for every bracket. They are excluded from the means.',
    ),
  since: z.iso.date().nullable().describe('The first day in the means; `null` if there is none.'),
  model: pairSchema.nullable().describe('The forecast; `null` while `n` is 0.'),
  market: pairSchema
    .nullable()
    .describe(
      'The market: the middle between bid and ask of each bracket, without fees, made to sum to one.',
    ),
  difference: pairSchema
    .nullable()
    .describe('Model less market: below zero the forecast was better. Few days say little.'),
  crps: crpsSchema.nullable().describe('`null` while no forecast has all four.'),
};

const summarySchema = z.object(summaryFields).meta({ id: 'ScoreSummary' });
const leadField = z.int().describe('Hours from the forecast to the end of the climate day, or to the hour.');
const leadSchema = z.object({ leadHours: leadField, ...summaryFields }).meta({ id: 'LeadScores' });
const stationLeadSchema = z
  .object({ leadHours: leadField, ...summaryFields, gate: gateSchema })
  .meta({ id: 'StationLeadScores' });

export const modelField = z
  .string()
  .describe(
    "`main`: the source's first model. `earlier`: its run of at least 12 hours before. Else what the source calls it: of Open-Meteo `ecmwf`, `hrrr` and `nbm`.",
  );

const modelScoreFields = {
  logScore: scoreField('As of the forecast.'),
  crps: scoreField('°F.'),
};

const modelSchema = z
  .object({
    model: modelField,
    n: z.int().describe('Settled forecasts in which it had a share.'),
    ...modelScoreFields,
    mixed: z.object(modelScoreFields).describe('The forecast mixed from all models, on the same days.'),
    weight: z
      .number()
      .nullable()
      .describe('Its share, on average over the forecasts of the last day; `null` for none.'),
  })
  .meta({ id: 'ModelScores' });

const sideSchema = z.object({
  probability: z
    .number()
    .describe('What was given to the bracket that won; of hours to what lies between two thresholds.'),
  logScore: z.number(),
  rps: z.number(),
  crps: z.number().nullable().describe('°F.'),
});

const recordSchema = z
  .object({
    station: z.string(),
    date: z.iso.date().describe('The climate day; of an hour the date by the clock.'),
    hour: z.int().nullable().describe('In the local time of the place; `null` except for hours.'),
    leadHours: leadField,
    recordedAt: timeField('When model and market were recorded.'),
    method: z
      .enum(forecastMethods)
      .describe('How the forecast was made. All but `raw_ensemble` are calibrated, and in the means.'),
    modelRunAt: timeField('When the weather model was started.'),
    temperatureF: z
      .number()
      .describe('As it was reported, °F: whole degrees of a day, hundredths of an hour.'),
    ticker: z
      .string()
      .nullable()
      .describe('The market that won; of thresholds the highest that was passed, `null` if none was.'),
    model: sideSchema,
    market: sideSchema.nullable().describe('`null` where not every bracket had a price.'),
  })
  .meta({ id: 'ScoredForecast' });

export const scoresSchema = z
  .object({
    marketSource: z.string(),
    forecastSource: z.string(),
    kind: z.enum(temperatureKinds).describe('What the scores are about.'),
    windowDays: z.int().describe('Only days this far back are in the scores.'),
    overall: summarySchema.describe(
      'Calibrated forecasts: those that were corrected by how earlier ones came out.',
    ),
    uncalibrated: summarySchema.describe(
      'Forecasts that were the ensemble as it was, while there was too little to calibrate it by. Nothing else has them but `records`.',
    ),
    leads: z.array(leadSchema).describe('Over all stations that were asked for, the longest lead first.'),
    models: z
      .array(modelSchema)
      .describe(
        'Each model by itself, corrected by its own fit, over all stations that were asked for: of calibrated forecasts from before anything was observed of their day. Empty while there has been one model only.',
      ),
    stations: z.array(
      z.object({
        station: z.string(),
        city: z.string(),
        overall: summarySchema,
        leads: z.array(stationLeadSchema),
      }),
    ),
    gateRule: gateRuleSchema,
    diagnostics: diagnosticsSchema,
    records: z.array(recordSchema).describe('The newest that have settled, at most 100.'),
    gatesJudgedAt: timeField('When the gates were judged; `null` while they have not been.').nullable(),
    asOf: timeField('When these scores were computed, at most half a minute ago.'),
  })
  .meta({ id: 'Scores' });

export type ScoresAnswer = z.output<typeof scoresSchema>;
export type ScoreSummary = z.output<typeof summarySchema>;
