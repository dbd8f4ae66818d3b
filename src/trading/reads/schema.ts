import { z } from 'zod';
import { timeField } from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { marketKinds, marketStatuses, temperatureKinds } from '../market/market.js';
import { indexAreas, stations } from '../market/stations.js';
import { contractsField } from '../market/contracts.js';
import { sourceSchema } from '../snapshot/schema.js';
import { bookStates } from './market-json.js';

const stationParameter = text(64)
  .optional()
  .describe('Only this station: its id, like `KNYC`, in upper or lower case.');

export const marketsQuerySchema = z.strictObject({
  station: stationParameter,
  status: z
    .enum(marketStatuses, `must be one of ${marketStatuses.join(', ')}`)
    .optional()
    .describe('Only markets of this status. If left out: all but `finalized`.'),
  kind: z
    .enum(marketKinds, `must be one of ${marketKinds.join(', ')}`)
    .optional()
    .describe('Only markets about this.'),
  city: text(64).optional().describe('Only markets of this city, like `New York`, in upper or lower case.'),
  limit: z
    .string()
    .regex(/^([1-9]\d{0,2}|1000)$/, 'must be a whole number from 1 to 1000')
    .transform(Number)
    .optional()
    .describe('A page of so many markets, 1 to 1000. If left out: all of them.'),
  cursor: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/, 'must be the nextCursor of an earlier answer')
    .optional()
    .describe('The `nextCursor` of the page before; only with `limit`.'),
});

export const signalsQuerySchema = z.strictObject({
  bankroll: z
    .string()
    .regex(/^(?=.*[1-9])\d{1,9}(\.\d{1,2})?$/, 'must be an amount in dollars above 0, like 2500.00')
    .optional()
    .describe(
      'Dollars that the sizes are reckoned from, above 0 and below 1,000,000,000. If left out: what a paper account begins with.',
    ),
});

export const noQuerySchema = z.strictObject({});

export const streamQuerySchema = z.strictObject({ station: stationParameter });

const dollars = (meaning: string) =>
  z
    .string()
    .regex(/^-?\d+\.\d{4,6}$/)
    .describe(meaning);
const price = (meaning: string) =>
  dollars(`${meaning}, in dollars; \`null\` where there is none.`).nullable();
const count = (meaning: string) => z.int().min(0).describe(meaning);
const probability = (meaning: string) => z.number().min(0).max(1).describe(meaning);
const temperature = (meaning: string) => z.number().describe(`${meaning}, °F.`);

const dateField = z
  .string()
  .regex(/^\d{4}-\d{2}-\d{2}$/)
  .describe('The climate day: midnight to midnight in local standard time.');
const stationField = z.enum(stations.map(({ id }) => id)).describe('The id of the station.');
const measureField = z.literal('daily_maximum_temperature');
const settlementSources = [
  'National Weather Service',
  'The Weather Company',
  'Kalshi Weather Index',
  'AccuWeather',
] as const;
const unitField = z.literal('fahrenheit');

const freshness = {
  asOf: timeField('When the markets were fetched.'),
  sources: z.array(sourceSchema).describe('How things stood with each source at the last refresh.'),
  ageSeconds: count('Whole seconds since `asOf`.'),
  stale: z.boolean().describe('True if the markets are older than 30 seconds.'),
};

