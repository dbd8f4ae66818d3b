import {
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
  type Document,
  type Node,
  type Scalar,
  type YAMLMap,
} from 'yaml';
import { z } from 'zod';
import { organizationSchema, slugSchema } from '../../../accounts/identity/operator/schema.js';
import { serviceKeyInputSchema } from '../../../accounts/service-keys/schema.js';
import { MAX_ENDPOINTS } from '../../../accounts/webhooks/endpoints.js';
import { whyNoReceiver } from '../../../accounts/webhooks/guard.js';
import { createWebhookSchemas } from '../../../accounts/webhooks/schema.js';
import type { AsText } from '../../../accounts/webhooks/types.js';
import { quote } from '../../../commands/kit/columns.js';
import { CommandError } from '../../../commands/kit/command.js';
import { AppError, type ErrorPlace } from '../../../core/errors.js';
import { MAX_PLACES, parseInput } from '../../../core/http/validate.js';
import { webhookTypes } from '../../../products.js';
import { entitlementSchema, productSchema } from '../../entitlements/operator/schema.js';
import { organizationPlanSchema, planSchema } from '../../plans/schema.js';
import { toBoundedDecimal } from '../../entitlements/exact-number.js';

/** Parsing a file of this size takes about a second and 200 MB. */
export const MAX_FILE_BYTES = 4 * 1024 * 1024;
/** Aliases may expand to this many values. */
const MAX_ALIASES = 1_000;

/** A resource is active unless the file says otherwise. */
const archived = z.boolean().default(false).describe('Whether it is archived. Default: false.');

export const fileSchema = z.strictObject({
  products: z
    .record(slugSchema, productSchema.extend({ archived }))
    .optional()
    .describe('All products, by slug. Without this section, products are left alone.'),
  plans: z
    .record(slugSchema, planSchema)
    .optional()
    .describe('Plans, by slug. A plan is never deleted. Without this section, they are left alone.'),
  organizations: z
    .record(
      slugSchema,
      organizationSchema.extend({
        archived,
        entitlements: z
          .record(slugSchema, entitlementSchema)
          .optional()
          .describe(
            "All entitlements of the Organization, by the product's slug. Without this section, they are left alone.",
          ),
        plan: organizationPlanSchema
          .omit({ voidGrants: true })
          .nullish()
          .describe(
            "The Organization's plan; `null` for none. Its entitlements do not stand under `entitlements`. Without it, it is left alone.",
          ),
        webhooks: z
          .array(createWebhookSchemas(webhookTypes).webhookInputSchema)
          .max(MAX_ENDPOINTS, `must have at most ${MAX_ENDPOINTS} endpoints`)
          .optional()
          .describe(
            'All webhook endpoints of the Organization. Format, URL and mode identify an endpoint. Without this section, they are left alone.',
          ),
      }),
    )
    .optional()
    .describe('All Organizations, by slug. Without this section, they are left alone.'),
  serviceKeys: z
    .record(serviceKeyInputSchema.shape.name, serviceKeyInputSchema.omit({ name: true }))
    .optional()
    .describe(
      'Service keys, by name. Those without an active key of the name are created; none is changed or revoked.',
    ),
});

/** Numbers are text, which keeps all their digits. */
export type Declaration = AsText<z.input<typeof fileSchema>>;

export type State = { [Section in keyof Declaration]-?: NonNullable<Declaration[Section]> };

export interface DeclaredFile {
  declared: Declaration;
  /** `gauge.yaml:12`, for a JSON pointer into the file. */
  placeOf: (pointer: string) => string;
}

/** @throws CommandError with the line and the pointer of every mistake */
export function parseFile(name: string, text: string): DeclaredFile {
  const lines = new LineCounter();
  const at = (offset: number | undefined) => `${name}:${lines.linePos(offset ?? 0).line}`;
  const document = whileBounded(name, () =>
    // The parser's own check for unique keys takes quadratic time.
    parseDocument(text, { lineCounter: lines, schema: 'core', prettyErrors: false, uniqueKeys: false }),
  );
  refuse(
    name,
    [...document.errors, ...document.warnings].map(({ pos, message }) => `${at(pos[0])}: ${message}`),
    text.startsWith('\n> ')
      ? 'Use `npm run --silent export`: npm has printed its heading into the file.'
      : '',
  );
  const offend = (node: Node | undefined, detail: string) => `${at(node?.range?.[0])}: ${detail}`;
  refuse(name, nameKeys(document, offend));

  const placeOf = (pointer: string) => at(findNode(document, pointer)?.range?.[0]);
  const toLine = ({ pointer, detail }: Pick<ErrorPlace, 'pointer' | 'detail'>) =>
    `${placeOf(pointer)}: ${pointer || 'the file'} ${detail}`;
  const toValue = () => whileBounded(name, () => document.toJS({ maxAliasCount: MAX_ALIASES }) as unknown);
  const plain = toValue();
  try {
    parseInput(fileSchema, plain);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    refuse(name, (error.errors ?? []).map(toLine));
  }
  refuse(name, keepDigits(document, offend));
  const declared = withPlainFeatures(toValue(), plain) as Declaration;
  refuse(name, findContradictions(declared).map(toLine));
  return { declared, placeOf };
}

