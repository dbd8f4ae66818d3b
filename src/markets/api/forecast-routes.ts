import { z } from 'zod';
import { sendCachedAnswer, type CachedAnswer } from '../../core/http/cached-answer.js';
import { parseInput } from '../../core/http/validate.js';
import {
  beginning,
  conditional,
  defineRoute,
  excerpt,
  generated,
} from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { findStation, indexAreas, readStationId, stations } from '../market/stations.js';
import {
  freshness,
  hasQuery,
  notLoadedYet,
  notModified,
  publicRead,
  unknownParameter,
  unknownStation,
} from './public-read.js';
import { forecastSchema, noQuerySchema, stationListSchema } from './forecast-schema.js';
import type { SnapshotReads } from './snapshot-reads.js';
import { toAreaJson, toStationJson } from './station-json.js';

const { yesterday } = exampleWorld.markets;

const forecast = defineRoute({
  ...publicRead,
  path: '/forecast/{station}',
  operationId: 'getForecast',
  summary: 'Read the forecast for a station',
  description: `
For each local climate day with markets: the distribution of the day's maximum temperature, the probability of each bracket, the station's
reports so far, and the sources of the forecast. As on other routes, \`asOf\`, \`ageSeconds\` and \`stale\` refer to the markets. Forecasts are updated less often;
\`forecastAgeSeconds\` is their age.

Forecasts are calibrated against the outcomes of earlier ones: each day names the fit (\`method\`, \`fit\`, \`seasonalFit\`), the uncorrected values of the members (\`rawMeanF\`, \`rawStandardDeviationF\`), and,
if a simpler method was used, the reason (\`fallback\`). A fit uses only data from before it was made (\`knownThrough\`). Quantiles and
probabilities are taken from \`distribution\`. Calibrated forecasts are logistic, with heavier tails than a normal distribution.

During the day, its forecast continues from the observations (\`method\` \`same_day\`): the extreme is the value reached so far, or a later value that exceeds it. \`running\` has the
observations and their time, the probability that the extreme has already been reached, and the fit. Brackets that can no longer win have a probability of 0; none has 1 before the day's own report is published.
`.trim(),
  params: z.object({
    station: z.string().meta({ description: 'The id of the station, in upper or lower case.' }),
  }),
  ...conditional('The forecast.', forecastSchema),
  errors: ['unavailable'],
  examples: [
    {
      name: 'forecast',
      summary: 'New York, in parts',
      request: { params: { station: 'KNYC' } },
      answer: excerpt({
        station: 'KNYC',
        city: 'New York',
        name: 'Central Park',
        unit: 'fahrenheit',
        source: 'simulated',
        days: beginning([
          excerpt({
            date: '2026-01-30',
            eventTicker: yesterday.eventTicker,
            brackets: beginning([excerpt(yesterday.lowest)]),
            method: 'raw_ensemble',
            isCalibrated: false,
            fallback: 'no fit exists yet; not corrected',
            fit: null,
            modelRunAt: generated('2026-01-31T06:00:00.000Z'),
          }),
        ]),
        ...freshness,
        forecastAgeSeconds: 0,
      }),
    },
    notModified({ station: 'KNYC' }),
    unknownParameter('days', { params: { station: 'KNYC' }, query: { days: '2' } }),
    unknownStation({ params: { station: 'KJFK' } }),
    notLoadedYet({ params: { station: 'KNYC' } }),
  ],
  handler: (deps: { reads: SnapshotReads }) => (req, res) => {
    if (hasQuery(req)) parseInput(noQuerySchema, req.query);
    return sendCachedAnswer(req, res, deps.reads.forecast(readForecastStation(req.params.station)));
  },
});

const stationList = defineRoute({
  ...publicRead,
  path: '/stations',
  operationId: 'listStations',
  summary: 'List stations',
  description:
    'Where the markets settle: the station, the deciding report, the day it covers, and how well this was verified on settled markets, before and since another company began to relay the report. A neighbouring airport has a different maximum on half of the days. Hourly markets settle on the areas of the venue’s own index.',
  ...conditional('The stations.', stationListSchema),
  errors: ['unavailable'],
  examples: [
    {
      name: 'stations',
      summary: 'All of them (one is shown)',
      request: {},
      answer: {
        stations: beginning([toStationJson(findStation('KNYC')!)]),
        areas: beginning([toAreaJson(indexAreas[0]!, undefined)]),
      },
    },
    notModified(),
    unknownParameter('city', { query: { city: 'Boston' } }),
  ],
  handler:
    ({ readStations }: { readStations: () => CachedAnswer }) =>
    (req, res) => {
      if (hasQuery(req)) parseInput(noQuerySchema, req.query);
      return sendCachedAnswer(req, res, { answer: readStations(), lastFields: {} });
    },
});

export const forecastRoutes = [forecast, stationList];

/** Resolves an area to its city's station. */
function readForecastStation(given: string): string {
  const area = indexAreas.find(({ id }) => id === given.toUpperCase());
  const ofCity = area && stations.find(({ city }) => city === area.city);
  return ofCity?.id ?? readStationId(given);
}