export const marketSchema = z
  .object({
    ticker: z.string(),
    eventTicker: z
      .string()
      .describe(
        'The day at the station, of whose markets exactly one pays, or the hour, of whose markets all that it is above pay.',
      ),
    seriesTicker: z.string(),
    kind: z
      .enum(marketKinds)
      .describe('What it is about, by its rules. `other`: something else, or a wording that is not known.'),
    station: stationField
      .nullable()
      .describe(
        'The id of the station whose report decides; `null` where none does, or it is not certain which.',
      ),
    city: z
      .string()
      .nullable()
      .describe('`null` where the rules do not name it in a way that is understood.'),
    measure: z
      .enum(['daily_maximum_temperature', 'daily_minimum_temperature', 'hourly_temperature', 'precipitation'])
      .nullable(),
    date: dateField.nullable(),
    hour: z.int().min(0).max(23).nullable().describe('By the clock of the city; `null` for a whole day.'),
    bracket: z
      .object({
        kind: z
          .enum(['less', 'between', 'greater'])
          .describe('`between` includes both ends; `less` is below `cap`, `greater` above `floor`.'),
        floor: z.number().nullable(),
        cap: z.number().nullable(),
        unit: unitField,
        label: z.string(),
      })
      .nullable()
      .describe(
        'What YES pays for: whole degrees of a day, hundredths of an hour; `null` where it is no temperature for certain.',
      ),
    label: z.string().describe('What YES pays for, in words.'),
    problem: z
      .string()
      .nullable()
      .describe(
        'Why there is neither forecast nor signal: it settles by the venue’s word alone. `null` for all others.',
      ),
    settlement: z
      .object({
        source: z
          .enum(settlementSources)
          .nullable()
          .describe('Who decides, by the rules; `null` where they name nobody that is known.'),
        station: stationField.nullable(),
        rulesText: z.string().describe('The venue’s rules, word for word.'),
      })
      .describe('What it settles on, and where.'),
    status: z.enum(marketStatuses).describe('As the venue has it. It pays once it is `finalized`.'),
    yesBid: price('The best bid for YES'),
    yesAsk: price('What YES can be bought for'),
    noBid: price('The best bid for NO'),
    noAsk: price('What NO can be bought for'),
    yesBidSize: contractsField('Contracts at `yesBid`, and so at `noAsk`; 0 where nobody bids.'),
    yesAskSize: contractsField('Contracts at `yesAsk`, and so at `noBid`; 0 where nobody asks.'),
    lastPrice: price('Of YES in the last trade'),
    volume: contractsField('Contracts traded so far.'),
    volume24h: contractsField('Contracts traded in 24 hours.'),
    openInterest: contractsField('Contracts that are held.'),
    openTime: timeField('When it opens.'),
    closeTime: timeField('When it closes.'),
    tickSize: dollars('The step of prices where it stands now.'),
    url: z.string().describe('Where a person can look at it; a path is one of this service.'),
    bookState: z
      .enum(bookStates)
      .describe(
        '`whole`: every level is known. `best_prices`: only the best level of each side, as the venue lists it. `in_doubt`: it is the last book that was certain, and orders are refused with `market_data_stale` until it has been read anew.',
      ),
    bookAsOf: timeField(
      'When the book was read, where that was before the markets were; `null` for all others. No order is filled from a book that is older than 60 seconds.',
    ).nullable(),
  })
  .meta({ id: 'Market' });

export const marketListSchema = z
  .object({
    markets: z.array(marketSchema).describe('Ordered by station, kind, day and bracket.'),
    nextCursor: z
      .string()
      .nullable()
      .optional()
      .describe('With `limit` only: send it as `cursor` for the next page; `null` on the last one.'),
    ...freshness,
  })
  .meta({ id: 'MarketList' });

const signalSchema = z
  .object({
    market: marketSchema,
    side: z.enum(['yes', 'no']),
    price: dollars('The best ask of the side.'),
    depth: contractsField('Contracts that stand at `price`.'),
    probability: probability('That the side pays, by the forecast.'),
    breakEven: z.number().describe('From which probability on the purchase is worth its price and fee.'),
    edge: z.number().describe('`probability` less `breakEven`.'),
    fullKelly: z.number().describe('The Kelly share of the bankroll, fee included.'),
    fractionalKelly: z.number().describe('What is used of it.'),
    contracts: count('What to buy: always whole contracts, which stand in the book.'),
    limitPrice: dollars('The dearest level that is needed.'),
    averagePrice: dollars('Over all contracts, without the fee.'),
    fee: dollars("The venue's fee for all contracts."),
    stake: dollars('Prices and fee of all contracts. It is also the most that can be lost.'),
    expectedValue: dollars('What the purchase is worth by the forecast, less `stake`. Negative for a hedge.'),
    worstCase: dollars(
      'The most that it can lose by itself: its stake. What the purchases of an event lose together is with the event.',
    ),
    isHedge: z
      .boolean()
      .describe(
        'True for a purchase that costs more than it is worth by itself: it pays where the others of its event lose.',
      ),
    limitedBy: z
      .enum(['market', 'event', 'day', 'cash', 'depth'])
      .nullable()
      .describe(
        'What kept it smaller than Kelly would have it: one of the caps, the money, or what stands in the book; `null` for nothing.',
      ),
    reasons: z
      .array(z.string())
      .describe('In words: the forecast, the price, the size, and how such forecasts have done.'),
    expiresAt: timeField('When it should no longer be acted on.'),
  })
  .meta({ id: 'Signal' });

