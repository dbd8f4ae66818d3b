import type { Bracket } from '../market/brackets.js';
import { isStation, type Place, type Station } from '../market/stations.js';
import type { Subject } from './simulation/world.js';

/** `Sep 23, 2026`. */
const dayFormat = new Intl.DateTimeFormat('en-US', { timeZone: 'UTC', dateStyle: 'medium' });
const zoneFormats = new Map<string, Intl.DateTimeFormat>();

/** The rules of a market as the venue words them today. */
export function rulesOf(subject: Subject, bracket: Bracket): string {
  const { kind, station, date } = subject;
  const day = dayFormat.format(new Date(date));
  if (!isStation(station))
    return `If the temperature recorded at ${areaName(station)} for ${day} at ${clockOf(subject)} as reported by Synoptic Data, is above ${bracket.floor}°, then the market resolves to Yes.`;
  const measure = kind === 'daily_maximum' ? 'maximum' : 'minimum';
  return `If the ${measure} temperature recorded at ${placeOf(station)} for ${day}, is ${wordsOf(bracket)}° fahrenheit according to The Weather Company, then the market resolves to Yes.`;
}

export const rainRulesOf = ({ rulesCity, report }: Station, date: string): string =>
  `If the total precipitation at ${report} in ${rulesCity} in ${dayFormat.format(new Date(date))} is strictly greater than 0 inches, then the market resolves to Yes.`;

export const rainTitleOf = ({ rulesCity }: Station, date: string): string =>
  `Will it rain in ${rulesCity} on ${dayFormat.format(new Date(date))}?`;

const placeOf = ({ rulesCity, report }: Station): string => `${rulesCity} (${report})`;

const areaNames: Readonly<Record<string, string>> = {
  'INDEX-MIAMI': 'Miami, FL',
  'INDEX-NYC': 'New York City, NY',
  'INDEX-CHICAGO': 'Chicago, IL',
  'INDEX-LA-COASTAL': 'Los Angeles, CA',
};
const areaName = ({ id, city }: Place): string => areaNames[id] ?? city;

/** `12 PM EDT`. */
function clockOf({ station: { timeZone }, hour, span }: Subject): string {
  let format = zoneFormats.get(timeZone);
  if (!format) {
    format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'short' });
    zoneFormats.set(timeZone, format);
  }
  const zone = format.formatToParts(span.end).find(({ type }) => type === 'timeZoneName')!.value;
  return `${hour! % 12 || 12} ${hour! < 12 ? 'AM' : 'PM'} ${zone}`;
}

function wordsOf({ kind, floor, cap }: Bracket): string {
  if (kind === 'between') return `between ${floor}-${cap}`;
  return kind === 'less' ? `less than ${cap}` : `greater than ${floor}`;
}
