import fc from 'fast-check';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** One change of a body: at one of its values, counted in the order of the text. */
interface Change {
  at: number;
  kind: 'remove' | 'replace' | 'repeat' | 'reverse' | 'wrap' | 'rename' | 'extend';
  value: Json;
}

const oddValues: Json[] = [
  null,
  true,
  0,
  -1,
  0.1 + 0.2,
  2 ** 53,
  1e300,
  -1e300,
  '',
  ' ',
  'wibble',
  '0.0000',
  '1.0000',
  '1.0001',
  '-0.4200',
  '0.42',
  '0.4200001',
  '4.2e-1',
  '420000000000.0000',
  '99999999999999999999',
  '٠.٤٢',
  'NaN',
  'Infinity',
  '2026-13-45T99:00:00Z',
  '9999-12-31T23:59:59Z',
  '0001-01-01T00:00:00Z',
  'x'.repeat(300),
  'line\nbreak\u0000\ud800',
  [],
  {},
  [null],
  [['0.4200', '10.00']],
  { __typename: 'Market' },
];

const change: fc.Arbitrary<Change> = fc.record({
  at: fc.nat(100_000),
  kind: fc.constantFrom(
    'remove',
    'replace',
    'replace',
    'replace',
    'repeat',
    'reverse',
    'wrap',
    'rename',
    'extend',
  ),
  value: fc.oneof(fc.constantFrom(...oddValues), fc.jsonValue({ maxDepth: 1 }) as fc.Arbitrary<Json>),
});

/** Bodies that are no JSON, or not the body that was asked for. */
const others = [
  '',
  'null',
  '[]',
  '{}',
  '"gone"',
  '<html>busy</html>',
  '{"error":{"code":"not_found"}}',
  '{"a":',
];

/** How a body is spoiled: by a few changes, or completely. */
export type Spoiling = { changes: Change[] } | { text: string };

export const spoiling: fc.Arbitrary<Spoiling> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ changes: fc.array(change, { minLength: 1, maxLength: 4 }) }) },
  { weight: 1, arbitrary: fc.record({ text: fc.constantFrom(...others) }) },
);

export function spoil(body: Json, spoiled: Spoiling): string {
  if ('text' in spoiled) return spoiled.text;
  const root = { body: structuredClone(body) };
  for (const one of spoiled.changes) apply(root, one);
  return JSON.stringify(root.body ?? null);
}

type Place = { of: Json[]; key: number } | { of: Record<string, Json>; key: string };

function placesIn(value: Json, places: Place[] = []): Place[] {
  if (Array.isArray(value))
    for (const [key, one] of value.entries()) placesIn(one, (places.push({ of: value, key }), places));
  else if (value !== null && typeof value === 'object')
    for (const [key, one] of Object.entries(value)) placesIn(one, (places.push({ of: value, key }), places));
  return places;
}

function apply(root: { body: Json }, { at, kind, value }: Change): void {
  const places = placesIn(root.body);
  const place = places[at % Math.max(1, places.length)];
  if (!place) return;
  const { of, key } = place as { of: Record<string | number, Json>; key: string | number };
  const now = of[key]!;
  if (kind === 'replace') of[key] = structuredClone(value);
  else if (kind === 'wrap') of[key] = [now];
  else if (kind === 'extend' && typeof now === 'string') of[key] = `${now}0`;
  else if (kind === 'reverse') reverse(place, now);
  else if (Array.isArray(of))
    of.splice(Number(key), 1, ...(kind === 'repeat' ? [now, structuredClone(now)] : []));
  else {
    delete of[key];
    if (kind !== 'remove') of[`${key}_2`] = now;
  }
}

/** Puts a list or the fields of an object in the other order. */
function reverse({ of, key }: Place, now: Json): void {
  if (Array.isArray(now)) now.reverse();
  else if (now !== null && typeof now === 'object')
    (of as Record<string, Json>)[key] = Object.fromEntries(Object.entries(now).toReversed());
}
