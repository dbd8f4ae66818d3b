import { createCachedAnswer, type CachedAnswer } from '../../core/http/cached-answer.js';
import type { CrossCheck } from '../climate/queries.js';
import type { DailyKind } from '../market/market.js';
import type { ClimateWatch, CrossChecks } from '../climate/watch.js';
import type { IndexReader, IndexState } from '../weather/kalshi-index.js';
import type { Place } from '../market/place.js';
import { indexAreas, stations, type IndexArea, type Station } from '../market/stations.js';

/** Undefined in a simulated world. */
export interface PlaceFacts {
  climate: Pick<ClimateWatch, 'crossChecks'> | undefined;
  index: Pick<IndexReader, 'states'> | undefined;
}

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
        otherCities: (states ?? []).filter(({ area }) => area === null).map(toCityJson),
      };
      made = { answer: createCachedAnswer(body), checks, states };
    }
    return made.answer;
  };
}

export const toStationJson = (
  { series, evidence, ...station }: Station,
  checks: Readonly<Partial<Record<DailyKind, CrossCheck>>> = {},
) => ({
  id: station.id,
  ...toPlaceJson(station),
  series: series.maximum,
  minimumSeries: series.minimum,
  measure: 'daily_maximum_temperature' as const,
  unit: 'fahrenheit' as const,
  report: station.report,
  settlesOn: `The day's maximum (${series.maximum}) or minimum (${series.minimum}) in whole °F, midnight to midnight in local standard time, as first published after the preliminary values: by The Weather Company, which relays the NWS Climatological Report (Daily) ${station.report}; until 2026-08-13 by that report itself`,
  evidence: evidence === 'rules text only' ? null : evidence,
  crossCheck: { maximum: checks.daily_maximum ?? null, minimum: checks.daily_minimum ?? null },
});

function toPlaceJson({ city, name, latitude, longitude, timeZone, standardOffsetHours }: Place) {
  return { city, name, latitude, longitude, timeZone, standardOffsetHours };
}

export const toAreaJson = (area: IndexArea, state: IndexState | undefined) => ({
  id: area.id,
  indexId: area.indexId,
  ...toPlaceJson(area),
  measure: 'hourly_temperature' as const,
  unit: 'fahrenheit' as const,
  settlesOn: `The venue's own index of ${area.city} in hundredths of °F at the minute in which the hour strikes: several stations, each with its weight and offset, of which no single one decides`,
  calibration: toCalibrationJson(state?.calibration ?? null),
  latest: state?.latest ? { ...state.latest, at: state.latest.at.toISOString() } : null,
});

const toCalibrationJson = (calibration: IndexState['calibration']) =>
  calibration && {
    version: calibration.version,
    effectiveAt: calibration.effectiveAt.toISOString(),
    members: calibration.members.map(({ stationId: station, ...member }) => ({ station, ...member })),
  };

const toCityJson = ({ cityId, calibration }: IndexState) => ({
  indexId: cityId,
  calibration: toCalibrationJson(calibration),
  reason:
    'Gauge makes no forecasts for this city, so its hourly markets are listed without signals or orders',
});
