import { findPlace, type Place } from '../market/stations.js';

/**
 * JSON with what JSON does not have: `{"$n":"12"}` is a bigint, `{"$t":0}` a time in milliseconds, `{"$m":[[k,v]]}` a map and
 * `{"$s":"KNYC"}` a station or an area, of which there is only one object. Nothing that is written has such keys of its own.
 */
export const writeValue = (value: unknown): string => JSON.stringify(encode(value));

/** @throws SyntaxError or RangeError for what `writeValue` has not written */
export const readValue = (text: string): unknown => decode(JSON.parse(text));

function encode(value: unknown): unknown {
  if (typeof value === 'bigint') return { $n: value.toString() };
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date) return { $t: value.getTime() };
  if (value instanceof Map) return { $m: [...value].map(([key, item]) => [encode(key), encode(item)]) };
  if (Array.isArray(value)) return value.map(encode);
  if (isStation(value)) return { $s: value.id };
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, encode(item)]));
}

const isStation = (value: object): value is Place =>
  'id' in value && typeof value.id === 'string' && findPlace(value.id) === value;

function decode(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(decode);
  const entries = Object.entries(value);
  const [first] = entries;
  const read = entries.length === 1 && first ? special[first[0]] : undefined;
  if (read) return read(first![1]);
  return Object.fromEntries(entries.map(([key, item]) => [key, decode(item)]));
}

const special: Partial<Record<string, (value: unknown) => unknown>> = {
  $n(value) {
    // Nobody has more money, and a number without end would take as long to read.
    if (typeof value !== 'string' || !/^-?\d{1,100}$/.test(value))
      throw new RangeError('$n is no whole number');
    return BigInt(value);
  },
  $t(value) {
    const time = new Date(typeof value === 'number' ? value : NaN);
    if (Number.isNaN(time.getTime())) throw new RangeError('$t is no time');
    return time;
  },
  $m(value) {
    if (!Array.isArray(value) || !value.every((entry) => Array.isArray(entry) && entry.length === 2))
      throw new RangeError('$m is no map');
    return new Map((value as [unknown, unknown][]).map(([key, item]) => [decode(key), decode(item)]));
  },
  $s: (value) => {
    const station = findPlace(String(value));
    if (!station) throw new RangeError(`the station ${String(value)} is not known`);
    return station;
  },
};
