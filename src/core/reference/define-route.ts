import type { RequestHandler, Router } from 'express';
import { z } from 'zod';
import type { ErrorCode } from '../errors.js';
import type { Scope } from '../scopes.js';
import type { Credential } from './example-world.js';
import type { ResponseHeader } from './headers.js';

export type Tag =
  | 'Usage'
  | 'Entitlements'
  | 'Market data'
  | 'Trading'
  | 'API keys'
  | 'Webhooks'
  | 'Signing in'
  | 'Operator'
  | 'Service';

/** What calls are counted for, by the names of the limits in headers and configuration. */
export type Limit =
  | 'usage'
  | 'entitlements'
  | 'trading'
  | 'bad-keys'
  | 'reads'
  | 'documents'
  | 'key-changes'
  | 'sign-ins';

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
  credential: 'apiKey' | 'session' | 'operator' | 'none';
  /** A call without the credential is answered, too. */
  isCredentialOptional?: boolean;
  /** The scope that an API key needs; null where any valid key will do. */
  scope?: Scope | null;
  /** Answers of any status may say what is left of it. */
  limit?: Limit;
  /** Left out: where a credential is needed. */
  usesDatabase?: boolean;
  params?: z.ZodObject;
  query?: z.ZodObject;
  headers?: z.ZodObject;
  body?: RequestBody;
  /** The successful answers, and those others that are no problem documents, by status. */
  responses: Record<number, ResponseDescription>;
  /** The codes that do not follow from the rest of the description: see `describeRoute`. */
  errors?: ErrorCode[];
  /** One or more for each successful status and for each of `errors`. */
  examples: Example[];
  /** Succeeds; the examples of general problems are made from it. Left out: the request of the first example, without its query. */
  good?: ExampleRequest;
}

export interface Route<Deps> extends RouteDescription {
  handler: (deps: Deps) => RequestHandler | RequestHandler[];
}

interface RequestBody {
  schema: z.ZodType;
  /** Left out: JSON. */
  mediaType?: string;
  /** Further formats, by media type. An example names its own as `content-type`. */
  others?: Record<string, z.ZodType>;
  isOptional?: boolean;
  maxBytes: number;
}

type ParameterNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ParameterNames<Rest>
  : never;
type HandlerOf<Path extends string> = RequestHandler<Record<ParameterNames<Path>, string>>;

/** A route as it is written: its handler knows the parameters of the path. */
export type RouteDefinition<Path extends string, Deps> = RouteDescription & {
  path: Path;
  handler: (deps: Deps) => HandlerOf<Path> | HandlerOf<Path>[];
};

/** One route: what `mountRoutes` mounts, and its entry in the OpenAPI document. */
export const defineRoute = <Path extends string, Deps>(route: RouteDefinition<Path, Deps>): Route<Deps> =>
  route as unknown as Route<Deps>;

/**
 * Mounts the routes on a router that is itself mounted at `base`.
 * @param guardsOf what stands before a route, within its one layer
 */
export function mountRoutes<Deps>(
  router: Router,
  base: string,
  routes: readonly Route<Deps>[],
  deps: Deps,
  guardsOf: (route: Route<Deps>) => RequestHandler[] = () => [],
): Router {
  for (const route of routes) {
    const path = route.path.slice(base.length).replace(/\{(\w+)\}/g, ':$1');
    router[route.method](path, ...guardsOf(route), route.handler(deps));
  }
  return router;
}

export interface ResponseDescription {
  description: string;
  /** By media type: a schema, or null for text that has none. Left out where there is no body. */
  content?: Record<string, z.ZodType | null>;
  headers?: ResponseHeader[];
}

export const json = (
  description: string,
  schema: z.ZodType,
  headers?: ResponseHeader[],
): ResponseDescription => ({
  description,
  content: { 'application/json': schema },
  ...(headers ? { headers } : {}),
});

/** Of a route that answers 304 to a caller who has the answer already. */
export const conditional = (
  description: string,
  schema: z.ZodType,
  unchanged = 'The cached copy is still current.',
) => ({
  headers: z.object({
    'If-None-Match': z.string().optional().meta({ description: 'The `ETag` of the cached copy.' }),
  }),
  responses: {
    200: json(description, schema, ['ETag']),
    304: { description: unchanged, headers: ['ETag' as const] },
  },
});

export interface ExampleRequest {
  /** Left out: one that is good for the route. */
  credential?: Credential;
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
  | 'old_event'
  | 'small_account'
  | 'order_rests'
  | 'metrics_protected'
  | 'trading_live'
  | 'no_market_access'
  | 'read_market_access';

export interface Example {
  /** Names the example in the document: camelCase, unique within its route. */
  name: string;
  summary: string;
  circumstance?: Circumstance;
  before?: ExampleRequest[];
  request: ExampleRequest;
  /** Left out: the lowest of `responses`. */
  status?: number;
  /** Of JSON the whole value, of other text a part that it contains. */
  answer?: unknown;
  answerHeaders?: Record<string, string>;
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
