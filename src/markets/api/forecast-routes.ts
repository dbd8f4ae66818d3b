import { z } from 'zod';
import { sendCachedAnswer, type CachedAnswer } from '../../core/http/cached-answer.js';
import { parseInput } from '../../core/http/validate.js';
import { conditional, defineRoute } from '../../core/reference/define-route.js';
import { indexAreas, readStationId, stations } from '../market/stations.js';
import { hasQuery, publicRead } from './public-read.js';
import { forecastSchema, noQuerySchema, stationListSchema } from './forecast-schema.js';
import type { SnapshotReads } from './snapshot-reads.js';

const forecast = defineRoute({
  ...publicRead,
  at: 'GET /forecast/{station}',
  operationId: 'getForecast',
  params: z.object({
    station: z.string().meta({ description: 'The id of the station, in upper or lower case.' }),
  }),
  ...conditional('The forecast.', forecastSchema),
  errors: ['unavailable'],
  handler: (deps: { reads: SnapshotReads }) => (req, res) => {
    if (hasQuery(req)) parseInput(noQuerySchema, req.query);
    return sendCachedAnswer(req, res, deps.reads.forecast(readForecastStation(req.params.station)));
  },
});

const stationList = defineRoute({
  ...publicRead,
  at: 'GET /stations',
  operationId: 'listStations',
  ...conditional('The stations.', stationListSchema),
  errors: ['unavailable'],
  handler:
    ({ readStations }: { readStations: () => CachedAnswer }) =>
    (req, res) => {
      if (hasQuery(req)) parseInput(noQuerySchema, req.query);
      return sendCachedAnswer(req, res, { answer: readStations(), lastFields: {} });
    },
});

export const forecastRoutes = [forecast, stationList];

/** An area stands for its city's station. */
function readForecastStation(given: string): string {
  const area = indexAreas.find(({ id }) => id === given.toUpperCase());
  const ofCity = area && stations.find(({ city }) => city === area.city);
  return ofCity?.id ?? readStationId(given);
}