function refuse(name: string, problems: readonly string[], hint = ''): void {
  if (problems.length === 0) return;
  const shown = problems.slice(0, MAX_PLACES).map((problem) => `  ${problem}`);
  const more = problems.length > MAX_PLACES ? [`  … and ${problems.length - MAX_PLACES} more`] : [];
  const lines = [`${name} is not valid. Nothing was sent.`, ...shown, ...more, ...(hint ? [hint] : [])];
  throw new CommandError(lines.join('\n'));
}

/** @throws CommandError for text nested too deeply, and for aliases that are unknown or expand too much */
function whileBounded<T>(name: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof RangeError) throw new CommandError(`${name} is nested too deeply.`);
    if (error instanceof ReferenceError)
      throw new CommandError(
        error.message.startsWith('Excessive')
          ? `${name}: aliases may expand to at most ${MAX_ALIASES} values.`
          : `${name}: ${error.message}`,
      );
    throw error;
  }
}

type Offend = (node: Node | undefined, detail: string) => string;

/** One for each key that is not plain text, appears twice, or is `__proto__` where that is not allowed. */
function nameKeys(document: Document, offend: Offend): string[] {
  const problems: string[] = [];
  visit(document, {
    Map(_, map, path) {
      const known = new Set<string>();
      const allowsProto = arePrices(map, path);
      for (const { key } of map.items) {
        if (!isScalar(key)) {
          problems.push(offend(key as Node, 'a key must be a plain text'));
          continue;
        }
        const text = typeof key.value === 'string' ? key.value : (key.source ?? '');
        key.value = text;
        if (known.has(text)) problems.push(offend(key, `the key ${quote(text)} appears twice`));
        if (text === '__proto__' && !allowsProto)
          problems.push(offend(key, 'the key "__proto__" is not allowed'));
        known.add(text);
      }
    },
  });
  return problems;
}

const PRICES = /^products\/[^/]+\/credits\/by\/prices$/;

/**
 * Values of a dimension may be `__proto__`. A map with an anchor does not count: an alias could use it where zod would
 * silently drop `__proto__`.
 */
const arePrices = ({ anchor }: YAMLMap, path: readonly unknown[]): boolean =>
  !anchor &&
  PRICES.test(
    path
      .filter(isPair)
      .map(({ key }) => String(key))
      .join('/'),
  );

/** A double would round numbers. */
function keepDigits(document: Document, offend: Offend): string[] {
  const problems: string[] = [];
  visit(document, {
    Scalar(_, scalar) {
      if (typeof scalar.value !== 'number') return;
      try {
        scalar.value = digitsOf(scalar as Scalar<number>);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        problems.push(offend(scalar, `a number ${error.errors![0]!.detail}`));
      }
    },
  });
  return problems;
}

/** A feature may be 5 or "5". @param plain the same value, in which numbers are no texts */
export function withPlainFeatures(texts: unknown, plain: unknown): unknown {
  if (typeof texts !== 'object' || texts === null) return texts;
  const entries = Object.entries(texts).map(([name, value]): [string, unknown] => {
    const own = (plain as Record<string, unknown>)[name];
    return [name, name === 'features' || name === 'featureOverrides' ? own : withPlainFeatures(value, own)];
  });
  return Array.isArray(texts) ? entries.map(([, value]) => value) : Object.fromEntries(entries);
}

/** Other notations, such as hexadecimal, use the parsed value. */
const digitsOf = ({ source = '', value }: Scalar<number>): string =>
  toBoundedDecimal(
    /^[-+]?[\d.]+(e[-+]?\d+)?$/i.test(source) ? source.replace(/^\+/, '') : String(value),
    'number',
  );

/** The nearest ancestor if nothing is there; undefined without an ancestor. */
function findNode(document: Document, pointer: string): Node | undefined {
  let found: unknown;
  let node: unknown = document.contents;
  for (const part of pointer.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (isAlias(node)) node = node.resolve(document);
    const next = isMap(node)
      ? node.items.find(({ key }) => isScalar(key) && key.value === name)
      : isSeq(node)
        ? node.items[Number(name)]
        : undefined;
    if (next === undefined) break;
    [found, node] = isPair(next) ? [next.key, next.value] : [next, next];
  }
  return found as Node | undefined;
}

function findContradictions({ products, plans = {}, organizations = {} }: Declaration) {
  const places: Pick<ErrorPlace, 'pointer' | 'detail'>[] = [];
  for (const [slug, { entitlements }] of Object.entries(plans))
    for (const [i, { productSlug }] of entitlements.entries())
      if (products && !Object.hasOwn(products, productSlug))
        places.push({
          pointer: `/plans/${slug}/entitlements/${i}/productSlug`,
          detail: 'is not a product of this file',
        });
  for (const [slug, { entitlements = {}, webhooks = [] }] of Object.entries(organizations)) {
    for (const [product, { startsAt, endsAt }] of Object.entries(entitlements)) {
      const pointer = `/organizations/${slug}/entitlements/${product}`;
      if (products && !Object.hasOwn(products, product))
        places.push({ pointer, detail: 'is not a product of this file' });
      if (startsAt && endsAt && Date.parse(endsAt) <= Date.parse(startsAt))
        places.push({ pointer: `${pointer}/endsAt`, detail: 'must be later than startsAt' });
    }
    for (const [i, { url }] of webhooks.entries()) {
      // Only a first check: the service is stricter.
      const detail = whyNoReceiver(url, { production: false, allowsPrivate: true });
      if (detail !== undefined) places.push({ pointer: `/organizations/${slug}/webhooks/${i}/url`, detail });
    }
  }
  return places;
}
