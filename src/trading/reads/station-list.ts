import { createCachedAnswer, type CachedAnswer } from '../../core/http/cached-answer.js';
import type { ClimateWatch, CrossChecks } from '../climate/watch.js';
import type { IndexReader, IndexState } from '../forecast/kalshi-index.js';
import { indexAreas, stations } from '../market/stations.js';
import { toAreaJson, toStationJson } from './station-json.js';

/** What is learned about places while the service runs; undefined for an invented world. */
export interface PlaceFacts {
  climate: Pick<ClimateWatch, 'crossChecks'> | undefined;
  index: Pick<IndexReader, 'states'> | undefined;
}

/** The answer of `GET /stations`, written anew when something has been learned. */
export function createStationList({ climate, index }: PlaceFacts): () => CachedAnswer {
  let made:
    | { answer: CachedAnswer; checks: CrossChecks | undefined; states: readonly IndexState[] | undefined }
    | undefined;
  return () => {
    const [checks, states] = [climate?.crossChecks, index?.states];
    if (!made || made.checks !== checks || made.states !== states) {
      const body = {
        stations: stations.map((station) => toStationJson(station, checks?.get(station.id))),
        areas: indexAreas.map((area) =>
          toAreaJson(
            area,
            states?.find((state) => state.area === area),
          ),
        ),
      };
      made = { answer: createCachedAnswer(JSON.stringify(body).slice(0, -1)), checks, states };
    }
    return made.answer;
  };
}
