import { z } from 'zod';
import { timeField } from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { forecastMethods } from '../learning/forecast.js';
import { temperatureKinds } from '../market/market.js';

const gateSchema = z
  .object({
    isOpen: z.boolean().describe('Whether signals of this station at this lead are shown.'),
    n: z.int().describe('The number of settled days behind the verdict.'),
    dropped: z
      .int()
      .describe('Days in between without a record, a price or a calibrated forecast. They do not count.'),
    evidence: z
      .number()
      .describe(
        'The current value of one dollar bet on the forecast day by day. If the forecast never has an expected advantage over the payable prices, the evidence is at most 1 on average at any time, and reaches x with a probability of at most 1 / x. 1 is neutral.',
      ),
    needed: z
      .number()
      .describe('The evidence needed to open the gate, given the evidence of all other gates.'),
    difference: z
      .object({
        mean: z.number(),
        low: z.number(),
        high: z.number(),
      })
      .nullable()
      .describe(
        'Mean log score of the model over the last days, minus that of the prices paid for each outcome, fee included, with its interval. Below zero the model was ahead. `null` for too few days.',
      ),
    reason: z.string().describe('Why the gate is open or closed, as a sentence.'),
  })
  .meta({ id: 'Gate' });

const gateRuleSchema = z
  .object({
    rule: z.string().describe('The rule in words.'),
    falseShare: z
      .number()
      .describe(
        'The largest expected share of open gates whose forecasts never have an expected advantage over the payable prices.',
      ),
    minimumDays: z.int().describe('The minimum number of settled days.'),
    windowDays: z.int().describe('The number of recent days over which the forecast must not be behind.'),
    blockDays: z.int().describe('The block length of the bootstrap interval, in days.'),
    confidence: z
      .number()
      .describe('The confidence of the interval, which excludes equal shares at both ends.'),
    errorRates: z
      .object({
        gates: z.int().describe('The number of gates in each simulation.'),
        boundary: z
          .number()
          .describe(
            'The most gates that open within a year, on average, if the expected advantage over the payable prices is zero on each day.',
          ),
        equal: z
          .number()
          .describe(
            'The most gates that open within a year, on average, for models as good as their markets’ mid prices that pay `costs`. Without costs more gates open: such a model can have an expected advantage on some days.',
          ),
        costs: z.number().describe('Spread and fees in nats per day, in `equal` and `better`.'),
        better: z
          .number()
          .describe(
            'The fewest gates that open within a year, on average, for models better by `betterBy` that pay `costs`.',
          ),
        betterBy: z.number().describe('The advantage in log score over the market’s mid prices.'),
        betterAfterDays: z.int().describe('Days until half of these gates are open.'),
        small: z
          .number()
          .describe(
            'The fewest gates that open within two years, on average, if the expected advantage over the payable prices is `smallBy`.',
          ),
        smallBy: z
          .number()
          .describe('In nats per day, after spread and fees, with a daily deviation of 0.42.'),
      })
      .describe(
        'Error rates from simulations of many years with dependent days and cities; tests verify them.',
      ),
  })
  .meta({ id: 'GateRule' });

const binSchema = z
  .object({
    from: z.number().describe('The lower bound of the bin, inclusive.'),
    to: z.number().describe('The upper bound, exclusive; inclusive in the last bin.'),
    n: z.int(),
    meanProbability: z.number().nullable().describe('`null` for an empty bin.'),
    frequency: z.number().nullable().describe('How often the bracket won; `null` for an empty bin.'),
    expected: z
      .object({ low: z.number(), high: z.number() })
      .nullable()
      .describe(
        'The 90% interval of the frequency for a reliable forecast. Forecasts of a market at several leads count as one.',
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
        'Observed frequencies by forecast probability, from the same forecasts for model and market.',
      ),
    crps: z
      .array(crpsPointSchema)
      .describe('Mean CRPS in °F by climate day, over the forecasts for which all four have a CRPS.'),
  })
  .meta({ id: 'ScoreDiagnostics' });

export const scoresQuerySchema = z.strictObject({
  kind: z
    .enum(temperatureKinds)
    .optional()
    .describe('The forecast quantity; kinds are never combined. Default: `daily_maximum`.'),
  station: text(64)
    .optional()
    .describe(
      'Only this station: its id, like `KNYC`, in upper or lower case. For hours, the id of an area, like `INDEX-NYC`, or of its city’s station.',
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
      'Mean ranked probability score over the outcomes that the brackets distinguish, from cold to warm, divided by their number minus one: 0 is perfect, 1 the worst.',
    ),
  })
  .meta({ id: 'ScorePair' });

