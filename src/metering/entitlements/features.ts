import { z } from 'zod';
import { text } from '../../core/http/validate.js';

const MAX_FEATURES = 32;
const MAX_BYTES = 4_096;

type Feature = boolean | number | string | string[];
export type Features = Record<string, Feature>;
/** Null removes a feature of the product. */
export type FeatureOverrides = Record<string, Feature | null>;

const textField = text(256, 0);

const featureField = z.union(
  [
    z.boolean(),
    z.number().min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER),
    textField,
    z.array(textField).max(MAX_FEATURES),
  ],
  `must be true or false, a number within ±${Number.MAX_SAFE_INTEGER}, a text of at most 256 characters without control characters, or a list of at most ${MAX_FEATURES} such texts`,
);

const namePattern = /^[a-z][a-z0-9_]{0,63}$/;
const nameMessage = 'must be a name of 1 to 64 of a-z, 0-9 and _ that begins with a letter, like max_seats';

const objectOf = <Value extends z.ZodType>(value: Value) =>
  z.preprocess(
    (input, context) => {
      // A record drops this name silently.
      if (Object.hasOwn(Object(input) as object, '__proto__'))
        context.addIssue({ code: 'custom', path: ['__proto__'], message: nameMessage });
      return input;
    },
    z
      .record(z.string().regex(namePattern, nameMessage), value)
      .meta({ propertyNames: { pattern: namePattern.source } })
      .refine((names) => Object.keys(names).length <= MAX_FEATURES, `must have at most ${MAX_FEATURES} names`)
      .refine(
        (features) => Buffer.byteLength(JSON.stringify(features)) <= MAX_BYTES,
        `must be at most ${MAX_BYTES} bytes of JSON`,
      ),
  );

export const featuresSchema = objectOf(featureField);
export const featureOverridesSchema = objectOf(featureField.nullable());

export const featuresField = z
  .record(z.string(), z.union([z.boolean(), z.number(), z.string(), z.array(z.string())]))
  .describe("The features of the product, replaced by name by the entitlement's own. `{}` without any.");

export const mergeFeatures = (product: Features | null, own: FeatureOverrides | null): Features =>
  Object.fromEntries(
    Object.entries({ ...product, ...own }).filter((entry): entry is [string, Feature] => entry[1] !== null),
  );

/** JSON of the merged features; null without any. */
export const mergedFeatures = (entitlement: string, product: string): string =>
  `case when ${entitlement}.features is not null or ${product}.features is not null then
    jsonb_strip_nulls(coalesce(${product}.features, '{}') || coalesce(${entitlement}.features, '{}'))::text end as features`;

/** Null without any. The order of names makes no difference. */
export const toStoredFeatures = <T extends FeatureOverrides>(features: T | undefined): T | null =>
  features === undefined || Object.keys(features).length === 0
    ? null
    : (Object.fromEntries(Object.entries(features).toSorted(([a], [b]) => (a < b ? -1 : 1))) as T);

/** One line for each, like `max_seats = 5`. */
export const writeFeatures = (features: FeatureOverrides | null): string =>
  Object.entries(toStoredFeatures(features ?? {}) ?? {})
    .map(([name, value]) => `${name} = ${writeValue(value)}`)
    .join('\n');

/** By name, for pages. @param json merged */
export const listFeatures = (json: string | null): { name: string; value: string }[] =>
  Object.entries(toStoredFeatures(JSON.parse(json ?? '{}') as Features) ?? {}).map(([name, value]) => ({
    name,
    value: Array.isArray(value)
      ? value.join(', ')
      : typeof value === 'boolean'
        ? value
          ? 'yes'
          : 'no'
        : String(value),
  }));

const writeValue = (value: Feature | null): string =>
  typeof value === 'string' && readValue(value.trim()) === value ? value : JSON.stringify(value);

/** The reverse. A line without a value means true, and a value that is not JSON is a text. */
export const featureLines = z.string().transform((lines, context): unknown => {
  const read = new Map<string, unknown>();
  for (const line of lines.split('\n').filter((one) => one.trim() !== '')) {
    const [first = '', ...rest] = line.split('=');
    const name = first.trim();
    if (rest.length === 0 && /\s/.test(name))
      context.addIssue(`needs “=” after the name, like ${name.replace(/:?\s+/, ' = ')}`);
    if (read.has(name)) context.addIssue(`names ${name} twice`);
    read.set(name, rest.length === 0 ? true : readValue(rest.join('=').trim()));
  }
  return Object.fromEntries(read);
});

function readValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
