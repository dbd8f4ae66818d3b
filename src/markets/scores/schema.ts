import { z } from 'zod';
import {
  booleanField,
  integerField,
  integerOrNull,
  namedObject,
  numberField,
  numberOrNull,
  textField,
  textOrNull,
  timeField,
} from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { forecastMethods } from '../learning/forecast.js';
import { temperatureKinds } from '../market/market.js';

const gateSchema = namedObject('Gate', {
  isOpen: booleanField('Whether signals of this station at this lead are shown.'),
  n: integerField('The number of settled days behind the verdict.'),
  dropped: integerField(
    'Days in between without a record, a price or a calibrated forecast. They do not count.',
  ),
  evidence: numberField(
    'The current value of one dollar bet on the forecast day by day. If the forecast never has an expected advantage over the payable prices, the evidence is at most 1 on average at any time, and reaches x with a probability of at most 1 / x. 1 is neutral.',
  ),
  needed: numberField('The evidence needed to open the gate, given the evidence of all other gates.'),
  difference: z
    .object({ mean: z.number(), low: z.number(), high: z.number() })
    .nullable()
    .describe(
      'Mean log score of the model over the last days, minus that of the prices paid for each outcome, fee included, with its interval. Below zero the model was ahead. `null` for too few days.',
    ),
  reason: textField('Why the gate is open or closed, as a sentence.'),
});

const gateRuleSchema = namedObject('GateRule', {
  rule: textField('The rule in words.'),
  falseShare: numberField(
    'The largest expected share of open gates whose forecasts never have an expected advantage over the payable prices.',
  ),
  minimumDays: integerField('The minimum number of settled days.'),
  windowDays: integerField('The number of recent days over which the forecast must not be behind.'),
  blockDays: integerField('The block length of the bootstrap interval, in days.'),
  confidence: numberField('The confidence of the interval, which excludes equal shares at both ends.'),
  errorRates: z
    .object({
      gates: integerField('The number of gates in each simulation.'),
      boundary: numberField(
        'The most gates that open within a year, on average, if the expected advantage over the payable prices is zero on each day.',
      ),
      equal: numberField(
        'The most gates that open within a year, on average, for models as good as their markets’ mid prices that pay `costs`. Without costs more gates open: such a model can have an expected advantage on some days.',
      ),
      costs: numberField('Spread and fees in nats per day, in `equal` and `better`.'),
      better: numberField(
        'The fewest gates that open within a year, on average, for models better by `betterBy` that pay `costs`.',
      ),
      betterBy: numberField('The advantage in log score over the market’s mid prices.'),
      betterAfterDays: integerField('Days until half of these gates are open.'),
      small: numberField(
        'The fewest gates that open within two years, on average, if the expected advantage over the payable prices is `smallBy`.',
      ),
      smallBy: numberField('In nats per day, after spread and fees, with a daily deviation of 0.42.'),
    })
    .describe(
      'Error rates from simulations of many years with dependent days and cities; tests verify them.',
    ),
});

const binSchema = namedObject('ReliabilityBin', {
  from: numberField('The lower bound of the bin, inclusive.'),
  to: numberField('The upper bound, exclusive; inclusive in the last bin.'),
  n: z.int(),
  meanProbability: numberOrNull('`null` for an empty bin.'),
  frequency: numberOrNull('How often the bracket won; `null` for an empty bin.'),
  expected: z
    .object({ low: z.number(), high: z.number() })
    .nullable()
    .describe(
      'The 90% interval of the frequency for a reliable forecast. Forecasts of a market at several leads count as one.',
    ),
});

export type ReliabilityBin = z.infer<typeof binSchema>;

const crpsPointSchema = namedObject('CrpsPoint', {
  date: z.iso.date(),
  n: z.int(),
  model: z.number(),
  raw: z.number(),
  climate: z.number(),
  market: z.number(),
});

/** In °F, over the forecasts of a day for which all four forecasters could be scored. */
export type CrpsPoint = z.infer<typeof crpsPointSchema>;

const diagnosticsSchema = namedObject('ScoreDiagnostics', {
  reliability: z
    .object({ model: z.array(binSchema), market: z.array(binSchema) })
    .describe('Observed frequencies by forecast probability, from the same forecasts for model and market.'),
  crps: z
    .array(crpsPointSchema)
    .describe('Mean CRPS in °F by climate day, over the forecasts for which all four have a CRPS.'),
});

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

