import type { CrossCheck, DailyKind } from '../climate/queries.js';
import type { IndexState } from '../forecast/kalshi-index.js';
import type { IndexArea, Station } from '../market/stations.js';

/** A station as `/stations` shows it. */
export const toStationJson = (
  { series, evidence, ...station }: Station,
  checks: Readonly<Partial<Record<DailyKind, CrossCheck>>> = {},
) => ({
  id: station.id,
  city: station.city,
  name: station.name,
  latitude: station.latitude,
  longitude: station.longitude,
  timeZone: station.timeZone,
  standardOffsetHours: station.standardOffsetHours,
  series: series.maximum,
  minimumSeries: series.minimum,
  measure: 'daily_maximum_temperature' as const,
  unit: 'fahrenheit' as const,
  report: station.report,
  settlesOn: `The day's maximum (${series.maximum}) or minimum (${series.minimum}) in whole °F, midnight to midnight in local standard time, as first published after the preliminary values: by The Weather Company, which relays the NWS Climatological Report (Daily) ${station.report}; until 2026-08-13 by that report itself`,
  evidence: evidence === 'rules text only' ? null : evidence,
  crossCheck: { maximum: checks.daily_maximum ?? null, minimum: checks.daily_minimum ?? null },
});

/** An area of the venue's index as `/stations` shows it; what the venue says of it where it is asked. */
export const toAreaJson = (area: IndexArea, state: IndexState | undefined) => ({
  id: area.id,
  indexId: area.indexId,
  city: area.city,
  name: area.name,
  latitude: area.latitude,
  longitude: area.longitude,
  timeZone: area.timeZone,
  standardOffsetHours: area.standardOffsetHours,
  measure: 'hourly_temperature' as const,
  unit: 'fahrenheit' as const,
  settlesOn: `The venue's own index of ${area.city} in hundredths of °F at the minute in which the hour strikes: several stations, each with its weight and offset, of which no single one decides`,
  calibration: state?.calibration
    ? {
        version: state.calibration.version,
        effectiveAt: state.calibration.effectiveAt.toISOString(),
        members: state.calibration.members.map(({ stationId, weight, offsetC }) => ({
          station: stationId,
          weight,
          offsetC,
        })),
      }
    : null,
  latest: state?.latest
    ? {
        at: state.latest.at.toISOString(),
        temperatureF: state.latest.temperatureF,
        status: state.latest.status,
      }
    : null,
});