const gateSchema = z
  .object({
    state: z.enum(['open', 'shut']).describe('Signals come through while it is `open`.'),
    leadHours: count(
      'The hours before the end of the day at which the forecasts were recorded that it is judged by; 0 where none are.',
    ),
    n: count('Settled days that it is judged by.'),
    difference: z
      .number()
      .nullable()
      .describe(
        'Mean log score of the forecasts less that of the market: below zero the forecasts were better. `null` for too few days.',
      ),
    interval: z
      .object({ low: z.number(), high: z.number() })
      .nullable()
      .describe('Where `difference` may lie by chance.'),
    reason: z.string().describe('Why it is open or shut.'),
  })
  .meta({ id: 'SignalGate' });

const eventSignalsSchema = z
  .object({
    eventTicker: z.string(),
    kind: z.enum(temperatureKinds),
    station: z.string().describe('The id of a station; of hours that of an area.'),
    city: z.string().nullable(),
    date: dateField,
    hour: z.int().nullable().describe('By the clock of the place; `null` but for hours.'),
    method: z
      .string()
      .nullable()
      .describe('How the probabilities were made, see the forecasts; `null` without a forecast.'),
    isCalibrated: z
      .boolean()
      .describe(
        'Whether the probabilities are corrected by how earlier ones came out. Without it nothing is a signal.',
      ),
    gate: gateSchema.describe(
      'Whether such forecasts have been ahead of the market at this station and this long before the end of the day.',
    ),
    signals: count('How many of the signals are of this event.'),
    stake: dollars('Of its signals together.'),
    worstCase: dollars('The most that they lose together, whichever bracket wins.'),
    growth: z
      .number()
      .describe(
        'Expected growth by its signals of the logarithm of the part of the bankroll that `kellyShare` puts at stake, exact costs included.',
      ),
    gap: z
      .number()
      .describe(
        'How far from the best possible growth the full sizes may be, by the conditions that an optimum must meet.',
      ),
    suppressed: z
      .array(
        z.object({
          ticker: z.string(),
          side: z.enum(['yes', 'no']),
          reason: z.string(),
          isWithheld: z
            .boolean()
            .describe('True for what would be a signal of this event if its forecasts had earned it.'),
        }),
      )
      .describe('The sides that have no signal, and why.'),
  })
  .meta({ id: 'EventSignals' });

export const signalListSchema = z
  .object({
    bankroll: dollars('What the sizes are reckoned from.'),
    kellyShare: z.number().describe('The share of the Kelly fraction that is used.'),
    marketCap: z.number().describe('The most that is staked on a market, as a share of the bankroll.'),
    eventCap: z.number().describe('The most that is staked on an event, as a share of the bankroll.'),
    dayCap: z
      .number()
      .describe(
        'The most that is staked on all events of a climate date, as a share of the bankroll: of maxima, minima and hours together, since the weather of cities goes together. Events with more growth come first.',
      ),
    sizing: z
      .string()
      .describe(
        'How sizes are found: `joint_event` maximises the growth over the outcomes that the markets of an event tell apart.',
      ),
    signals: z.array(signalSchema),
    events: z.array(eventSignalsSchema),
    ...freshness,
  })
  .meta({ id: 'SignalList' });