const crpsSchema = z
  .object({
    n: z.int().describe('Forecasts for which all four have a CRPS; only these are in the means.'),
    model: scoreField('The forecast, given what had been observed when it was recorded.'),
    raw: scoreField(
      'The raw ensemble: the members’ shares of each whole degree, without the day’s observations.',
    ),
    climate: scoreField(
      'Climatology: a normal distribution with the mean and spread of the last 30 days whose reports were known at the time.',
    ),
    market: scoreField(
      'The market: its bracket probabilities, distributed within each bracket by the best-fitting normal distribution, over the degrees that the day could still reach.',
    ),
  })
  .meta({
    id: 'CrpsMeans',
    description:
      'Mean continuous ranked probability scores in °F, all on the same whole degrees: the sum over d of (F(d) − 1{outcome ≤ d})². Smaller is better; a certain degree scores its distance from the outcome.',
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
  since: z.iso.date().nullable().describe('The first day in the means; `null` before the first one.'),
  model: pairSchema.nullable().describe('The forecast; `null` while `n` is 0.'),
  market: pairSchema
    .nullable()
    .describe('The market: the mid price of each bracket, without fees, scaled to sum to one.'),
  difference: pairSchema
    .nullable()
    .describe('Model minus market: below zero the forecast was better. Few days are weak evidence.'),
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
    '`main`: the source’s first model. `earlier`: its run from at least 12 hours earlier. Otherwise the source’s name: `ecmwf`, `hrrr` or `nbm` for Open-Meteo.',
  );

const modelScoreFields = {
  logScore: scoreField('The log score, as for the forecast.'),
  crps: scoreField('The CRPS, °F.'),
};

const modelSchema = z
  .object({
    model: modelField,
    n: z.int().describe('Settled forecasts in which the model had a weight.'),
    ...modelScoreFields,
    version: z
      .string()
      .nullable()
      .describe('The version in use: stated by its runs, or known by date; `null` if neither.'),
    versionFrom: z.iso.date().nullable().describe('The date of that version’s first run, as far as known.'),
    mixed: z.object(modelScoreFields).describe('The forecast mixed from all models, on the same days.'),
    weight: z
      .number()
      .nullable()
      .describe('The model’s mean weight in the forecasts of the last day; `null` without forecasts.'),
  })
  .meta({ id: 'ModelScores' });

const breakSchema = z
  .object({
    model: modelField,
    version: z.string(),
    from: z.iso.date().describe('The date of its first run.'),
  })
  .meta({ id: 'ModelBreak' });

const sideSchema = z.object({
  probability: z
    .number()
    .describe('The probability of the winning bracket; for hours, of the interval between two thresholds.'),
  logScore: z.number(),
  rps: z.number(),
  crps: z.number().nullable().describe('°F.'),
});

const recordSchema = z
  .object({
    station: z.string(),
    date: z.iso.date().describe('The climate day; for an hour, the local date.'),
    hour: z.int().nullable().describe('The hour in local time; `null` except for hourly markets.'),
    leadHours: leadField,
    recordedAt: timeField('When model and market were recorded.'),
    method: z
      .enum(forecastMethods)
      .describe(
        'How the forecast was made. All methods except `raw_ensemble` are calibrated, and in the means.',
      ),
    modelRunAt: timeField('When the weather model run started.'),
    temperatureF: z
      .number()
      .describe('The reported temperature, °F: whole degrees for a day, hundredths for an hour.'),
    ticker: z
      .string()
      .nullable()
      .describe('The winning market; for thresholds the highest one passed, `null` if none was.'),
    model: sideSchema,
    market: sideSchema.nullable().describe('`null` if a bracket had no price.'),
  })
  .meta({ id: 'ScoredForecast' });

export const scoresSchema = z
  .object({
    marketSource: z.string(),
    forecastSource: z.string(),
    kind: z.enum(temperatureKinds).describe('The forecast quantity.'),
    windowDays: z.int().describe('The number of past days in the scores.'),
    overall: summarySchema.describe('Calibrated forecasts: corrected by the outcomes of earlier ones.'),
    uncalibrated: summarySchema.describe(
      'Uncorrected ensembles, from before there were enough data to calibrate. Otherwise only `records` contains them.',
    ),
    leads: z.array(leadSchema).describe('Scores by lead over all requested stations, longest lead first.'),
    models: z
      .array(modelSchema)
      .describe(
        'Each model alone, corrected by its own fit, over all requested stations: calibrated forecasts from before the first observation of their day. Empty if there has been only one model.',
      ),
    breaks: z
      .array(breakSchema)
      .describe(
        'New versions within the window: a model’s errors from before its break count a quarter for its weight, and its bias is learned again.',
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
    records: z.array(recordSchema).describe('The newest settled forecasts, at most 100.'),
    gatesJudgedAt: timeField('When the gates were last evaluated; `null` if they never were.').nullable(),
    asOf: timeField('When these scores were computed, at most half a minute ago.'),
  })
  .meta({ id: 'Scores' });

export type ScoresAnswer = z.output<typeof scoresSchema>;
export type ScoreSummary = z.output<typeof summarySchema>;
