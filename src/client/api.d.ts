/**
 * The part of the API that the client calls, in the shape that openapi-typescript writes.
 */
export interface paths {
  '/api/usage/events': {
    parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get?: never;
    put?: never;
    /** Record usage events */
    post: operations['recordUsageEvents'];
    delete?: never;
    options?: never;
    head?: never;
    patch?: never;
    trace?: never;
  };
}
export type webhooks = Record<string, never>;
export interface components {
  schemas: {
    UsageEvent: {
      productSlug: string;
      metric: string;
      quantity?: number;
      /** Format: date-time */
      occurredAt?: string;
      idempotencyKey: string;
    };
    UsageBatch: { events: components['schemas']['UsageEvent'][] };
    UsageAnswer: {
      accepted: number;
      deduped: number;
      warnings: (
        | {
            code: 'unit_cap_exceeded';
            productSlug: string;
            metric: string;
            unitCap: number;
            used: number;
            period: { start: string; end: string };
          }
        | { code: 'duplicate_mismatch'; index: number }
      )[];
      rejected?: { index: number; code: string; detail: string }[];
    };
    Problem: {
      type: string;
      title: string;
      status: number;
      code: string;
      detail: string;
      requestId: string;
      errors?: { index?: number; pointer: string; code: string; detail: string }[];
    };
  };
  responses: never;
  parameters: never;
  requestBodies: never;
  headers: never;
  pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
  recordUsageEvents: {
    parameters: {
      query?: { dryRun?: 'true' | 'false' };
      header?: { Prefer?: string };
      path?: never;
      cookie?: never;
    };
    requestBody: { content: { 'application/json': components['schemas']['UsageBatch'] } };
    responses: {
      /** The events are recorded. */
      202: {
        headers: { [name: string]: unknown };
        content: { 'application/json': components['schemas']['UsageAnswer'] };
      };
      /** The request was refused. */
      default: {
        headers: { [name: string]: unknown };
        content: { 'application/problem+json': components['schemas']['Problem'] };
      };
    };
  };
}
