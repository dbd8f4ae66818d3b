import type { z } from 'zod';
import type { ErrorCode, StatusByCode } from '../errors.js';
import type { Example, ExampleRequest, RouteDescription } from './define-route.js';
import type { ErrorGuide, Guide } from './error-guide.js';
import type { Circumstance, Credential, Limit, Scope, Tag } from './names.js';

export interface SentRequest extends ExampleRequest {
  credential: Credential;
}

export interface SentExample extends Pick<Example, 'name' | 'summary' | 'circumstance'> {
  request: SentRequest;
  before?: SentRequest[];
  response: { status: number; body?: unknown; headers?: Record<string, string> };
}

export interface DescribedRoute extends Omit<RouteDescription, 'examples'> {
  /** Every code that a caller may meet, each with at least one of `examples`. */
  errors: ErrorCode[];
  /** HTTP status of every code of the service. */
  statuses: StatusByCode;
  examples: SentExample[];
}

export interface DescribedWebhook {
  type: string;
  summary: string;
  description: string;
  schema: z.ZodObject;
  example: { type: string; timestamp: string; data: Record<string, unknown> };
}

/** Text of the 429 of a limit. Limits without one have their own examples at their routes. */
export interface Refusal {
  summary: string;
  detail: string;
  /** Calls before the refused one; default: 1. */
  calls?: number;
}

/** Keys of the examples for routes that need a scope. */
export interface ScopeExamples {
  holder: Credential;
  /** Key that uses up the limit; default: the holder. */
  limited?: Credential;
  outsider: Credential;
  /** Further refusals of every route with the scope. */
  refusals?: (good: ExampleRequest) => Example[];
}

/** What accounts, a product or the shell adds to the reference. */
export interface ReferencePart {
  /** About each group of routes, in Markdown and in reading order. */
  tags?: Partial<Record<Tag, string>>;
  routes: readonly RouteDescription[];
  /** HTTP statuses of the codes that the part adds. */
  statuses?: Partial<StatusByCode>;
  /** A part may also add sentences to the guide of a code that another part explains. */
  errors?: ErrorGuide;
  credentials?: Partial<Record<Credential, string>>;
  circumstances?: Partial<Record<Circumstance, string>>;
  limits?: Partial<Record<Limit, Refusal>>;
  scopes?: Partial<Record<Scope, ScopeExamples>>;
}

/** All parts of a service, joined. */
export interface Reference {
  introduction: string;
  tags: Record<Tag, string>;
  routes: DescribedRoute[];
  webhooks: readonly DescribedWebhook[];
  statuses: StatusByCode;
  errors: Record<ErrorCode, Required<Guide>>;
  credentials: Record<Credential, string>;
  circumstances: Record<Circumstance, string>;
  limits: Partial<Record<Limit, Refusal>>;
  scopes: Record<Scope, ScopeExamples>;
}
