import type { CrossChecks } from '../climate/watch.js';
import type { MarketEvent } from '../market/event.js';
import { labelOf } from '../market/market.js';
import type { SettlementSource } from '../market/rules.js';
import { isStation } from '../market/stations.js';
import { kindWords } from './kind-words.js';

/** Who decides, as the rules of the day name them. */
export const sourceNames: Record<SettlementSource, string> = {
  'National Weather Service': 'National Weather Service: the daily climate report of the station',
  'The Weather Company': 'The Weather Company, as the venue reads it',
  'Kalshi Weather Index': 'The venue’s own temperature index, made of several stations',
  AccuWeather: 'AccuWeather',
};

/** When a day or an hour is, and what it settles on. */
export function toSettlementView(
  event: MarketEvent,
  { start, end }: { start: Date; end: Date },
  crossChecks: CrossChecks | undefined,
) {
  const { station, kind, markets } = event;
  const first = markets[0]!;
  const { source, rulesText } = first.settlement;
  const evidence = isStation(station) && station.evidence !== 'rules text only' ? station.evidence : null;
  return {
    isHour: kind === 'hourly',
    start,
    end,
    offset: `UTC−${-station.standardOffsetHours}`,
    clock: station.timeZone,
    place: { id: station.id, name: station.name, city: station.city },
    source: source === null ? 'The rules do not say it in a way that is understood' : sourceNames[source],
    report: isStation(station) && source === 'National Weather Service' ? station.report : null,
    value: kind === 'hourly' ? 'hundredths of °F' : `the ${kindWords[kind].temperature} in whole °F`,
    rules: rulesText === '' ? null : { label: labelOf(first), text: rulesText },
    // What was compared are maxima.
    evidence: kind === 'daily_maximum' ? evidence : null,
    crossCheck: kind === 'hourly' ? null : (crossChecks?.get(station.id)?.[kind] ?? null),
  };
}