const pairSchema = namedObject('ScorePair', {
  logScore: numberField(
    'Mean of −ln of the probability that the outcome was given; smaller is better. Probabilities below 0.0001 count as 0.0001.',
  ),
  rps: numberField(
    'Mean ranked probability score over the outcomes that the brackets distinguish, from cold to warm, divided by their number minus one: 0 is perfect, 1 the worst.',
  ),
});

const crpsSchema = z
  .object({
    n: integerField('Forecasts for which all four have a CRPS; only these are in the means.'),
    model: numberField('The forecast, given what had been observed when it was recorded.'),
    raw: numberField(
      'The raw ensemble: the members’ shares of each whole degree, without the day’s observations.',
    ),
    climate: numberField(
      'Climatology: a normal distribution with the mean and spread of the last 30 days whose reports were known at the time.',
    ),
    market: numberField(
      'The market: its bracket probabilities, distributed within each bracket by the best-fitting normal distribution, over the degrees that the day could still reach.',
    ),
  })
  .meta({
    id: 'CrpsMeans',
    description:
      'Mean continuous ranked probability scores in °F, all on the same whole degrees: the sum over d of (F(d) − 1{outcome ≤ d})². Smaller is better; a certain degree scores its distance from the outcome.',
  });

const summaryFields = {
  n: integerField(
    'Forecasts whose day has settled and that had a market price for every bracket: only these are compared.',
  ),
  waiting: integerField('Forecasts whose day has not settled yet.'),
  withoutMarket: integerField(
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

const summarySchema = namedObject('ScoreSummary', summaryFields);
const leadField = integerField('Hours from the forecast to the end of the climate day, or to the hour.');
const leadFields = { leadHours: leadField, ...summaryFields };
const leadSchema = namedObject('LeadScores', leadFields);
const stationLeadSchema = namedObject('StationLeadScores', { ...leadFields, gate: gateSchema });

export const modelField = textField(
  '`main`: the source’s first model. `earlier`: its run from at least 12 hours earlier. Otherwise the source’s name: `ecmwf`, `hrrr` or `nbm` for Open-Meteo.',
);

const modelScoreFields = {
  logScore: numberField('The log score, as for the forecast.'),
  crps: numberField('The CRPS, °F.'),
};

const modelSchema = namedObject('ModelScores', {
  model: modelField,
  n: integerField('Settled forecasts in which the model had a weight.'),
  ...modelScoreFields,
  version: textOrNull('The version in use: stated by its runs, or known by date; `null` if neither.'),
  versionFrom: z.iso.date().nullable().describe('The date of that version’s first run, as far as known.'),
  mixed: z.object(modelScoreFields).describe('The forecast mixed from all models, on the same days.'),
  weight: numberOrNull('The model’s mean weight in the forecasts of the last day; `null` without forecasts.'),
});

const breakSchema = namedObject('ModelBreak', {
  model: modelField,
  version: z.string(),
  from: z.iso.date().describe('The date of its first run.'),
});

const sideSchema = z.object({
  probability: numberField(
    'The probability of the winning bracket; for hours, of the interval between two thresholds.',
  ),
  logScore: z.number(),
  rps: z.number(),
  crps: numberOrNull('°F.'),
});

const recordSchema = namedObject('ScoredForecast', {
  station: z.string(),
  date: z.iso.date().describe('The climate day; for an hour, the local date.'),
  hour: integerOrNull('The hour in local time; `null` except for hourly markets.'),
  leadHours: leadField,
  recordedAt: timeField('When model and market were recorded.'),
  method: z
    .enum(forecastMethods)
    .describe(
      'How the forecast was made. All methods except `raw_ensemble` are calibrated, and in the means.',
    ),
  modelRunAt: timeField('When the weather model run started.'),
  temperatureF: numberField('The reported temperature, °F: whole degrees for a day, hundredths for an hour.'),
  ticker: textOrNull('The winning market; for thresholds the highest one passed, `null` if none was.'),
  model: sideSchema,
  market: sideSchema.nullable().describe('`null` if a bracket had no price.'),
});

export const scoresSchema = namedObject('Scores', {
  marketSource: z.string(),
  forecastSource: z.string(),
  kind: z.enum(temperatureKinds).describe('The forecast quantity.'),
  windowDays: integerField('The number of past days in the scores.'),
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
});

export type ScoresAnswer = z.output<typeof scoresSchema>;
export type ScoreSummary = z.output<typeof summarySchema>;
