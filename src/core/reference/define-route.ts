import type { RequestHandler, Router } from 'express';
import { z } from 'zod';
import type { ErrorCode } from '../errors.js';
import type { ResponseHeader } from './headers.js';
import type { Circumstance, Credential, Limit, Scope, Tag } from './names.js';

/** Where the routes of `/api` are for a service key. */
export const ORGANIZATION_ROOT = '/service/organizations/{slug}/';

export interface RouteDescription {
  method: 'get' | 'post' | 'put' | 'delete';
  /** OpenAPI notation: `/dashboard/api-keys/{id}`. */
  path: string;
  operationId: string;
  tag: Tag;
  /** The operation whose words and examples hold for this one, too. */
  sameAs?: string;
  credential: 'apiKey' | 'serviceKey' | 'session' | 'operator' | 'none';
  isCredentialOptional?: boolean;
  /** Null if any valid key is enough. */
  scope?: Scope | null;
  limit?: Limit;
  /** Default: true if the route needs a credential. */
  usesDatabase?: boolean;
  params?: z.ZodObject;
  query?: z.ZodObject;
  headers?: z.ZodObject;
  body?: RequestBody;
  /** Problem details are derived. */
  responses: Record<number, ResponseDescription>;
  /** Codes that `describeRoute` cannot derive. */
  errors?: ErrorCode[];
  /** Status whose errors include `Retry-After` if waiting helps. */
  waitingMayHelp?: number;
  moreExamples?: (good: ExampleRequest) => Example[];
}

export interface RouteProse {
  summary: string;
  /** Markdown. Must be enough to use the route without reading anything else. */
  description: string;
  /** At least one example for each successful status and for each error that `describeRoute` does not derive. */
  examples: Example[];
  /**
   * Calls of the Python client. `{field}` stands for a field of the request, `{body}` for its whole body,
   * `{field:text}` for the text. Named arguments are omitted if their field is missing. An example uses the first call
   * that covers all of its fields, or the standard library if none does.
   */
  python?: readonly string[];
  /** Default: the first example's request, without its query. */
  good?: ExampleRequest;
}

export interface Route<Deps> extends RouteDescription {
  handler: (deps: Deps) => RequestHandler | RequestHandler[];
}

interface RequestBody {
  schema: z.ZodType;
  /** Default: JSON. */
  mediaType?: string;
  /** By media type. An example selects a format with its `content-type` header. */
  others?: Record<string, z.ZodType>;
  isOptional?: boolean;
  maxBytes: number;
}

export type ParameterNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ParameterNames<Rest>
  : never;
type HandlerOf<Path extends string> = RequestHandler<Record<ParameterNames<Path>, string>>;

/** Method and path: `GET /dashboard/api-keys/{id}`. */
export type At<Path extends string> = `${Uppercase<RouteDescription['method']>} ${Path}`;

export type RouteDefinition<Path extends string, Deps> = Omit<RouteDescription, 'method' | 'path'> & {
  at: At<Path>;
  handler: (deps: Deps) => HandlerOf<Path> | HandlerOf<Path>[];
};

export function defineRoute<Path extends string, Deps>({ at, ...route }: RouteDefinition<Path, Deps>) {
  const [method, path] = at.split(' ') as [string, Path];
  return { ...route, method: method.toLowerCase(), path } as unknown as Route<Deps>;
}

/** @param guardsOf handlers that run before a route, in the same layer */
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
  /** By media type; null for plain text. Omitted if there is no body. */
  content?: Record<string, z.ZodType | null>;
  headers?: ResponseHeader[];
}

export const json = (description: string, schema: z.ZodType, headers?: ResponseHeader[]) => ({
  description,
  content: { 'application/json': schema },
  ...(headers ? { headers } : {}),
});

/** 304 if the caller's copy is current. */
export const conditional = (
  description: string,
  schema: z.ZodType,
  unchanged = 'The cached copy is current.',
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
  credential?: Credential;
  params?: Record<string, string>;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: unknown;
  /** Sent as is, instead of `body`. */
  rawBody?: string;
  paddedToBytes?: number;
}

export interface Example {
  /** CamelCase, unique within its route. */
  name: string;
  summary: string;
  /** Default: the service's normal state. */
  circumstance?: Circumstance;
  before?: ExampleRequest[];
  request: ExampleRequest;
  /** Default: the lowest status of `responses`. */
  status?: number;
  /** The whole JSON body, or part of a text body. */
  answer?: unknown;
  answerHeaders?: Record<string, string>;
}

/** `shown` stands for it in the document. */
class ShownValue<Shown> {
  readonly shown: Shown;
  constructor(shown: Shown) {
    this.shown = shown;
  }
  toJSON(): Shown {
    return this.shown;
  }
}

/** Differs with each call. */
export class Generated extends ShownValue<string> {}

export const generated = (shown: string) => new Generated(shown);

export class Excerpt extends ShownValue<Record<string, unknown>> {}

export class Beginning extends ShownValue<unknown[]> {}

/** The document shows only the first item. */
export class Repeated extends ShownValue<unknown[]> {
  override toJSON(): unknown[] {
    return this.shown.slice(0, 1);
  }
}
