import { z } from 'zod';
import { modelField } from '../scores/schema.js';
import {
  booleanField,
  integerField,
  integerOrNull,
  namedObject,
  numberField,
  textField,
  textOrNull,
  timeField,
} from '../../core/http/fields.js';
import { forecastMethods } from '../learning/forecast.js';
import { notesSchema } from '../snapshot/schema.js';
import { indexAreas } from '../market/stations.js';
import {
  count,
  dateField,
  freshness,
  measureField,
  probability,
  stationField,
  temperature,
  unitField,
} from './schema.js';

export const noQuerySchema = z.strictObject({});

const trainingFields = (described: { n: string; rawCrps: string }) => ({
  n: count(described.n),
  firstDate: z.iso.date().describe('The first of these days.'),
  lastDate: z.iso.date().describe('The last of these days.'),
  trainingCrps: numberField("The fit's mean CRPS over these days, °F."),
  rawCrps: numberField(described.rawCrps),
  knownThrough: timeField('When the latest training data became known.'),
  trainedAt: timeField('When it was created.'),
});

const fitSchema = namedObject('ForecastFit', {
  id: textField('A UUIDv7.'),
  station: textOrNull(
    'The station whose long history it was trained on, with the seasons; `null`: all stations.',
  ),
  leadHours: integerField('The longest lead that the fit applies to, in steps of 12 hours.'),
  coefficients: z
    .object({ a: z.number(), b: z.number(), c: z.number(), d: z.number() })
    .describe(
      'The fit at this station on this day: the temperature is logistic with mean a + b·m, where m is the members’ mean minus `stationBiasF`, and standard deviation exp(c + d·ln s), where s is their sample deviation. Outside the range of the training data, m gets the correction of the nearest end of the range.',
    ),
  stationBiasF: numberField(
    'The station’s own warm bias beyond the bias of all stations, °F; for an hour, the bias at that hour. 0 for a station’s own fit.',
  ),
  ...trainingFields({
    n: 'Training days of all its stations; for hourly fits, training hours',
    rawCrps: 'The mean CRPS of the uncorrected members over these days, °F.',
  }),
});

const runningFitSchema = namedObject('RunningDayFit', {
  id: textField('A UUIDv7.'),
  hour: integerField('The hour of the day that the fit applies to, in local standard time.'),
  coefficients: z
    .record(z.string(), z.number())
    .describe(
      'Coefficients for the extreme of the remaining hours: `a` to `shift` give its location, `g0` to `g4` the logarithm of its scale. For a minimum, every temperature has the opposite sign.',
    ),
  stationBiasF: numberField('The warm bias of the station’s hourly forecast so far in the day, °F.'),
  stationExtremeBiasF: numberField('The warm bias of its highest or lowest hour, °F.'),
  ...trainingFields({
    n: 'Training days of all stations',
    rawCrps: 'The mean CRPS of the uncorrected hourly forecast over these days, °F.',
  }),
});

const runningSchema = namedObject('RunningDay', {
  hour: integerOrNull(
    'The latest hour with a known temperature, in local standard time, 0 to 22; `null` if no hour has one.',
  ),
  observedAt: timeField("When the station's latest report was made."),
  reachedF: integerField(
    'The whole degree that the day has certainly reached; for a minimum, the one that it has certainly fallen to.',
  ),
  peakedProbability: probability(
    'The probability that the report equals `reachedF`: the day has peaked, or for a minimum, has had its lowest temperature.',
  ),
  fit: runningFitSchema
    .nullable()
    .describe(
      'The fit for days at that hour; `null` if the forecast from before the day is used instead, with lower outcomes counted as `reachedF`.',
    ),
  fallback: textOrNull('Why there is no fit, for people; `null` if there is one.'),
  dayAheadShare: probability(
    'The weight of the forecast from before the day, which combines all models. The fit has the rest; without a fit it is 1.',
  ),
});

const degreeFields = {
  lowestF: integerField('The lowest whole °F that the station shows as these whole °C.'),
  highestF: integerField('The highest.'),
};

const minutesSchema = namedObject('MinuteReadings', {
  latestAt: timeField('The newest minute; `null` without one on this day.').nullable(),
  problem: textOrNull('Why the readings are left out, for people; `null` if they are used.'),
  changes: z
    .array(
      z.object({
        at: timeField('The first minute of a temperature.'),
        ...degreeFields,
        isConfirmed: booleanField("True after the venue's quality control."),
      }),
    )
    .describe('The temperatures of the day so far, one for each change; at most 500.'),
});

const observed = (what: string, at = "When the station's latest report was made.") =>
  z
    .object({
      temperatureF: temperature(what),
      observedAt: timeField(at),
      fetchedAt: timeField('When the observation was fetched.'),
      minutes: z
        .object({ ...degreeFields, at: timeField('The minute that proves it.') })
        .nullable()
        .describe(
          'The whole degrees between which the extreme so far lies by one-minute readings in whole °C; `null` without any. They settle nothing.',
        ),
    })
    .nullable();