const fitSchema = z
  .object({
    id: z.string().describe('A UUIDv7.'),
    station: z.string().nullable().describe('Whose past it was learned from; `null`: that of all stations.'),
    leadHours: z.int().describe('The leads that it is for: up to this many hours, in steps of 12.'),
    coefficients: z
      .object({ a: z.number(), b: z.number(), c: z.number(), d: z.number() })
      .describe(
        'The temperature is normal with mean a + b·m and variance c + d·s², where m is the mean of the members less `stationBiasF` and s² their sample variance. Beyond what was seen, m is corrected by as much as at the end of that.',
      ),
    stationBiasF: z
      .number()
      .describe(
        "What the station's members are taken to be too warm by, of an hour those of the same hour, °F; 0 for a station's fit of its own.",
      ),
    n: count('Days (of hours: hours) that it was learned from, over all its stations'),
    firstDate: z.iso.date().describe('The first day of them.'),
    lastDate: z.iso.date().describe('The last day of them.'),
    trainingCrps: z.number().describe('Its mean CRPS over them, °F.'),
    rawCrps: z.number().describe("The same of the members' own mean and deviation."),
    knownThrough: timeField('When the latest that it was learned from became known.'),
    trainedAt: timeField('When it was made.'),
  })
  .meta({ id: 'ForecastFit' });

const observed = (what: string, at: string) =>
  z
    .object({
      temperatureF: temperature(what),
      observedAt: timeField(at),
      fetchedAt: timeField('When that was fetched.'),
    })
    .nullable();

const forecastFields = {
  date: dateField,
  eventTicker: z.string().nullable(),
  meanF: temperature('Before what was observed is taken into account'),
  standardDeviationF: temperature('Likewise'),
  quantiles: z
    .array(z.object({ probability: probability('Of a temperature at or below.'), temperatureF: z.number() }))
    .describe('Given what was observed, °F.'),
  brackets: z
    .array(
      z.object({
        ticker: z.string(),
        label: z.string().nullable(),
        probability: probability('That YES pays.'),
      }),
    )
    .describe(
      'From cold to warm. The probabilities of a day sum to one; those of an hour are of thresholds, each within the one before.',
    ),
  source: z.string(),
  method: z
    .enum(['emos', 'emos_pooled', 'raw_ensemble'])
    .describe(
      "`emos`: corrected by a fit of the station's own past. `emos_pooled`: by one of all stations together. `raw_ensemble`: the members' own mean and spread, corrected by nothing.",
    ),
  isCalibrated: z.boolean().describe('Corrected by how earlier forecasts came out.'),
  fallback: z
    .string()
    .nullable()
    .describe('Why it was not made in a better way, in words; `null` for `emos`.'),
  rawMeanF: temperature('The mean of the members, before any correction'),
  rawStandardDeviationF: temperature('Their sample deviation, at least 1'),
  fit: fitSchema.nullable().describe('What it was corrected by; `null` for `raw_ensemble`.'),
  leadHours: z
    .number()
    .describe("Hours from the start of the weather model's run to the end of the day, or to the hour."),
  modelRunAt: timeField('When the weather model was started: nothing later is in it.'),
  fetchedAt: timeField('When its run was fetched.'),
  membersF: z.array(z.number()).describe('What each member says, °F.'),
};

const dayForecastSchema = z
  .object({
    ...forecastFields,
    observedMaximum: observed(
      'The highest that the station has reported within the day so far',
      "Of the station's latest report.",
    ),
  })
  .meta({ id: 'DayForecast' });

const minimumForecastSchema = z
  .object({
    ...forecastFields,
    observedMinimum: observed(
      'The lowest that the station has reported within the day so far',
      "Of the station's latest report.",
    ),
  })
  .meta({ id: 'MinimumForecast' });

