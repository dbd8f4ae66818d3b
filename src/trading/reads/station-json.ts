import type { Station } from '../settlement/stations.js';

/** A station as `/stations` shows it. */
export const toStationJson = ({ series, evidence, ...station }: Station) => ({
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
});