const modelSchema = namedObject('ForecastModelShare', {
  model: modelField,
  weight: probability('The weight of the model. All weights sum to one.'),
  meanF: temperature('The mean of this model alone, corrected by its own fit'),
  standardDeviationF: temperature('Likewise'),
  rawMeanF: temperature('The mean of its members, before any correction'),
  members: count('The number of members; 1 for a single run'),
  modelRunAt: timeField('When the model run started; `null` if unknown.').nullable(),
  fetchedAt: timeField('When its run was fetched.'),
  reason: textOrNull('Why its weight is 0, for people; `null` if it is not.'),
});

const forecastFields = {
  date: dateField,
  eventTicker: z.string().nullable(),
  meanF: temperature('The mean before observations are taken into account'),
  standardDeviationF: temperature('Likewise'),
  distribution: z
    .object({
      family: z
        .enum(['normal', 'logistic', 'known'])
        .describe(
          '`logistic`: every calibrated forecast. `normal`: the uncorrected members. `known`: the value was observed.',
        ),
      meanF: numberField(
        'The mean, °F, before impossible values are excluded; for a running day, of the remaining hours.',
      ),
      standardDeviationF: numberField('The standard deviation in the same sense; 0 for `known`.'),
      stays: probability(
        'For a running day: the probability that the extreme so far remains the extreme. The rest of the distribution lies beyond it.',
      ).nullable(),
    })
    .describe('The distribution behind `quantiles` and `brackets`, before rounding.')
    .meta({ id: 'ForecastDistribution' }),
  quantiles: z
    .array(
      z.object({
        probability: probability('The probability of a temperature at or below it.'),
        temperatureF: z.number(),
      }),
    )
    .describe('Quantiles of `distribution`, given the observations, °F.'),
  brackets: z
    .array(
      z.object({
        ticker: z.string(),
        label: z.string().nullable(),
        probability: probability('The probability that YES pays.'),
      }),
    )
    .describe(
      'From cold to warm. The probabilities of a day sum to one. Those of an hour are for thresholds, each contained in the previous one.',
    ),
  source: z.string(),
  method: z
    .enum(forecastMethods)
    .describe(
      '`same_day`: from how comparable days continued, see `running`. `emos_pooled`: corrected by a fit of all stations together. `emos`: half by that fit and half by a seasonal fit of the station’s own history. `raw_ensemble`: the members’ own mean and spread, uncorrected.',
    ),
  isCalibrated: booleanField('Calibrated against the outcomes of earlier forecasts.'),
  fallback: textOrNull(
    'Why a simpler method was used, for people; `null` if the best available method was used.',
  ),
  rawMeanF: temperature('The mean of the members, before any correction'),
  rawStandardDeviationF: temperature('Their sample deviation, at least 1'),
  fit: fitSchema.nullable().describe('The correction of the members; `null` without a correction.'),
  seasonalFit: fitSchema
    .nullable()
    .describe(
      "The station's own fit with the seasons, weighted equally with `fit`; `null` if its history is shorter than a year and a half.",
    ),
  leadHours: numberField(
    "Hours from the start of the weather model's run, or of the newest possible run if it is unknown, to the end of the day, or to the hour.",
  ),
  modelRunAt: timeField(
    'When the weather model run started. It contains no later data. `null` if unknown: the forecast then gives no signals and is not stored.',
  ).nullable(),
  fetchedAt: timeField('When its run was fetched.'),
  membersF: z.array(z.number()).describe('The value of each member, °F.'),
  models: z
    .array(modelSchema)
    .describe(
      'The models behind `meanF` and `standardDeviationF`: each is corrected by its own fit and weighted by recent skill. `method`, `fit`, `rawMeanF`, `modelRunAt` and `membersF` describe the first model; if it has no weight, `method` and `fit` describe another. Only the first model continues a running day.',
    ),
};

const dayFields = {
  ...forecastFields,
  isReported: booleanField('True if the observation is the day’s first final climate report.'),
  running: runningSchema
    .nullable()
    .describe(
      'The observations of the running day; `null` before the first observation and after the day is over.',
    ),
  extremeHours: z
    .object({
      from: integerField('The first hour, local standard time.'),
      to: integerField('Exclusive.'),
      days: count('Days of the station from which they are learned; 0 for the usual hours.'),
    })
    .nullable()
    .describe(
      'When the extreme usually occurs. Resting orders near the extreme so far are cancelled in these hours.',
    ),
  hourlyMeanF: z
    .array(z.number())
    .nullable()
    .describe('The mean of the members at the hours 0 to 23 in local standard time, °F; `null` if unknown.'),
};

const dayForecastSchema = namedObject('DayForecast', {
  ...dayFields,
  observedMaximum: observed('The highest temperature that the station has reported on this day so far'),
});

