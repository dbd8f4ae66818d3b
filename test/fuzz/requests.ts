import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { fitting, hostileTexts, hostileValues, type Pools, type Schema } from './values.js';
import type { Actor, World } from './world.js';

export interface Parameter {
  in: 'path' | 'query' | 'header';
  name: string;
  required?: boolean;
  schema: Schema;
}

export interface Operation {
  method: string;
  path: string;
  security: string | undefined;
  parameters: Parameter[];
  mediaType: string | undefined;
  bodySchema: Schema | undefined;
}

export interface FuzzRequest {
  operation: Operation;
  actor: Actor;
  /** The percent-encoded path, including the query string. */
  path: string;
  headers: Record<string, string>;
  body: Buffer | undefined;
}

type Mood = 'fitting' | 'mutated' | 'hostile';

/** Generates requests to any documented operation: valid, nearly valid or malicious. */
export function anyRequest(
  operations: Operation[],
  world: World,
  components: Record<string, Schema>,
): fc.Arbitrary<FuzzRequest> {
  const usage = operations.find(({ path }) => path === '/api/usage/events')!;
  return fc.oneof(
    ...operations.flatMap((operation) =>
      Object.entries(moods).map(([mood, weight]) => ({
        weight,
        arbitrary: requestTo(operation, world, components, mood as Mood),
      })),
    ),
    { weight: RECORDABLE_WEIGHT, arbitrary: recordable(usage, world) },
  );
}

const moods: Record<Mood, number> = { fitting: 4, mutated: 4, hostile: 3 };
/**
 * The weight of batches that follow the product's rules. A batch generated from the schema alone nearly always violates
 * at least one of those rules.
 */
const RECORDABLE_WEIGHT = 40;

/**
 * Generates batches of recordable events, including repeats and usage above caps. They are refused only if another
 * request has changed the product.
 */
function recordable(operation: Operation, { actors }: World): fc.Arbitrary<FuzzRequest> {
  const event = fc.record(
    {
      productSlug: fc.constantFrom('fuzz-calls', 'fuzz-bytes'),
      metric: fc.constant('calls'),
      idempotencyKey: fc.oneof(
        fc.nat(200).map((n) => `again-${n}`),
        fc.uuid(),
        fc.constantFrom('💥', '__proto__', "'; --"),
      ),
      quantity: fc.oneof(
        fc.nat(1_000),
        fc.double({ min: 0, max: 1e15, noNaN: true }),
        fc.constantFrom(0, 1e-20, 1e15),
      ),
      occurredAt: fc
        .integer({ min: -6 * 86_400_000, max: 60_000 })
        .map((ms) => new Date(Date.now() + ms).toISOString()),
    },
    { requiredKeys: ['productSlug', 'metric', 'idempotencyKey'] },
  );
  const batch = fc.oneof(
    { weight: 9, arbitrary: fc.array(event, { minLength: 1, maxLength: 8 }) },
    { weight: 1, arbitrary: fc.array(event, { minLength: 100, maxLength: 500, size: 'max' }) },
  );
  const keys = actors.filter(({ kind }) => kind === 'apiKey');
  return fc
    .tuple(fc.constantFrom(...keys), batch, fc.boolean(), fc.boolean(), fc.integer({ min: 0, max: 9 }))
    .map(([actor, events, isLenient, isZipped, dry]) => {
      const body = Buffer.from(JSON.stringify({ events }));
      return {
        operation,
        actor,
        path: dry === 0 ? `${operation.path}?dryRun=true` : operation.path,
        headers: {
          accept: 'application/json',
          'content-type': 'application/json',
          ...(isLenient ? { prefer: 'handling=lenient' } : {}),
          ...(isZipped ? { 'content-encoding': 'gzip' } : {}),
          ...actor.headers,
        },
        body: isZipped ? gzipSync(body) : body,
      };
    });
}

