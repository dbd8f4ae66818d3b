/** The service's guarantees as a plain in-memory model. Quantities are in thousandths, times in ms. */
export interface ModelKey {
  org: number;
  livemode: boolean;
  scopes: string[];
  expiresAt: number | null;
  isRevoked: boolean;
  isRotated: boolean;
}

export interface ModelEntitlement {
  kind: 'live' | 'read_only';
  startsAt: number;
  endsAt: number | null;
  /** Replaces the product's cap; null means unlimited. If undefined, the product's cap applies. */
  ownCap?: number | null | undefined;
}

export interface ModelProduct {
  metric: string;
  unitCap: number | null;
}

export interface ModelEvent {
  product: number;
  metric: string;
  quantity: number;
  livemode: boolean;
  occurredAt: number;
}

export interface Model {
  now: number;
  products: ModelProduct[];
  keys: ModelKey[];
  /** Keyed by `<organization> <product>`. */
  entitlements: Map<string, ModelEntitlement>;
  /** Events per Organization, by idempotency key. */
  events: Map<string, ModelEvent>[];
  lastBatch: SentEvent[] | undefined;
}

/** An event as sent. A `product` index beyond the last product means an unknown slug. */
export interface SentEvent {
  product: number;
  metric: string;
  quantity: number | undefined;
  occurredAt: number | undefined;
  key: string;
}

export interface ExpectedAnswer {
  status: number;
  code?: string;
  /** `<index> <code>` for every broken rule. */
  errors?: string[];
  accepted?: number;
  deduped?: number;
  warnings?: string[];
  rejected?: string[];
}

const DAY = 86_400_000;
export const monthOf = (ms: number) => `${new Date(ms).toISOString().slice(0, 7)}-01`;

const statusOf: Record<string, number> = {
  key_revoked: 401,
  key_expired: 401,
  insufficient_scope: 403,
  entitlement_required: 403,
  entitlement_read_only: 403,
  unknown_metric: 422,
  timestamp_out_of_range: 422,
};
const ruleOrder = [
  'entitlement_required',
  'entitlement_read_only',
  'unknown_metric',
  'timestamp_out_of_range',
];

export function keyProblem({ now }: Model, key: ModelKey, scope: string): string | undefined {
  if (key.isRevoked) return 'key_revoked';
  if (key.expiresAt !== null && key.expiresAt <= now) return 'key_expired';
  return key.scopes.includes(scope) ? undefined : 'insufficient_scope';
}

export function entitlementInEffect({ now, entitlements }: Model, org: number, product: number) {
  const entitlement = entitlements.get(`${org} ${product}`);
  const isInEffect =
    entitlement !== undefined &&
    entitlement.startsAt <= now &&
    (entitlement.endsAt === null || entitlement.endsAt > now);
  return isInEffect ? entitlement : undefined;
}

function capOf({ products, entitlements }: Model, org: number, product: number): number | null {
  const ownCap = entitlements.get(`${org} ${product}`)?.ownCap;
  return ownCap === undefined ? products[product]!.unitCap : ownCap;
}

export function totalOf(
  events: Iterable<ModelEvent>,
  of: { product: number; metric: string; livemode: boolean; month: string },
): number {
  let total = 0;
  for (const e of events) {
    if (
      e.product === of.product &&
      e.metric === of.metric &&
      e.livemode === of.livemode &&
      monthOf(e.occurredAt) === of.month
    )
      total += e.quantity;
  }
  return total;
}

function brokenRules(model: Model, key: ModelKey, event: SentEvent): string[] {
  const product = model.products[event.product];
  const entitlement = entitlementInEffect(model, key.org, event.product);
  const isLate = event.occurredAt !== undefined && event.occurredAt < model.now - 7 * DAY;
  const isEarly = event.occurredAt !== undefined && event.occurredAt > model.now + 5 * 60_000;
  return [
    ...(!product || !entitlement
      ? ['entitlement_required']
      : entitlement.kind === 'read_only'
        ? ['entitlement_read_only']
        : product.metric !== event.metric
          ? ['unknown_metric']
          : []),
    ...(isLate || isEarly ? ['timestamp_out_of_range'] : []),
  ];
}