const hourForecastSchema = z
  .object({
    area: z.string().describe('The id of the area whose index it is, like `INDEX-NYC`.'),
    hour: z.int().describe('By the clock of the place, 0 to 23.'),
    at: timeField('The moment whose temperature it is.'),
    ...forecastFields,
    observed: observed('What the index says of it', 'Of the value.').describe(
      '`null` until the index has said it.',
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
    source: z.string().describe('Where ensembles and observations come from.'),
    days: z.array(dayForecastSchema).describe('Daily maxima, in the order of days.'),
    minima: z.array(minimumForecastSchema).describe('Daily minima, in the order of days.'),
    hours: z
      .array(hourForecastSchema)
      .describe("Of the venue's temperature index of the city, where it has one; in the order of time."),
    ...freshness,
    forecastAgeSeconds: count('Whole seconds since the oldest `fetchedAt` of what is forecast.'),
  })
  .meta({ id: 'Forecast' });

const crossCheckSchema = z
  .object({
    compared: count('Days of which both are known'),
    agreed: count('Of these'),
    since: dateField,
    disagreements: z
      .array(
        z.object({
          date: dateField,
          venue: z.int().describe('What the venue settled by, °F.'),
          report: z.int().describe('What the first final report says, °F.'),
        }),
      )
      .describe('The newest, at most ten.'),
  })
  .meta({ id: 'SettlementCrossCheck' });

const stationSchema = z
  .object({
    id: stationField,
    city: z.string(),
    name: z.string(),
    latitude: z.number(),
    longitude: z.number(),
    standardOffsetHours: z.number().describe('Of local standard time from UTC, all year.'),
    timeZone: z.string().describe('IANA name.'),
    series: z.string().describe('The ticker of the series of daily maxima that settles here.'),
    minimumSeries: z.string().describe('The ticker of the series of daily minima that settles here.'),
    measure: measureField,
    unit: unitField,
    report: z.string().describe('The report that decides.'),
    settlesOn: z.string().describe('The rule in words.'),
    evidence: z
      .object({
        matched: count('Days on which the report is in the winning bracket.'),
        compared: count('Of these.'),
      })
      .nullable()
      .describe('How well the rule was checked on settled markets; `null`: by the text of the rules only.'),
    crossCheck: z
      .object({
        maximum: z.union([crossCheckSchema, z.null()]),
        minimum: z.union([crossCheckSchema, z.null()]),
      })
      .describe(
        "How often the venue settled by the weather service's first final report, of the days that this service has seen; `null` while there is none.",
      ),
  })
  .meta({ id: 'Station' });

const areaSchema = z
  .object({
    id: z.enum(indexAreas.map(({ id }) => id)),
    indexId: z.string().describe('What the venue calls it.'),
    city: z.string(),
    name: z.string(),
    latitude: z.number(),
    longitude: z.number(),
    timeZone: z.string().describe('IANA name.'),
    standardOffsetHours: z.number().describe('Of local standard time from UTC, all year.'),
    measure: z.literal('hourly_temperature'),
    unit: unitField,
    settlesOn: z.string().describe('The rule in words.'),
    calibration: z
      .object({
        version: z.string(),
        effectiveAt: timeField('Since when it is in force.'),
        members: z.array(
          z.object({
            station: z.string().describe("The venue's own name of it."),
            weight: z.number().describe('Of all together: 1.'),
            offsetC: z.number().describe('How much warmer than its peers it is taken to be, °C.'),
          }),
        ),
      })
      .nullable()
      .describe('How the index is made, as the venue publishes it; `null` while it is not known.'),
    latest: z
      .object({
        at: timeField('The minute.'),
        temperatureF: z.number(),
        status: z
          .enum(['normal', 'degraded'])
          .describe('`degraded`: a station was absent or stood in for; it counts all the same.'),
      })
      .nullable()
      .describe('The newest value; `null` while none is known.'),
  })
  .meta({ id: 'IndexArea' });

export const stationListSchema = z
  .object({
    stations: z.array(stationSchema),
    areas: z.array(areaSchema).describe("The areas of the venue's temperature index, which hours settle on."),
  })
  .meta({ id: 'StationList' });
