import type { Station } from '../settlement/stations.js';

/** A station as `/stations` shows it. */
export const toStationJson = ({ series, ...station }: Station) => ({
  id: station.id,
  city: station.city,
  name: station.name,
  latitude: station.latitude,
  longitude: station.longitude,
  standardOffsetHours: station.standardOffsetHours,
  series: series.ticker,
  measure: series.measure,
  unit: series.unit,
  report: series.report,
  settlesOn: `The day's maximum in whole °F in the NWS Climatological Report (Daily) ${series.report}, midnight to midnight in local standard time`,
  evidence: series.evidence === 'rules text only' ? null : series.evidence,
});
