import { z } from 'zod';
import { exactField, idField, timeField } from '../../core/http/fields.js';
import type { ExactNumber } from '../../core/http/json.js';
import type { DescribedWebhook } from '../../core/reference/described.js';

interface TypeDescription {
  summary: string;
  description?: string;
  /** Schema of `data`. */
  schema: z.ZodObject;
  /** A sample of `data`. */
  example: Record<string, unknown>;
}

const exampleKey = {
  id: '01935a3f-8f00-7c3e-9d2a-4b5c6d7e8f90',
  name: 'Runtime in Frankfurt',
  prefix: 'org_live_7Hq',
  scopes: ['usage:write'],
  livemode: true,
  expiresAt: null,
};

const apiKeyField = z.object({
  id: idField('Unique within the Organization.'),
  name: z.string().describe('A label chosen by its creator, named after the runtime that holds it.'),
  prefix: z.string().length(12).describe('The first 12 characters of the secret.'),
  scopes: z.array(z.string()).min(1),
  livemode: z.boolean().describe('True for a live key, false for a test key.'),
  expiresAt: timeField('When it stops working; `null`: never.').nullable(),
});

const exampleUse = { productSlug: 'api-calls', metric: 'calls', livemode: true };

const useFields = {
  productSlug: z.string(),
  metric: z.string(),
  livemode: z.boolean().describe('True for live usage, false for test usage.'),
};

const limitField = z
  .object({
    quantity: exactField('Units.'),
    window: z
      .string()
      .describe(
        '`calendar_month`, `calendar_week`, `calendar_day`, or the ISO 8601 duration of a rolling window.',
      ),
    enforcement: z.enum(['warn', 'block']),
  })
  .describe('A cap is reported as a warning limit for the calendar month.');

const exampleLimit = { quantity: 1000, window: 'calendar_month', enforcement: 'warn' };

const daysBeforeField = z
  .union([z.literal(7), z.literal(1)])
  .describe('Sent 7 days and 1 day before. A missed notice is sent late, unless the next one is due.');

/** Dollar amounts in the trading API's format. */
const dollars = (description: string) =>
  z
    .string()
    .regex(/^-?\d+\.\d{4,6}$/)
    .describe(`${description} A decimal string in dollars.`);

const contracts = (description: string) => z.number().describe(`${description} At most two decimals.`);

const sideField = z.enum(['yes', 'no']);

const marketFields = {
  mode: z.enum(['paper', 'live']),
  ticker: z.string(),
  eventTicker: z.string(),
};

const exampleMarket = { mode: 'paper', ticker: 'KXHIGHNY-26JAN31-B40.5', eventTicker: 'KXHIGHNY-26JAN31' };

