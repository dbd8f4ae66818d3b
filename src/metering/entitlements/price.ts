import { z } from 'zod';
import { mapValues } from '../../core/collections.js';
import { exact, parseNumbersAsText } from '../../core/http/json.js';
import { exactField, namedObject } from '../../core/http/fields.js';
import { escapePointer, text } from '../../core/http/validate.js';
import { fieldError } from '../../core/pages/form.js';
import { MAX_VALUE_LENGTH, type Dimensions } from './dimensions.js';
import { toBoundedDecimal } from './exact-number.js';
import { enforcements, type products } from './table.js';

/** Per unit, in credits. Prices are exact decimals. */
export interface CreditPrice {
  price: string;
  /** For values of one dimension. */
  by?: { dimension: string; prices: Readonly<Record<string, string>> } | undefined;
  enforcement: (typeof enforcements)[number];
}

export const MAX_PRICES = 200;
const MAX_PLACES = 12;

const priceSchema = z.number().min(0, 'must be a number of at least 0');
const valueSchema = text(MAX_VALUE_LENGTH);

/** A zod record would silently drop a key named `__proto__`. */
function arePrices(input: unknown): boolean {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return false;
  const entries = Object.entries(input);
  return (
    entries.length >= 1 &&
    entries.length <= MAX_PRICES &&
    entries.every(
      ([value, price]) => valueSchema.safeParse(value).success && priceSchema.safeParse(price).success,
    )
  );
}

const pricesSchema = z
  .unknown()
  .refine(
    arePrices,
    `must be an object of 1 to ${MAX_PRICES} values of the dimension, each with a number of at least 0`,
  )
  .meta({
    type: 'object',
    minProperties: 1,
    maxProperties: MAX_PRICES,
    additionalProperties: { type: 'number', minimum: 0 },
  }) as unknown as z.ZodType<Record<string, number>>;

export const creditPriceSchema = z.strictObject({
  price: priceSchema.describe(`Credits per unit, an exact decimal of up to ${MAX_PLACES} places.`),
  by: z
    .strictObject({
      dimension: z.string().describe('One of the `dimensions` of the product.'),
      prices: pricesSchema.describe('Credits per unit for individual values. Other values cost `price`.'),
    })
    .optional()
    .describe('Prices that depend on a dimension.'),
  enforcement: z
    .enum(enforcements)
    .describe('`block`: reservations and checks are refused when no credits are left. Events never are.'),
});

export const creditPriceAnswerSchema = namedObject('CreditPrice', {
  price: exactField('Credits per unit.'),
  by: z
    .object({ dimension: z.string(), prices: z.record(z.string(), exactField('Credits per unit.')) })
    .optional(),
  enforcement: z.enum(enforcements),
});

/**
 * Keeps every digit.
 * @param bodyText valid JSON with the field `credits`
 * @throws AppError invalid_request for more than 12 places
 */
export function readCreditPrice(
  sent: z.output<typeof creditPriceSchema> | null | undefined,
  bodyText: string,
): CreditPrice | null | undefined {
  if (sent == null) return sent;
  const { price, by } = (
    parseNumbersAsText(bodyText) as { credits: { price: string; by?: { prices: Record<string, string> } } }
  ).credits;
  return {
    price: toPrice(price, 'credits/price'),
    by: sent.by && {
      dimension: sent.by.dimension,
      prices: mapValues(by!.prices, (digits, value) =>
        toPrice(digits, `credits/by/prices/${escapePointer(value)}`),
      ),
    },
    enforcement: sent.enforcement,
  };
}

export function toPrice(digits: string, place: string): string {
  const price = toBoundedDecimal(digits, place);
  if ((price.split('.')[1] ?? '').length > MAX_PLACES)
    throw fieldError(place, `must have at most ${MAX_PLACES} decimal places`);
  return price;
}

export function priceFor({ price, by }: CreditPrice, dimensions: Dimensions = {}): string {
  if (!by || !Object.hasOwn(dimensions, by.dimension)) return price;
  const value = dimensions[by.dimension]!;
  return Object.hasOwn(by.prices, value) ? by.prices[value]! : price;
}

export type PriceColumns = Pick<
  typeof products.$inferSelect,
  'creditPrice' | 'creditDimension' | 'creditPrices' | 'creditEnforcement'
>;

export function toPriceColumns(price: CreditPrice | null, dimensions: readonly string[]): PriceColumns {
  const { by } = price ?? {};
  if (by && !dimensions.includes(by.dimension))
    throw fieldError('credits/by/dimension', 'must be one of the dimensions of the product');
  return {
    creditPrice: price?.price ?? null,
    creditDimension: by?.dimension ?? null,
    creditPrices: by?.prices ?? null,
    creditEnforcement: price?.enforcement ?? null,
  };
}

export function toCreditPrice(columns: PriceColumns): CreditPrice | null {
  const { creditPrice: price, creditDimension: dimension, creditPrices: prices, creditEnforcement } = columns;
  if (price === null) return null;
  return {
    price,
    ...(dimension === null ? {} : { by: { dimension, prices: prices! } }),
    enforcement: creditEnforcement!,
  };
}

/** `toJson` writes decimals as numbers with all digits. */
export const creditPriceJson = (price: CreditPrice | null) =>
  price && {
    ...price,
    price: exact(price.price),
    ...(price.by && { by: { ...price.by, prices: mapValues(price.by.prices, exact) } }),
  };

/** For the audit log. */
export const describeCreditPrice = (price: CreditPrice | null): string =>
  price === null
    ? 'none'
    : `${price.price}${Object.entries(price.by?.prices ?? {})
        .map(([value, one]) => `, ${price.by!.dimension} ${value}: ${one}`)
        .join('')} (${price.enforcement})`;

/** SQL: price per unit of the product `pr` with the dimensions `asked` (jsonb); 0 if it has no price. */
export const priceOf = (asked: string): string =>
  `coalesce((pr.credit_prices ->> (${asked} ->> pr.credit_dimension))::numeric, pr.credit_price, 0)`;
