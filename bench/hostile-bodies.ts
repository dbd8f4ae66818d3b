/** For the routes that accept large bodies. */
import { gzipSync } from 'node:zlib';
import { MAX_BODY_BYTES } from '../src/metering/ingestion/schema.js';

export interface HostileBody {
  name: string;
  path: string;
  body: Buffer;
  headers?: Record<string, string>;
  /** Decompressed JSON. */
  bytes: number;
}

const CHECK = '/api/entitlements/check';
const EVENTS = '/api/usage/events';
const CHECK_BYTES = 256 * 1024;

const plain = (name: string, text: string, path = EVENTS): HostileBody => {
  const body = Buffer.from(text);
  return { name, path, body, bytes: body.length };
};

const gzipped = (name: string, text: string): HostileBody => ({
  ...plain(name, text),
  body: gzipSync(text, { level: 1 }),
  headers: { 'content-encoding': 'gzip' },
});

/** Repeats `make` as often as fits. */
function fill(before: string, make: (i: number) => string, after: string, maxBytes = MAX_BODY_BYTES): string {
  const parts: string[] = [];
  let left = maxBytes - before.length - after.length;
  for (let i = 0; ; i++) {
    const part = make(i);
    if (part.length + 1 > left) break;
    parts.push(part);
    left -= part.length + 1;
  }
  return `${before}${parts.join(',')}${after}`;
}

const batch = (event: object, count = 500): string =>
  JSON.stringify({ events: Array.from({ length: count }, () => event) });
const escaped = (text: string): string =>
  text.replace(/[\ud800-\udfff]/g, (half) => `\\u${half.charCodeAt(0).toString(16)}`);
const longest = { productSlug: '💥'.repeat(255), metric: '💥'.repeat(255), idempotencyKey: '💥'.repeat(255) };
const fields = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 1]));
const wrong = { productSlug: 1, metric: '', quantity: 'x', occurredAt: 'x', idempotencyKey: null };

export const hostileBodies: HostileBody[] = [
  plain(
    'one event of unknown fields',
    fill('{"events":[{', (i) => `"k${i}":1`, '}]}'),
  ),
  plain('events of 90 unknown fields', batch(fields(90))),
  plain('500 events of which everything is wrong', batch(wrong)),
  plain('500 of the largest events, escaped', escaped(batch(longest))),
  plain('500 of the largest events for unknown products', batch(longest)),
  plain('lists in lists', `{"events":${'['.repeat(MAX_BODY_BYTES / 2 - 10)}`),
  plain(
    'a list of numbers',
    fill('{"events":[', () => '1', ']}'),
  ),
  plain(
    'objects of one field',
    fill('{"events":[', () => '{"a":{}}', ']}'),
  ),
  plain('a number of millions of digits', `{"events":[{"quantity":${'1'.repeat(MAX_BODY_BYTES - 30)}}]}`),
  plain('a text of millions of characters', `{"events":[{"metric":"${'x'.repeat(MAX_BODY_BYTES - 30)}"}]}`),
  plain('a text of escapes', `{"events":[{"metric":"${'\\u00e9'.repeat((MAX_BODY_BYTES - 30) / 6)}"}]}`),
  plain('a field with a long name', `{"events":[{"${'x'.repeat(MAX_BODY_BYTES - 30)}":1}]}`),
  plain('spaces', `{"events":${' '.repeat(MAX_BODY_BYTES - 30)}[]}`),
  plain(
    'words that are like quantities',
    fill('{"events":["', () => '\\"quantity\\":1', '"]}'),
  ),
  plain(
    'quantities of 100 digits',
    batch({ ...longest, quantity: 1 }).replaceAll(':1}', `:0.${'1'.repeat(98)}}`),
  ),
  plain('no UTF-8', `{"events":["${'\u00e9'.repeat(MAX_BODY_BYTES / 2 - 20)}`),
  gzipped(
    'one event of unknown fields, gzip',
    fill('{"events":[{', (i) => `"k${i}":1`, '}]}'),
  ),
  gzipped('a text, gzip', `{"events":[{"metric":"${'x'.repeat(MAX_BODY_BYTES - 30)}"}]}`),
  gzipped('ten times what is accepted, gzip', ' '.repeat(10 * MAX_BODY_BYTES)),
  plain(
    'a check of unknown fields',
    fill('{', (i) => `"k${i}":1`, '}', CHECK_BYTES),
    CHECK,
  ),
  plain(
    'a check of numbers',
    fill('{"productSlugs":[', () => '1', ']}', CHECK_BYTES),
    CHECK,
  ),
];
