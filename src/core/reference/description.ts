import type { z } from 'zod';
import type { Scope } from '../../api-keys/key-reader.js';
import type { ErrorCode } from '../errors.js';
import type { Credential } from './example-world.js';
import type { ResponseHeader } from './headers.js';

export type Tag =
  'Usage' | 'Entitlements' | 'Market data' | 'Trading' | 'API keys' | 'Signing in' | 'Operator' | 'Service';

/** One route as the document describes it, in the words and with the schemas that the route itself uses. */
export interface RouteDescription {
  method: 'get' | 'post' | 'put' | 'delete';
  /** As in OpenAPI: `/dashboard/api-keys/{id}`. */
  path: string;
  operationId: string;
  tag: Tag;
  summary: string;
  /** Markdown. Someone who has only this must be able to use the route. */
  description: string;
  security: 'apiKey' | 'session' | 'operator' | 'none';
  /** The scope that an API key needs; null where any valid key will do. */
  scope?: Scope | null;
  /** Answers of any status may say what is left of a limit. */
  isLimited?: boolean;
  params?: z.ZodObject;
  query?: z.ZodObject;
  headers?: z.ZodObject;
  body?: { schema: z.ZodType; mediaType?: string; isOptional?: boolean };
  /** The successful answers, and those others that are no problem documents, by status. */
  responses: Record<number, ResponseDescription>;
  /** Every code that a caller may meet here. */
  errors: ErrorCode[];
  /** One or more for each successful status and for each error code. */
  examples: Example[];
}

export interface ResponseDescription {
  description: string;
  /** By media type: a schema, or null for text that has none. Left out where there is no body. */
  content?: Record<string, z.ZodType | null>;
  headers?: ResponseHeader[];
}

/** What is sent in an example. */
export interface ExampleRequest {
  credential: Credential;
  params?: Record<string, string>;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  /** A JSON value, or the fields of a form. */
  body?: unknown;
  /** Instead of `body`: sent as it is. */
  rawBody?: string;
  /** Spaces follow the body up to this size. */
  paddedToBytes?: number;
}

/** The state of the service in which an example takes place; left out where all is well. */
export type Circumstance =
  | 'limit_used_up'
  | 'database_unreachable'
  | 'defect'
  | 'draining'
  | 'no_market_data'
  | 'old_market_data'
  | 'small_account'
  | 'metrics_protected'
  | 'trading_live';

/** A request and the exact answer it gets in the example world. */
export interface Example {
  /** Names the example in the document: camelCase, unique within its route. */
  name: string;
  summary: string;
  circumstance?: Circumstance;
  /** Requests to the same route that went before. */
  before?: ExampleRequest[];
  request: ExampleRequest;
  /** `body`: of JSON the whole value, of other text a part that it contains. */
  response: { status: number; body?: unknown; headers?: Record<string, string> };
}

/** In an example answer: a value that differs from call to call. The one shown stands for any of its kind. */
export class Generated {
  readonly shown: string;
  constructor(shown: string) {
    this.shown = shown;
  }
  toJSON(): string {
    return this.shown;
  }
}

export const generated = (shown: string) => new Generated(shown);

/** In an example answer: an object of which only a part is shown. */
export class Excerpt {
  readonly shown: Record<string, unknown>;
  constructor(shown: Record<string, unknown>) {
    this.shown = shown;
  }
  toJSON(): Record<string, unknown> {
    return this.shown;
  }
}

export const excerpt = (shown: Record<string, unknown>) => new Excerpt(shown);

/** In an example answer: a list of which only the beginning is shown. */
export class Beginning {
  readonly items: unknown[];
  constructor(items: unknown[]) {
    this.items = items;
  }
  toJSON(): unknown[] {
    return this.items;
  }
}

export const beginning = (items: unknown[]) => new Beginning(items);

/** In an example request: a list too long to be shown; the document shows its first item. */
export class Repeated {
  readonly items: unknown[];
  constructor(items: unknown[]) {
    this.items = items;
  }
  toJSON(): unknown[] {
    return this.items.slice(0, 1);
  }
}

export const repeated = (count: number, makeItem: (i: number) => unknown) =>
  new Repeated(Array.from({ length: count }, (_, i) => makeItem(i)));
