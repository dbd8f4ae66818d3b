import fc from 'fast-check';

/** The subset of JSON Schema that the OpenAPI document uses. */
export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minItems?: number;
  maxItems?: number;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
}

/** Existing values, by name of the field or parameter. */
export type Pools = Record<string, readonly string[]>;

const MAX_ITEMS = 4;

/** Generates values that fit a schema. A field with a pool usually takes a value from it. */
export function fitting(
  schema: Schema,
  pools: Pools,
  components: Record<string, Schema>,
  name = '',
): fc.Arbitrary<unknown> {
  const inner = (part: Schema, partName = name) => fitting(part, pools, components, partName);
  if (schema.$ref !== undefined) return inner(components[schema.$ref.split('/').at(-1)!]!);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return fc.oneof(...choices.map((choice) => inner(choice)));
  if (schema.allOf) return inner(Object.assign({}, ...schema.allOf) as Schema);
  const types = [schema.type ?? 'string'].flat();
  return fc.oneof(...types.map((type) => ofType({ ...schema, type }, pools, inner, name)));
}

function ofType(
  schema: Schema & { type: string },
  pools: Pools,
  inner: (part: Schema, name?: string) => fc.Arbitrary<unknown>,
  name: string,
): fc.Arbitrary<unknown> {
  const { type, minimum, maximum } = schema;
  switch (type) {
    case 'object': {
      const fields = Object.entries(schema.properties ?? {}).map(
        ([field, part]) => [field, inner(part, field)] as const,
      );
      return fc.record(Object.fromEntries(fields), { requiredKeys: schema.required ?? [] });
    }
    case 'array':
      return fc.array(inner(schema.items ?? {}), {
        minLength: schema.minItems ?? 0,
        maxLength: Math.min(schema.maxItems ?? MAX_ITEMS, MAX_ITEMS),
      });
    case 'integer':
      return fc.integer({ min: minimum ?? -1_000, max: Math.min(maximum ?? 10_000, 10_000_000) });
    case 'number':
      return fc.oneof(
        fc.integer({ min: Math.ceil(minimum ?? 0), max: 1_000 }),
        fc.double({ min: minimum ?? -1e12, max: maximum ?? 1e12, noNaN: true, noDefaultInfinity: true }),
      );
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    default: {
      const pool = pools[name];
      const free = fittingText(schema);
      return pool ? fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...pool) }, free) : free;
    }
  }
}

function fittingText({ format, pattern, minLength = 0, maxLength = 40 }: Schema): fc.Arbitrary<string> {
  if (format === 'uuid') return fc.uuid();
  if (format === 'email') return fc.emailAddress();
  if (format === 'date-time')
    return fc
      .integer({ min: -8 * 86_400_000, max: 3_600_000 })
      .map((ms) => new Date(Date.now() + ms).toISOString());
  const bounds = { minLength, maxLength: Math.max(minLength, Math.min(maxLength, 300)) };
  // The generator supports neither lookaheads nor Unicode classes (used only to exclude control characters).
  if (pattern === undefined || /\\p\{|\(\?[=!<]/.test(pattern))
    return fc.string({ unit: 'grapheme', ...bounds });
  return fc.stringMatching(new RegExp(pattern));
}

/** Strings that no well-behaved client sends, of kinds that have broken services before. */
export const hostileTexts: readonly string[] = [
  '',
  ' ',
  '\u0000',
  'a\u0000b',
  '\ud800',
  '\udfff\ud800',
  '\u202e\u200f',
  '__proto__',
  'constructor',
  "'; drop table users; --",
  '{{7*7}}',
  '<script>alert(1)</script>',
  '../../../../etc/passwd',
  '%00',
  '%ED%A0%80',
  'null',
  '-1',
  '1e400',
  '99999999999999999999',
  '9999-12-31T23:59:59-23:59',
  '0000-01-01T00:00:00Z',
  '-000001-01-01T00:00:00Z',
  '2026-02-30T00:00:00Z',
  '00000000-0000-0000-0000-000000000000',
  'ﷺ'.repeat(100),
  '💥'.repeat(255),
  'x'.repeat(10_000),
  '\r\nX-Injected: 1',
  '\u0085\u2028\u2029',
];

export const hostileValues: readonly unknown[] = [
  ...hostileTexts,
  null,
  true,
  -0,
  -1,
  0.1,
  1e21,
  1e308,
  Number.MAX_SAFE_INTEGER + 1,
  [],
  {},
  [[[[[[[[]]]]]]]],
  { toString: 1 },
  Array.from({ length: 600 }, () => ({})),
  Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`k${i}`, i])),
];