/** Sends a batch to the model and returns the response that the service should give. */
export function sendToModel(
  model: Model,
  key: ModelKey,
  batch: SentEvent[],
  { lenient, dryRun }: { lenient: boolean; dryRun: boolean },
): ExpectedAnswer {
  const problem = keyProblem(model, key, 'usage:write');
  if (problem) return { status: statusOf[problem]!, code: problem };
  const broken = batch.map((event) => brokenRules(model, key, event));
  const errors = broken.flatMap((rules, i) => rules.map((rule) => `${i} ${rule}`));
  if (!lenient && errors.length > 0) {
    const code = ruleOrder.find((rule) => broken.some((rules) => rules.includes(rule)))!;
    return { status: statusOf[code]!, code, errors };
  }
  const recorded = dryRun ? new Map(model.events[key.org]) : model.events[key.org]!;
  const touched = new Map<string, { product: number; metric: string; livemode: boolean; month: string }>();
  const mismatches: string[] = [];
  let accepted = 0;
  let deduped = 0;
  for (const [i, { key: idempotencyKey, ...sent }] of batch.entries()) {
    if (broken[i]!.length > 0) continue;
    const { product, metric, quantity = 1000, occurredAt = model.now } = sent;
    const event = { product, metric, quantity, occurredAt, livemode: key.livemode };
    const total = { product, metric, livemode: key.livemode, month: monthOf(occurredAt) };
    touched.set(Object.values(total).join(' '), total);
    const first = recorded.get(idempotencyKey);
    if (!first) {
      accepted++;
      recorded.set(idempotencyKey, event);
      continue;
    }
    deduped++;
    const isSame =
      first.product === product &&
      first.metric === metric &&
      first.quantity === quantity &&
      first.livemode === key.livemode &&
      (sent.occurredAt === undefined || first.occurredAt === occurredAt);
    if (!isSame)
      mismatches.push(`duplicate_mismatch ${i}${first.livemode === key.livemode ? '' : ' livemode'}`);
  }
  const overCap = [...touched.values()].flatMap((total) => {
    const unitCap = capOf(model, key.org, total.product);
    const used = totalOf(recorded.values(), total);
    return unitCap !== null && used > unitCap
      ? [`unit_cap_exceeded ${total.product} ${total.month} ${used}/${unitCap}`]
      : [];
  });
  return {
    status: 202,
    accepted,
    deduped,
    warnings: [...overCap, ...mismatches].sort(),
    ...(lenient ? { rejected: broken.flatMap((rules, i) => (rules[0] ? [`${i} ${rules[0]}`] : [])) } : {}),
  };
}

export interface ExpectedCheck {
  allowed: boolean;
  reason: string | null;
  kind: string | null;
  unitCap: number | null;
  used: number | null;
  remaining: number | null;
  overCap: boolean;
}

/** The expected response to a check of one product, with quantities in units instead of thousandths. */
export function checkModel(model: Model, key: ModelKey, product: number): ExpectedCheck {
  const entitlement = entitlementInEffect(model, key.org, product);
  if (!entitlement) {
    const nothing = { kind: null, unitCap: null, used: null, remaining: null };
    return { allowed: false, reason: 'entitlement_required', ...nothing, overCap: false };
  }
  const { metric } = model.products[product]!;
  const unitCap = capOf(model, key.org, product);
  const month = monthOf(model.now);
  const used = totalOf(model.events[key.org]!.values(), { product, metric, livemode: key.livemode, month });
  const isLive = entitlement.kind === 'live';
  return {
    allowed: isLive,
    reason: isLive ? null : 'entitlement_read_only',
    kind: entitlement.kind,
    unitCap: unitCap === null ? null : unitCap / 1000,
    used: used / 1000,
    remaining: unitCap === null ? null : Math.max(0, unitCap - used) / 1000,
    overCap: unitCap !== null && used > unitCap,
  };
}