/** Message types that an endpoint can choose. */
export const webhookTypes = {
  'usage.threshold_reached': {
    summary: 'Usage reached a threshold of a cap or limit.',
    description:
      'Sent once for each threshold, limit and window. For a rolling window, it is sent again only after a full window length. Usage is evaluated at the time at which an event was recorded, or at which it occurred if that is later.',
    schema: z.object({
      ...useFields,
      threshold: z.int().describe('In percent of `limit.quantity`.'),
      limit: limitField,
      used: exactField('Units used in the window at evaluation; at or above the threshold.'),
      windowStart: timeField('Inclusive. For a rolling window: exclusive.'),
      windowEnd: timeField('Exclusive. For a rolling window: the time of evaluation, inclusive.'),
    }),
    example: {
      ...exampleUse,
      threshold: 80,
      limit: exampleLimit,
      used: 803.5,
      windowStart: '2026-01-01T00:00:00.000Z',
      windowEnd: '2026-02-01T00:00:00.000Z',
    },
  },
  'usage.limit_reached': {
    summary: 'A reservation was refused because a blocking limit left no room for it.',
    description: 'Sent at most once a minute for each limit.',
    schema: z.object({
      ...useFields,
      limit: limitField,
      used: exactField('Units used in the window.'),
      held: exactField('Units held by other reservations.'),
      remaining: exactField('Units that remained.'),
      requested: exactField('Units that were requested.'),
    }),
    example: {
      ...exampleUse,
      limit: { quantity: 1000, window: 'PT5H', enforcement: 'block' },
      used: 950,
      held: 20,
      remaining: 30,
      requested: 50,
    },
  },
  'usage.corrected': {
    summary: 'Recorded events were corrected.',
    schema: z.object({
      ...useFields,
      idempotencyKey: z.string().describe('The idempotency key of the event.'),
      correctionKey: z.string().describe('The key of the correction.'),
      previousQuantity: exactField('The quantity before the correction.'),
      quantity: exactField('The quantity after the correction; 0 if the event was voided.'),
      reason: z.string(),
    }),
    example: {
      ...exampleUse,
      idempotencyKey: 'req_8f14e45f',
      correctionKey: 'fix-2026-01-31-1',
      previousQuantity: 12,
      quantity: 2,
      reason: 'Counted retries.',
    },
  },
  'entitlement.changed': {
    summary: 'An entitlement was granted, changed or withdrawn.',
    schema: z.object({
      productSlug: z.string(),
      change: z.enum(['granted', 'changed', 'withdrawn']),
      entitlement: z
        .object({
          kind: z.enum(['live', 'read_only']),
          startsAt: timeField('Start of the entitlement, inclusive.'),
          endsAt: timeField('End of the entitlement, exclusive; `null` if it has no end.').nullable(),
          unitCap: exactField('Units per calendar month; `null` is unlimited.').nullable(),
          limits: z.array(limitField).describe('The declared limits, without the cap.'),
          thresholds: z.array(z.int()).describe('In percent of the cap and of each limit.'),
        })
        .nullable()
        .describe('The current entitlement; `null` if it was withdrawn.'),
    }),
    example: {
      productSlug: 'api-calls',
      change: 'changed',
      entitlement: {
        kind: 'live',
        startsAt: '2026-01-05T09:00:00.000Z',
        endsAt: null,
        unitCap: 25_000.5,
        limits: [{ quantity: 100, window: 'PT5H', enforcement: 'block' }],
        thresholds: [50, 80, 100],
      },
    },
  },
  'entitlement.ending': {
    summary: 'An entitlement ends soon.',
    schema: z.object({
      productSlug: z.string(),
      kind: z.enum(['live', 'read_only']),
      endsAt: timeField('End of the entitlement, exclusive.'),
      daysBefore: daysBeforeField,
    }),
    example: { productSlug: 'api-calls', kind: 'live', endsAt: '2026-02-07T12:00:00.000Z', daysBefore: 7 },
  },
  'api_key.created': {
    summary: 'An API key was created.',
    schema: z.object({ apiKey: apiKeyField }),
    example: { apiKey: exampleKey },
  },
  'api_key.rotated': {
    summary: 'An API key was rotated. A new key replaces it.',
    schema: z.object({
      apiKey: apiKeyField.describe('The new key.'),
      previous: apiKeyField.describe('The old key. It works until its `expiresAt`.'),
    }),
    example: {
      apiKey: { ...exampleKey, id: '01935a40-1c00-7d4a-8e11-0f9e8d7c6b5a', prefix: 'org_live_x2B' },
      previous: { ...exampleKey, expiresAt: '2026-01-31T13:00:00.000Z' },
    },
  },
  'api_key.revoked': {
    summary: 'An API key was revoked.',
    schema: z.object({ apiKey: apiKeyField, revokedAt: timeField('When the key stopped working.') }),
    example: { apiKey: exampleKey, revokedAt: '2026-01-31T12:00:00.000Z' },
  },
  'api_key.expiring': {
    summary: 'An API key expires soon and was not rotated.',
    schema: z.object({ apiKey: apiKeyField, daysBefore: daysBeforeField }),
    example: { apiKey: { ...exampleKey, expiresAt: '2026-02-01T12:00:00.000Z' }, daysBefore: 1 },
  },
  'trade.filled': {
    summary: 'An order was filled, fully or partially.',
    description: 'Paper trades are sent to test endpoints too; live trades only to live endpoints.',
    schema: z.object({
      ...marketFields,
      tradeId: idField('The id of the trade.'),
      idempotencyKey: z.string(),
      status: z.enum(['pending', 'resting', 'filled', 'partially_filled', 'cancelled', 'rejected']),
      side: sideField,
      action: z.enum(['buy', 'sell']),
      contracts: contracts('Contracts ordered.'),
      filledContracts: contracts('Contracts filled so far.'),
      fills: z
        .array(
          z.object({
            n: z.int().describe('The number of the fill within the trade.'),
            price: dollars('The price per contract.'),
            contracts: contracts('Contracts filled at this price.'),
            fee: dollars('The fee of this fill.'),
            filledAt: timeField('When it was filled.'),
          }),
        )
        .describe('The new fills.'),
    }),
    example: {
      ...exampleMarket,
      tradeId: '019c1400-7c00-7b6c-9a55-2f3e4d5c6b7a',
      idempotencyKey: 'order-1',
      status: 'filled',
      side: 'yes',
      action: 'buy',
      contracts: 10,
      filledContracts: 10,
      fills: [{ n: 1, price: '0.5600', contracts: 10, fee: '0.1800', filledAt: '2026-01-31T12:00:00.000Z' }],
    },
  },
  'market.settled': {
    summary: 'A market with an open position was settled, or a payout was corrected.',
    description: 'Paper accounts are reported to test endpoints too; live accounts only to live endpoints.',
    schema: z.object({
      ...marketFields,
      state: z.enum(['finalized', 'void']),
      value: dollars('Payout of a YES contract; `null` for a void market.').nullable(),
      temperature: z.number().nullable().describe('The reported temperature, °F.'),
      side: sideField.describe('The side held.'),
      contracts: contracts('Contracts held.'),
      payout: dollars('The change of the balance; negative if a correction took money back.'),
      isCorrection: z.boolean().describe('True if an earlier result was already paid.'),
    }),
    example: {
      ...exampleMarket,
      state: 'finalized',
      value: '1.0000',
      temperature: 41,
      side: 'yes',
      contracts: 10,
      payout: '10.0000',
      isCorrection: false,
    },
  },
  'trading.halted': {
    summary: 'A switch stopped all orders, or all orders except those that reduce a position.',
    schema: z.object({
      owner: z
        .enum(['service', 'operator', 'own'])
        .describe(
          'The owner of the switch: the whole service, its operator for this Organization, or the Organization itself.',
        ),
      state: z.enum(['reduce_only', 'halt']),
      reason: z.string(),
      changedAt: timeField('When the state took effect.'),
    }),
    example: {
      owner: 'operator',
      state: 'halt',
      reason: 'Unexplained fills, under investigation.',
      changedAt: '2026-01-31T12:00:00.000Z',
    },
  },
  'signal.gate_changed': {
    summary: 'The gate for a station and lead opened or closed.',
    schema: z.object({
      kind: z.enum(['daily_maximum', 'daily_minimum', 'hourly']),
      station: z.string().describe('The id of the station; for hourly markets, of the area.'),
      leadHours: z
        .int()
        .describe('The lead of the judged forecasts, in hours before the end of the day or before the hour.'),
      state: z.enum(['open', 'closed']),
      n: z.int().describe('The settled days it is judged on.'),
      reason: z.string().describe('Why it is open or closed.'),
    }),
    example: {
      kind: 'daily_maximum',
      station: 'KNYC',
      leadHours: 12,
      state: 'open',
      n: 62,
      reason: 'Over 62 settled days the forecast’s log score was better by 0.210 than the market’s.',
    },
  },
} as const satisfies Record<string, TypeDescription>;

