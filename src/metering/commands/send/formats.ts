import type { MappingOptions } from './mapping.js';
import type { Format } from './records.js';

interface NamedFormat {
  /** For an extension that does not say it. */
  reader: Format;
  mapping: MappingOptions;
}

const inResults = (...names: string[]) => names.map((name) => `results.${name}`).join(', ');
const usagePage = inResults('project_id', 'user_id', 'api_key_id', 'model', 'batch');
const messagesPage = inResults('workspace_id', 'api_key_id', 'model', 'service_tier', 'context_window');

/** A flag replaces its field of the mapping. */
export const namedFormats = {
  // A CloudEvent within the answer of GET /api/v1/events, with the key that POST /api/usage/events gives it.
  openmeter: {
    reader: 'json',
    mapping: {
      metric: 'event.type',
      occurredAt: 'event.time',
      idempotencyKey: 'join(event.source, event.id)',
      subject: 'event.subject',
    },
  },
  // A transaction's id is unique within its subscription.
  lago: {
    reader: 'csv',
    mapping: {
      metric: 'code',
      occurredAt: 'unix(timestamp)',
      idempotencyKey: 'join(external_subscription_id, transaction_id)',
      subject: 'external_subscription_id',
    },
  },
  stripe: {
    reader: 'csv',
    mapping: {
      metric: 'event_name',
      quantity: 'payload_value',
      occurredAt: 'unix(timestamp)',
      idempotencyKey: 'identifier',
      subject: 'payload_stripe_customer_id',
    },
  },
  // LiteLLM_SpendLogs has UTC without a zone.
  litellm: {
    reader: 'csv',
    mapping: {
      metric: '=tokens',
      quantity: 'total_tokens',
      occurredAt: 'startTime',
      idempotencyKey: 'request_id',
      subject: 'user',
      timeZone: 'UTC',
    },
  },
  openai: {
    reader: 'json',
    mapping: {
      each: 'results',
      metric: '=input_tokens',
      quantity: 'results.input_tokens',
      occurredAt: 'unix(start_time)',
      idempotencyKey: `join($metric, start_time, end_time, ${usagePage})`,
      subject: 'results.user_id',
    },
  },
  // GET /v1/organizations/usage_report/messages
  anthropic: {
    reader: 'json',
    mapping: {
      each: 'results',
      metric: '=output_tokens',
      quantity: 'results.output_tokens',
      occurredAt: 'starting_at',
      idempotencyKey: `join($metric, starting_at, ending_at, ${messagesPage})`,
      subject: 'results.workspace_id',
    },
  },
  // An item's id is unique within its hour.
  'aws-cur': {
    reader: 'csv',
    mapping: {
      productSlug: 'lower(lineItem/ProductCode)',
      metric: 'lineItem/UsageType',
      quantity: 'lineItem/UsageAmount',
      occurredAt: 'lineItem/UsageStartDate',
      idempotencyKey: 'join(identity/TimeInterval, identity/LineItemId)',
      subject: 'lineItem/UsageAccountId',
    },
  },
  // A log_format with escape=json and the variables' names: "time" is $time_iso8601.
  nginx: {
    reader: 'ndjson',
    mapping: {
      metric: '=requests',
      quantity: '=1',
      occurredAt: 'time',
      idempotencyKey: 'request_id',
      subject: 'remote_user',
    },
  },
  orb: {
    reader: 'ndjson',
    mapping: {
      metric: 'event_name',
      occurredAt: 'timestamp',
      idempotencyKey: 'idempotency_key',
      subject: 'external_customer_id',
    },
  },
  metronome: {
    reader: 'ndjson',
    mapping: {
      metric: 'event_type',
      occurredAt: 'timestamp',
      idempotencyKey: 'transaction_id',
      subject: 'customer_id',
    },
  },
} as const satisfies Record<string, NamedFormat>;

/** Undefined for the plain readers. */
export const findNamedFormat = (name: string | undefined): NamedFormat | undefined =>
  name !== undefined && Object.hasOwn(namedFormats, name)
    ? namedFormats[name as keyof typeof namedFormats]
    : undefined;
