import type { ErrorCode } from '../errors.js';
import type { Scope } from '../scopes.js';
import type { Example, ExampleRequest, RouteDescription } from './define-route.js';
import type { DescribedWebhook } from './document.js';
import { commonGuide, joinGuides, type ErrorGuide, type Guide } from './error-guide.js';
import { describeRoute, type DescribedRoute } from './problem-examples.js';
import type { Circumstance, Credential, Limit, Tag } from './names.js';

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
  errors: Record<ErrorCode, Required<Guide>>;
  credentials: Record<Credential, string>;
  circumstances: Record<Circumstance, string>;
  limits: Partial<Record<Limit, Refusal>>;
  scopes: Record<Scope, ScopeExamples>;
}

const commonPart: ReferencePart = {
  routes: [],
  errors: commonGuide,
  circumstances: {
    limit_used_up: 'the limit is used up',
    database_unreachable: 'the database cannot be reached',
    defect: 'the service meets a defect of its own',
    draining: 'the service is shutting down',
    metrics_protected: 'METRICS_TOKEN is set',
  },
  limits: {
    // Guessing keys is limited even where keys are not.
    'bad-keys': {
      summary: 'After 300 calls with bad keys from an address within a minute',
      detail: 'Too many calls from your address had an API key that does not exist or is no longer valid.',
      calls: 300,
    },
    documents: {
      summary: 'More requests for documents in a minute than an address may make',
      detail: 'Your address may make 300 requests for documents a minute.',
    },
  },
};

export const callsPerKey = (calls: string): Refusal => ({
  summary: 'More calls in a minute than the key may make',
  detail: `This API key may make ${calls} calls a minute.`,
});

/** Joins the parts. Their order is the reading order of the groups, and within a group of the routes. */
export function joinReference(
  { introduction, webhooks }: Pick<Reference, 'introduction' | 'webhooks'>,
  ownParts: readonly ReferencePart[],
): Reference {
  const parts = [commonPart, ...ownParts];
  const joined = {
    introduction,
    webhooks,
    tags: join(parts, 'tags'),
    errors: joinGuides(parts.map(({ errors = {} }) => errors)),
    credentials: join(parts, 'credentials'),
    circumstances: join(parts, 'circumstances'),
    limits: join(parts, 'limits'),
    scopes: join(parts, 'scopes'),
  } as Omit<Reference, 'routes'>;
  const order = Object.keys(joined.tags);
  const routes = parts
    .flatMap((part) => part.routes)
    .toSorted((a, b) => order.indexOf(a.tag) - order.indexOf(b.tag));
  return { ...joined, routes: routes.map((route) => describeRoute(route, joined)) };
}

const join = (parts: readonly ReferencePart[], name: keyof ReferencePart): object =>
  Object.assign({}, ...parts.map((part) => part[name]));
