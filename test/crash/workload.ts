import type { Database } from '../../src/core/db/client.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { mix } from './random.js';

const ORGANIZATIONS = 3;
const DAY_MS = 86_400_000;

export interface Tenant {
  orgId: string;
  secrets: { live: string[]; test: string[] };
  ledger: Ledger;
}

export interface Product {
  id: string;
  slug: string;
}

/** The Organizations that send events, and those events. An event is fully determined by its number. */
export interface Workload {
  tenants: Tenant[];
  products: Product[];
  /** A product that no Organization is entitled to. */
  forbidden: Product;
  eventOf(tenant: Tenant, number: number): SentEvent;
}

export interface SentEvent {
  body: object;
  livemode: boolean;
  product: Product;
  /** The quantity in thousandths. */
  quantity: number;
  /** Undefined if the event occurs at the time of receipt. */
  occurredAtMs: number | undefined;
}

export const METRIC = 'calls';

/**
 * One Organization's events from the senders' point of view. The ledger lives outside the server, so it survives every
 * crash.
 */
export class Ledger {
  private states = new Uint8Array(1 << 16);
  private next = 0;

  /** Returns numbers that no sender has used. */
  takeFresh(count: number): number[] {
    const first = this.next;
    this.next += count;
    while (this.next > this.states.length) {
      const larger = new Uint8Array(this.states.length * 2);
      larger.set(this.states);
      this.states = larger;
    }
    return Array.from({ length: count }, (_, i) => first + i);
  }
  get size() {
    return this.next;
  }
  markSent(number: number) {
    this.states[number]! |= 1;
  }
  markAcknowledged(number: number) {
    this.states[number]! |= 2;
  }
  wasSent = (number: number) => ((this.states[number] ?? 0) & 1) !== 0;
  wasAcknowledged = (number: number) => ((this.states[number] ?? 0) & 2) !== 0;
}

export const keyOf = (number: number) => `event-${number}`;

/** Returns the event number in an idempotency key; undefined for a key that must never be recorded. */
export function numberOfKey(key: string): number | undefined {
  const digits = /^event-(\d+)$/.exec(key)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

export async function createWorkload(db: Database, seed: number): Promise<Workload> {
  const products: Product[] = [];
  for (const unitCap of [null, '1000', null])
    products.push(await createProduct(db, { unitCap, usageMetric: METRIC }));
  const forbidden = await createProduct(db, { usageMetric: METRIC });
  const tenants: Tenant[] = [];
  for (let i = 0; i < ORGANIZATIONS; i++) {
    const { id: orgId } = await createOrganization(db);
    for (const product of products) await grant(db, orgId, product.id);
    const secrets = async (livemode: boolean, count: number) => {
      const keys = [];
      for (let k = 0; k < count; k++) keys.push((await createKey(db, orgId, { livemode })).secret);
      return keys;
    };
    tenants.push({
      orgId,
      secrets: { live: await secrets(true, 2), test: await secrets(false, 1) },
      ledger: new Ledger(),
    });
  }
  const startedAtMs = Date.now();

  function eventOf(tenant: Tenant, number: number): SentEvent {
    const h = mix(mix(seed + tenants.indexOf(tenant)) + number);
    const product = products[h % products.length]!;
    const quantity = h % 5 === 0 ? 1000 : h % 9_999_999;
    const occurredAtMs = h % 3 === 0 ? undefined : startedAtMs - (mix(h) % (3 * DAY_MS));
    const body = {
      productSlug: product.slug,
      metric: METRIC,
      idempotencyKey: keyOf(number),
      ...(h % 5 === 0 ? {} : { quantity: quantity / 1000 }),
      ...(occurredAtMs === undefined ? {} : { occurredAt: new Date(occurredAtMs).toISOString() }),
    };
    return { body, livemode: mix(h + 1) % 4 !== 0, product, quantity, occurredAtMs };
  }

  return { tenants, products, forbidden, eventOf };
}