function requestTo(
  operation: Operation,
  { actors, pools }: World,
  components: Record<string, Schema>,
  mood: Mood,
): fc.Arbitrary<FuzzRequest> {
  const kind = operation.path === '/logout' ? 'leaver' : (operation.security ?? 'nobody');
  const permitted = actors.filter((actor) => actor.kind === kind);
  const actor = fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...permitted) },
    { weight: kind === 'leaver' ? 0 : 1, arbitrary: fc.constantFrom(...actors) },
  );
  const values = fc.tuple(
    ...operation.parameters.map((parameter) => parameterValue(parameter, pools, components, mood)),
  );
  const extras: typeof anyExtras = mood === 'fitting' ? fc.constant({}) : anyExtras;
  return fc
    .tuple(actor, values, bodyOf(operation, pools, components, mood), extras, fc.nat(50_000))
    .map(([actor, given, body, { query, headers }, caller]) => {
      const at = (place: Parameter['in']) =>
        operation.parameters
          .map((parameter, i) => [parameter, given[i]] as const)
          .filter(([parameter, value]) => parameter.in === place && value !== undefined);
      let path = operation.path;
      for (const [{ name }, value] of at('path')) path = path.replace(`{${name}}`, encode(value!));
      const pairs = at('query').map(([{ name }, value]) => `${name}=${encode(value!)}`);
      const search = [...pairs, ...(query === undefined ? [] : [query])].join('&');
      const own = at('header').map(([{ name }, value]) => [name.toLowerCase(), toHeader(value!)]);
      return {
        operation,
        actor,
        path: search === '' ? path : `${path}?${search}`,
        headers: {
          accept: 'application/json, */*',
          // Each request has a different client IP address, so that limits per IP address do not end the run.
          'x-forwarded-for': `10.${caller >> 8}.${caller & 255}.1`,
          ...(Object.fromEntries(own) as Record<string, string>),
          ...body?.headers,
          ...actor.headers,
          ...headers,
        },
        body: body?.bytes,
      };
    });
}

/** Replaces characters that Node refuses to send; the raw-socket requests cover those. */
const toHeader = (value: string): string => value.replace(/[^\x20-\x7e\xa0-\xff]/g, '?').slice(0, 8_000);

/**
 * Also handles lone surrogates, for which `encodeURIComponent` throws: returns an encoded lone surrogate instead of the
 * encoded value.
 */
const encode = (value: string): string => {
  try {
    return encodeURIComponent(value).slice(0, 9_000).replace(/%.?$/, '');
  } catch {
    return '%ED%A0%80';
  }
};

function parameterValue(
  { name, required = false, schema, in: place }: Parameter,
  pools: Pools,
  components: Record<string, Schema>,
  mood: Mood,
): fc.Arbitrary<string | undefined> {
  const good = fitting(schema, pools, components, name).map(String);
  const bad = fc.constantFrom(...hostileTexts.filter((text) => place !== 'path' || text.trim() !== ''));
  const isLeftOut = required || place === 'path' ? 0 : 1;
  const weights = { fitting: [6, 0], mutated: [3, 1], hostile: [1, 4] }[mood];
  return fc.oneof(
    { weight: weights[0]!, arbitrary: good.map((value) => (place === 'path' && value === '' ? 'x' : value)) },
    { weight: weights[1]!, arbitrary: bad },
    { weight: mood === 'mutated' && place !== 'path' ? 1 : isLeftOut, arbitrary: fc.constant(undefined) },
  );
}

