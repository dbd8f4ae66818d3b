import type { z } from 'zod';
import type { ErrorCode, StatusByCode } from '../errors.js';
import type { Example, ExampleRequest, RouteDescription, RouteProse } from './define-route.js';
import type { Guide } from './error-guide.js';
import type { Circumstance, Credential, Limit, Scope, Tag } from './names.js';

export interface SentRequest extends ExampleRequest {
  credential: Credential;
}

export interface SentExample extends Pick<Example, 'name' | 'summary' | 'circumstance'> {
  request: SentRequest;
  before?: SentRequest[];
  response: { status: number; body?: unknown; headers?: Record<string, string> };
}

export interface DescribedRoute extends Omit<RouteDescription, 'moreExamples'>, Omit<RouteProse, 'examples'> {
  /** At least one example for each. */
  errors: ErrorCode[];
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

/** If a limit has none, its routes must provide their own examples. */
export interface Refusal {
  summary: string;
  detail: string;
  calls?: number;
}

export interface ScopeExamples {
  holder: Credential;
  /** Exhausts the limit; default: the holder. */
  limited?: Credential;
  outsider: Credential;
  refusals?: (good: ExampleRequest) => Example[];
}

export interface ReferencePart {
  /** In Markdown and in reading order. */
  tags?: Partial<Record<Tag, string>>;
  routes: readonly RouteDescription[];
  statuses?: Partial<StatusByCode>;
  /** `errors.yaml`, which may also add sentences to another part's guide to a code. */
  errors?: URL;
  credentials?: Partial<Record<Credential, string>>;
  circumstances?: Partial<Record<Circumstance, string>>;
  limits?: Partial<Record<Limit, Refusal>>;
  scopes?: Partial<Record<Scope, ScopeExamples>>;
}

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
