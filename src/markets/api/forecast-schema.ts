import { z } from 'zod';
import { modelField } from '../scores/schema.js';
import { timeField } from '../../core/http/fields.js';
import { forecastMethods } from '../learning/forecast.js';
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
  trainingCrps: z.number().describe('Its mean CRPS over them, °F.'),
  rawCrps: z.number().describe(described.rawCrps),
  knownThrough: timeField('When the latest training data became known.'),
  trainedAt: timeField('When it was created.'),
});

const fitSchema = z
  .object({
    id: z.string().describe('A UUIDv7.'),
    station: z
      .string()
      .nullable()
      .describe('The station whose long history it was trained on, with the seasons; `null`: all stations.'),
    leadHours: z.int().describe('The lead that it applies to: up to this many hours, in steps of 12.'),
    coefficients: z
      .object({ a: z.number(), b: z.number(), c: z.number(), d: z.number() })
      .describe(
        'What it comes to at this station and on this day: the temperature is logistic with mean a + b·m, where m is the mean of the members less `stationBiasF`, and standard deviation exp(c + d·ln s), where s is their sample deviation. Beyond what was seen, m is corrected by as much as at the end of that.',
      ),
    stationBiasF: z
      .number()
      .describe(
        "What the station's members, of an hour those of the same hour, are taken to be too warm by beyond what all have in common, °F; 0 for a station's own fit.",
      ),
    ...trainingFields({
      n: 'Days (of hours: hours) that it was learned from, over all its stations',
      rawCrps: "The same of the members' own mean and deviation.",
    }),
  })
  .meta({ id: 'ForecastFit' });

const runningFitSchema = z
  .object({
    id: z.string().describe('A UUIDv7.'),
    hour: z.int().describe('The hour of days that it is for, by local standard time.'),
    coefficients: z
      .record(z.string(), z.number())
      .describe(
        'Of what is still to come: `a` to `below` of its location, `g0` to `g4` of the logarithm of its scale; of a minimum with the sign of every temperature changed.',
      ),
    stationBiasF: z
      .number()
      .describe("What the station's forecast of the hours is taken to be too warm by, °F."),
    ...trainingFields({
      n: 'Days that it was learned from, over all stations',
      rawCrps: 'The same of the forecast of the hours as it is.',
    }),
  })
  .meta({ id: 'RunningDayFit' });

const runningSchema = z
  .object({
    hour: z
      .int()
      .nullable()
      .describe(
        'The latest hour by local standard time whose temperature is known, 0 to 22; `null` where none is.',
      ),
    observedAt: timeField("When the station's latest report was made."),
    reachedF: z
      .int()
      .describe('The whole degree that the report is sure to reach; of a minimum, to be down to.'),
    peakedProbability: probability(
      'That the report says just that: the day has peaked (of a minimum: has been as cold as it gets).',
    ),
    fit: runningFitSchema
      .nullable()
      .describe(
        'What was learned of days at that hour; `null` where the forecast from before the day was gone on from instead, with what would be less than was reached counted as that.',
      ),
    fallback: z.string().nullable().describe('Why there is none, for people; `null` if there is one.'),
  })
  .meta({ id: 'RunningDay' });

const observed = (what: string, at: string) =>
  z
    .object({
      temperatureF: temperature(what),
      observedAt: timeField(at),
      fetchedAt: timeField('When that was fetched.'),
    })
    .nullable();

const modelSchema = z
  .object({
    model: modelField,
    weight: probability('Its share. All shares sum to one.'),
    meanF: temperature('The mean of this model alone, corrected by its own fit'),
    standardDeviationF: temperature('Likewise'),
    rawMeanF: temperature('The mean of its members, before any correction'),
    members: count('Its members; 1 for a single run'),
    modelRunAt: timeField('When it was started.'),
    fetchedAt: timeField('When its run was fetched.'),
    reason: z.string().nullable().describe('Why it has no share, for people; `null` if it has one.'),
  })
  .meta({ id: 'ForecastModelShare' });

const forecastFields = {
  date: dateField,
  eventTicker: z.string().nullable(),
  meanF: temperature('Before what was observed is taken into account'),
  standardDeviationF: temperature('Likewise'),
  distribution: z
    .object({
      family: z
        .enum(['normal', 'logistic', 'known'])
        .describe(
          '`logistic`: every calibrated forecast. `normal`: the uncorrected members. `known`: the value was observed.',
        ),
      meanF: z
        .number()
        .describe(
          'Its mean, °F, before anything is ruled out: of a day that runs, of what is still to come.',
        ),
      standardDeviationF: z.number().describe('Likewise; 0 of what is known.'),
      stays: probability(
        'For a day that is running: the probability that it stays at what was reached. The rest of the distribution lies beyond it.',
      ).nullable(),
    })
    .describe('What `quantiles` and `brackets` are of, before it is rounded.')
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
      "`same_day`: by how days went on that had come as far, see `running`. `emos_pooled`: corrected by a fit of all stations together. `emos`: half by that and half by a fit of the station's own long past, with the seasons. `raw_ensemble`: the members' own mean and spread, corrected by nothing.",
    ),
  isCalibrated: z.boolean().describe('Calibrated against the outcomes of earlier forecasts.'),
  fallback: z
    .string()
    .nullable()
    .describe('Why a simpler method was used, for people; `null` if the best available method was used.'),
  rawMeanF: temperature('The mean of the members, before any correction'),
  rawStandardDeviationF: temperature('Their sample deviation, at least 1'),
  fit: fitSchema.nullable().describe('The correction of the members; `null` without a correction.'),
  seasonalFit: fitSchema
    .nullable()
    .describe(
      "The station's own fit with the seasons, weighted equally with `fit`; `null` if its history is shorter than a year and a half.",
    ),
  leadHours: z
    .number()
    .describe("Hours from the start of the weather model's run to the end of the day, or to the hour."),
  modelRunAt: timeField('When the weather model run started. It contains no later data.'),
  fetchedAt: timeField('When its run was fetched.'),
  membersF: z.array(z.number()).describe('The value of each member, °F.'),
  models: z
    .array(modelSchema)
    .describe(
      'What `meanF` and `standardDeviationF` were made of: each model corrected by its own fit, mixed by recent skill. `method`, `fit`, `rawMeanF`, `modelRunAt` and `membersF` are of the first one (of another where that has no share `method` and `fit`). A day that runs is gone on from by the first one alone.',
    ),
};