/** Message types that every endpoint gets without choosing them. */
export const serviceTypes = {
  'webhook.disabled': {
    summary: 'Another endpoint of the Organization was disabled because its deliveries failed.',
    schema: z.object({
      endpointId: idField('The endpoint.'),
      url: z.string().describe('The URL of the endpoint.'),
      reason: z
        .enum(['gone', 'failing'])
        .describe('`gone`: it responded with 410. `failing`: every delivery failed for five days.'),
      disabledAt: timeField('When it was disabled.'),
    }),
    example: {
      endpointId: '01935a3f-8f00-7c3e-9d2a-4b5c6d7e8f90',
      url: 'https://example.com/webhooks',
      reason: 'gone',
      disabledAt: '2026-05-04T10:00:00.000Z',
    },
  },
  'webhook.test': {
    summary: 'A person requested a test delivery.',
    schema: z.object({ endpointId: idField('The endpoint.') }),
    example: { endpointId: '01935a3f-8f00-7c3e-9d2a-4b5c6d7e8f90' },
  },
} as const satisfies Record<string, TypeDescription>;

export const allTypes = { ...webhookTypes, ...serviceTypes };

/** Types in reading order, without those of markets if the service has none. */
export const describeWebhooks = (hasMarkets: boolean): DescribedWebhook[] =>
  Object.entries<TypeDescription>(allTypes)
    .filter(([type]) => hasMarkets || !/^(trade|market|trading|signal)[.]/.test(type))
    .map(([type, { summary, description = '', schema, example }]) => ({
      type,
      summary,
      description,
      schema,
      example: { type, timestamp: '2026-01-31T12:00:00.000Z', data: example },
    }));

export type WebhookType = keyof typeof webhookTypes;
export type AnyType = keyof typeof allTypes;
export type DataOf<T extends AnyType> = Exactly<z.input<(typeof allTypes)[T]['schema']>>;

/** Also accepts numbers with all their digits. */
type Exactly<T> = T extends number
  ? T | ExactNumber
  : T extends readonly (infer Item)[]
    ? readonly Exactly<Item>[]
    : T extends object
      ? { [Key in keyof T]: Exactly<T[Key]> }
      : T;
