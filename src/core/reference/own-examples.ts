import { createHash } from 'node:crypto';
import { DAY_MS, monthOf, monthRange } from '../time.js';
import { asShown } from './example-prose.js';
import { exampleWorld } from './example-world.js';
import type { SentRequest } from './problem-examples.js';

interface OwnProduct {
  slug: string;
  name: string;
  usageMetric: string;
  /** Largest quantity of one event; an exact decimal. */
  maxQuantity: string;
}

/** A member's own values, which replace those of the example world. */
export interface OwnValues {
  now: Date;
  liveProducts: OwnProduct[];
  readOnlyProducts: OwnProduct[];
  /** Prefix of an active key in each mode; never more of a key than its prefix. */
  prefixes: { live?: string | undefined; test?: string | undefined };
  market?: { ticker: string; ask: string } | undefined;
  tradeId?: string | undefined;
  restingId?: string | undefined;
  reservation?: { id: string; quantity: string } | undefined;
}

const { products, markets, trade, resting, reservation, now: exampleNow } = exampleWorld;
const time = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

/** The request with the caller's own values: sent with their key, it succeeds as well. */
export function ownRequest(request: SentRequest, own: OwnValues): SentRequest {
  const plain = asShown(request) as SentRequest;
  const renamed = rename(plain, own, ownProducts(own, own.liveProducts[0])) as SentRequest;
  const { headers = {}, body } = renamed;
  const key = headers['idempotency-key'];
  const limit = own.market && (body as { limitPrice?: string } | undefined)?.limitPrice;
  return {
    ...renamed,
    // An idempotency key belongs to one body.
    ...(key === undefined ? {} : { headers: { ...headers, 'idempotency-key': stamp(key, own, body) } }),
    ...(limit === undefined ? {} : { body: { ...(body as object), limitPrice: own.market!.ask } }),
    ...(plain.params?.id === reservation.id && own.reservation
      ? { body: settlementOf(body, own.reservation.quantity) }
      : {}),
  };
}

/** At most the held quantity, because the product might not accept more. */
const settlementOf = (body: unknown, held: string): unknown => {
  const { quantity } = (body ?? {}) as { quantity?: number };
  return quantity === undefined ? body : { ...(body as object), quantity: Math.min(quantity, Number(held)) };
};

/** An answer with the caller's own names; its numbers remain those of the example. */
export const ownAnswer = (answer: unknown, own: OwnValues): unknown =>
  rename(asShown(answer), own, ownProducts(own, undefined));

/** Maps the example world's products to the caller's. A product without a counterpart keeps its name. */
function ownProducts({ liveProducts, readOnlyProducts }: OwnValues, other: OwnProduct | undefined) {
  const counterparts = [
    [products.apiCalls.slug, liveProducts[0]],
    [products.storage.slug, liveProducts[1] ?? other],
    [products.archive.slug, readOnlyProducts[0]],
  ] as const;
  return new Map(counterparts.flatMap(([slug, own]) => (own ? [[slug as string, own] as const] : [])));
}

function rename(value: unknown, own: OwnValues, byExample: ReadonlyMap<string, OwnProduct>): unknown {
  const inside = (inner: unknown) => rename(inner, own, byExample);
  if (typeof value === 'string') return renameText(value, own, byExample);
  if (Array.isArray(value)) return value.map(inside);
  if (typeof value !== 'object' || value === null) return value;
  const fields = value as Record<string, unknown>;
  const renamed: Record<string, unknown> = Object.fromEntries(
    Object.entries(fields).map(([name, inner]) => [name, inside(inner)]),
  );
  const product = byExample.get(String(fields.productSlug));
  if (product) {
    if ('metric' in fields) renamed.metric = product.usageMetric;
    if ('usageMetric' in fields) renamed.usageMetric = product.usageMetric;
    if ('productName' in fields) renamed.productName = product.name;
    if (typeof fields.quantity === 'number')
      renamed.quantity = Math.min(fields.quantity, Number(product.maxQuantity));
  }
  const { data, subject } = fields as { data?: { productSlug?: unknown }; subject?: unknown };
  const cloudEventProduct = 'specversion' in fields && byExample.get(String(data?.productSlug ?? subject));
  if (cloudEventProduct) {
    renamed.type = cloudEventProduct.usageMetric;
    renamed.id = stamp(String(fields.id), own);
  }
  if ('period' in fields) renamed.period = monthRange(monthOf(own.now.getTime()));
  for (const name of ['idempotencyKey', 'correctionKey'])
    if (typeof fields[name] === 'string') renamed[name] = stamp(fields[name], own);
  return renamed;
}

function renameText(text: string, own: OwnValues, byExample: ReadonlyMap<string, OwnProduct>): string {
  if (text === markets.today.traded.ticker) return own.market?.ticker ?? text;
  if (text === trade.id) return own.tradeId ?? text;
  if (text === resting.id) return own.restingId ?? text;
  if (text === reservation.id) return own.reservation?.id ?? text;
  const offsetMs = own.now.getTime() - Date.parse(exampleNow);
  if (time.test(text)) return new Date(Date.parse(text) + offsetMs).toISOString();
  let renamed = text;
  for (const [slug, product] of byExample)
    if (text.includes(slug)) renamed = renamed.replaceAll(slug, () => product.slug);
  return renamed;
}

/** A new idempotency key for each visit, so that a request that is tried is recorded. */
function stamp(key: string, { now }: OwnValues, body?: unknown): string {
  const visit = Math.floor((now.getTime() % (100 * DAY_MS)) / 1000).toString(36);
  const hash =
    body === undefined
      ? ''
      : `-${createHash('sha256').update(JSON.stringify(body)).digest('hex').slice(0, 4)}`;
  const dated = key.replace(exampleNow.slice(0, 13), now.toISOString().slice(0, 13));
  return `${dated}-${visit}${hash}`;
}