const anyExtras: fc.Arbitrary<{ query?: string; headers?: Record<string, string> }> = fc.constantFrom(
  {},
  {},
  {},
  { query: 'unknown=1' },
  { query: 'limit=1&limit=2' },
  { query: '%zz' },
  { query: 'a=%00' },
  { query: 'api_key=org_live_x' },
  { query: '[]=&__proto__[a]=1' },
  { headers: { cookie: 'gauge_session=x; gauge_session.sig=y' } },
  { headers: { authorization: 'Bearer' } },
  { headers: { authorization: 'Basic eDp5' } },
  { headers: { 'x-request-id': 'x'.repeat(300) } },
  { headers: { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' } },
  { headers: { prefer: 'handling=lenient' } },
  { headers: { 'accept-encoding': 'br;q=x, gzip;q=2, *;q=-1' } },
  { headers: { expect: 'nothing' } },
  { headers: { range: 'bytes=0-1' } },
);

interface Body {
  bytes: Buffer;
  headers: Record<string, string>;
}

function bodyOf(
  { bodySchema, mediaType = 'application/json' }: Operation,
  pools: Pools,
  components: Record<string, Schema>,
  mood: Mood,
): fc.Arbitrary<Body | undefined> {
  if (bodySchema === undefined) return fc.constant(undefined);
  const write = (value: unknown): Body => ({
    bytes: Buffer.from(
      mediaType === 'application/json'
        ? JSON.stringify(value)
        : new URLSearchParams(toFields(value)).toString(),
    ),
    headers: { 'content-type': mediaType },
  });
  const good = fitting(bodySchema, pools, components);
  if (mood === 'fitting') return good.map(write);
  if (mood === 'mutated') return fc.tuple(good, anyMutation).map(([value, mutate]) => write(mutate(value)));
  return fc.oneof(good.map(write), anyHostileBody);
}

const toFields = (value: unknown): [string, string][] =>
  Object.entries(Object(value) as object).map(([name, field]) => [
    name,
    typeof field === 'string' ? field : (JSON.stringify(field) ?? ''),
  ]);

type Mutation = (value: unknown) => unknown;

const anyMutation: fc.Arbitrary<Mutation> = fc
  .tuple(fc.nat(3), fc.nat(20), fc.constantFrom(...hostileValues))
  .map(
    ([kind, place, value]) =>
      (whole) =>
        mutate(whole, kind, place, value),
  );

/** Removes, adds or replaces a field somewhere within the value. */
function mutate(whole: unknown, kind: number, place: number, value: unknown): unknown {
  if (typeof whole !== 'object' || whole === null) return value;
  if (Array.isArray(whole)) {
    if (whole.length === 0 || kind === 3) return [...(whole as unknown[]), value];
    return (whole as unknown[]).map((item, i) =>
      i === place % whole.length ? mutate(item, kind, place >> 1, value) : item,
    );
  }
  const names = Object.keys(whole);
  const name = names[place % Math.max(1, names.length)];
  const fields = whole as Record<string, unknown>;
  if (name === undefined || kind === 1) return { ...fields, unknown: value };
  if (kind === 0) return Object.fromEntries(Object.entries(fields).filter(([other]) => other !== name));
  const inner = fields[name];
  const isDeep = typeof inner === 'object' && inner !== null;
  return { ...fields, [name]: isDeep ? mutate(inner, kind, place >> 1, value) : value };
}

const json = { 'content-type': 'application/json' };
const raw = (text: string | Buffer, headers: Record<string, string> = json): Body => ({
  bytes: Buffer.from(text as string),
  headers,
});

const anyHostileBody: fc.Arbitrary<Body> = fc.oneof(
  fc.constantFrom(
    raw(''),
    raw('null'),
    raw('[]'),
    raw('"'),
    raw('{"a":'),
    raw('{"__proto__":{"isAdmin":true},"constructor":{"prototype":{}}}'),
    raw('{"events":[{"quantity":1e400,"quantity":-1}]}'),
    raw(`{"name":"\\ud800"}`),
    raw(`{"name":"\\u0000","password":"\\u0000"}`),
    raw(`${'['.repeat(5_000)}${']'.repeat(5_000)}`),
    raw(`{"events":[${'{},'.repeat(700)}{}]}`),
    raw(`{"unitCap":${'9'.repeat(2_000)}}`),
    raw('\ufeff{}'),
    raw(Buffer.from([0x7b, 0xff, 0xfe, 0x7d])),
    raw('{}', { 'content-type': 'text/plain' }),
    raw('{}', { 'content-type': 'application/json; charset=utf-16' }),
    raw('{}', {}),
    raw('a=1&a=2&__proto__=3', { 'content-type': 'application/x-www-form-urlencoded' }),
    raw('not gzip', { ...json, 'content-encoding': 'gzip' }),
    raw(gzipSync('{}'), { ...json, 'content-encoding': 'gzip' }),
    raw(gzipSync(Buffer.alloc(8_000_000, 0x20)), { ...json, 'content-encoding': 'gzip' }),
    raw('{}', { ...json, 'content-encoding': 'x' }),
    raw(' '.repeat(300_000)),
  ),
  fc.json().map((text) => raw(text)),
  fc.uint8Array({ maxLength: 200 }).map((bytes) => raw(Buffer.from(bytes))),
);