const dayFields = {
  ...forecastFields,
  isReported: z
    .boolean()
    .describe("Whether the day's own climate report, the first final one, is what was observed."),
  running: runningSchema
    .nullable()
    .describe(
      'The observations of the running day; `null` before the first observation and after the day is over.',
    ),
  hourlyMeanF: z
    .array(z.number())
    .nullable()
    .describe(
      'The mean of the members at the hours 0 to 23 by local standard time, °F; `null` where it is not known.',
    ),
};

const dayForecastSchema = z
  .object({
    ...dayFields,
    observedMaximum: observed(
      'The highest that the station has reported within the day so far',
      "When the station's latest report was made.",
    ),
  })
  .meta({ id: 'DayForecast' });

const minimumForecastSchema = z
  .object({
    ...dayFields,
    observedMinimum: observed(
      'The lowest that the station has reported within the day so far',
      "When the station's latest report was made.",
    ),
  })
  .meta({ id: 'MinimumForecast' });

const hourForecastSchema = z
  .object({
    area: z.string().describe('The id of the area whose index it is, like `INDEX-NYC`.'),
    hour: z.int().describe('In the local time of the place, 0 to 23.'),
    at: timeField('The moment whose temperature it is.'),
    ...forecastFields,
    observed: observed('What the index says of it', 'When that was published.').describe(
      '`null` until the index has been published.',
    ),
  })
  .meta({ id: 'HourForecast' });

export const forecastSchema = z
  .object({
    station: stationField,
    city: z.string(),
    name: z.string(),
    measure: measureField,
    unit: unitField,
    source: z.string().describe('The sources of ensembles and observations.'),
    days: z.array(dayForecastSchema).describe('Daily maxima, in order of date.'),
    minima: z.array(minimumForecastSchema).describe('Daily minima, in order of date.'),
    hours: z
      .array(hourForecastSchema)
      .describe("Forecasts of the venue's temperature index of the city, if it has one, in order of time."),
    ...freshness,
    forecastAgeSeconds: count('Whole seconds since the oldest `fetchedAt` of these forecasts.'),
  })
  .meta({ id: 'Forecast' });

const crossCheckSchema = z
  .object({
    compared: count('Days of which both are known'),
    agreed: count('Days of these on which both agree'),
    since: dateField,
    disagreements: z
      .array(
        z.object({
          date: dateField,
          venue: z.int().describe('The temperature that the venue settled by, °F.'),
          report: z.int().describe('The temperature in the first final report, °F.'),
        }),
      )
      .describe('The newest days, at most ten.'),
  })
  .meta({ id: 'SettlementCrossCheck' });

const stationSchema = z
  .object({
    id: stationField,
    city: z.string(),
    name: z.string(),
    latitude: z.number(),
    longitude: z.number(),
    standardOffsetHours: z.number().describe('The offset of local standard time from UTC, all year.'),
    timeZone: z.string().describe('IANA name.'),
    series: z.string().describe('The ticker of the series of daily maxima that settles here.'),
    minimumSeries: z.string().describe('The ticker of the series of daily minima that settles here.'),
    measure: measureField,
    unit: unitField,
    report: z.string().describe('The deciding report.'),
    settlesOn: z.string().describe('The rule in words.'),
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
  })
  .meta({ id: 'Station' });

const areaSchema = z
  .object({
    id: z.enum(indexAreas.map(({ id }) => id)),
    indexId: z.string().describe("The venue's name for it."),
    city: z.string(),
    name: z.string(),
    latitude: z.number(),
    longitude: z.number(),
    timeZone: z.string().describe('IANA name.'),
    standardOffsetHours: z.number().describe('The offset of local standard time from UTC, all year.'),
    measure: z.literal('hourly_temperature'),
    unit: unitField,
    settlesOn: z.string().describe('The rule in words.'),
    calibration: z
      .object({
        version: z.string(),
        effectiveAt: timeField('When it took effect.'),
        members: z.array(
          z.object({
            station: z.string().describe("The venue's own name for it."),
            weight: z.number().describe('Its weight; all weights sum to 1.'),
            offsetC: z.number().describe('How much warmer than its peers it is taken to be, °C.'),
          }),
        ),
      })
      .nullable()
      .describe('How the venue computes the index, as it publishes; `null` if unknown.'),
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
  })
  .meta({ id: 'IndexArea' });

export const stationListSchema = z
  .object({
    stations: z.array(stationSchema),
    areas: z
      .array(areaSchema)
      .describe("The areas of the venue's temperature index, on which hourly markets settle."),
  })
  .meta({ id: 'StationList' });