const minimumForecastSchema = namedObject('MinimumForecast', {
  ...dayFields,
  observedMinimum: observed('The lowest temperature that the station has reported on this day so far'),
});

const hourForecastSchema = namedObject('HourForecast', {
  area: textField('The id of the area of the index, like `INDEX-NYC`.'),
  hour: integerField('The hour in local time, 0 to 23.'),
  at: timeField('The time of the forecast temperature.'),
  ...forecastFields,
  observed: observed('The value of the index', 'When the index was published.').describe(
    '`null` until the index has been published.',
  ),
});

export const forecastSchema = namedObject('Forecast', {
  station: stationField,
  city: z.string(),
  name: z.string(),
  measure: measureField,
  unit: unitField,
  source: textField('The sources of ensembles and observations.'),
  notes: notesSchema.describe(
    'Reports of the station that are left out, because other reports contradict them.',
  ),
  minutes: minutesSchema
    .nullable()
    .describe("One-minute readings of the venue's index; `null` if the station is no member of it."),
  days: z.array(dayForecastSchema).describe('Daily maxima, in order of date.'),
  minima: z.array(minimumForecastSchema).describe('Daily minima, in order of date.'),
  hours: z
    .array(hourForecastSchema)
    .describe("Forecasts of the venue's temperature index of the city, if it has one, in order of time."),
  ...freshness,
  forecastAgeSeconds: count('Whole seconds since the oldest `fetchedAt` of these forecasts.'),
});

const crossCheckSchema = namedObject('SettlementCrossCheck', {
  compared: count('Days for which both are known'),
  agreed: count('Those of these days on which both agree'),
  since: dateField,
  disagreements: z
    .array(
      z.object({
        date: dateField,
        venue: integerField('The temperature that the venue settled by, °F.'),
        report: integerField('The temperature in the first final report, °F.'),
      }),
    )
    .describe('The newest days, at most ten.'),
});

const stationSchema = namedObject('Station', {
  id: stationField,
  city: z.string(),
  name: z.string(),
  latitude: z.number(),
  longitude: z.number(),
  standardOffsetHours: numberField('The offset of local standard time from UTC, all year.'),
  timeZone: textField('IANA name.'),
  series: textField('The ticker of the series of daily maxima that settles here.'),
  minimumSeries: textField('The ticker of the series of daily minima that settles here.'),
  measure: measureField,
  unit: unitField,
  report: textField('The deciding report.'),
  settlesOn: textField('The rule in words.'),
  evidence: z
    .object({
      matched: count('Days on which the report is in the winning bracket.'),
      compared: count('Days that were compared.'),
    })
    .nullable()
    .describe('How well the rule was checked on settled markets; `null`: by the text of the rules only.'),
  crossCheck: z
    .object({
      maximum: z.union([crossCheckSchema, z.null()]),
      minimum: z.union([crossCheckSchema, z.null()]),
    })
    .describe(
      "How often the venue settled by the weather service's first final report, on the days that this service has seen; `null` without such days.",
    ),
});

const calibrationSchema = z
  .object({
    version: z.string(),
    effectiveAt: timeField('When it took effect.'),
    members: z.array(
      z.object({
        station: textField("The venue's own name for it."),
        weight: numberField('Its weight; all weights sum to 1.'),
        offsetC: numberField('How much warmer than its peers it is taken to be, °C.'),
      }),
    ),
  })
  .nullable()
  .describe('How the venue computes the index, as it publishes; `null` if unknown.');

const areaSchema = namedObject('IndexArea', {
  id: z.enum(indexAreas.map(({ id }) => id)),
  indexId: textField("The venue's name for it."),
  city: z.string(),
  name: z.string(),
  latitude: z.number(),
  longitude: z.number(),
  timeZone: textField('IANA name.'),
  standardOffsetHours: numberField('The offset of local standard time from UTC, all year.'),
  measure: z.literal('hourly_temperature'),
  unit: unitField,
  settlesOn: textField('The rule in words.'),
  calibration: calibrationSchema,
  latest: z
    .object({
      at: timeField('The minute.'),
      temperatureF: z.number(),
      status: z
        .enum(['normal', 'degraded'])
        .describe('`degraded`: a station was missing or replaced; the value still counts.'),
    })
    .nullable()
    .describe('The newest value; `null` if none is known.'),
});

export const stationListSchema = namedObject('StationList', {
  stations: z.array(stationSchema),
  areas: z
    .array(areaSchema)
    .describe("The areas of the venue's temperature index, on which hourly markets settle."),
  otherCities: z
    .array(
      z.object({
        indexId: textField("The venue's name for it."),
        calibration: calibrationSchema,
        reason: textField('Why its markets are not traded here.'),
      }),
    )
    .describe('Further cities of the index that the venue names; empty until they have been read.'),
});
