import { AppError, type ErrorCode, type ErrorPlace } from '../errors.js';
import { toProblem } from '../http/problem.js';
import { isOfMarkets, type Scope } from '../scopes.js';
import {
  generated,
  type Circumstance,
  type Example,
  type ExampleRequest,
  type Generated,
  type Limit,
  type RouteDescription,
} from './define-route.js';
import { exampleWorld, type Credential } from './example-world.js';

interface ProblemExample {
  summary: string;
  detail: string | Generated;
  at?: string;
  index?: number;
  /** Text before `detail` in the complete message; default: `at`. */
  lead?: string;
  errors?: ErrorPlace[];
  limit?: object;
  request: ExampleRequest;
  name?: string;
  circumstance?: Circumstance;
  before?: ExampleRequest[];
}

const textOf = (detail: string | Generated): string => (typeof detail === 'string' ? detail : detail.shown);

export function problemExample(
  code: ErrorCode,
  { detail, at, index, lead = at, name, errors, limit, ...rest }: ProblemExample,
): Example {
  const places =
    at === undefined
      ? errors
      : [
          {
            ...(index === undefined ? {} : { index }),
            pointer: at,
            code,
            detail: textOf(detail),
          },
        ];
  const problem = toProblem(
    new AppError(code, '', { ...(places ? { errors: places } : {}), ...(limit ? { limit } : {}) }),
    '',
  );
  const shown = lead === undefined ? detail : `${lead} ${textOf(detail)}`;
  const requestId = generated('9f0c1d3e-5b7a-4c86-a2d4-1f0e5a2b7c31');
  return {
    name: name ?? code.replace(/_(\w)/g, (_match, letter: string) => letter.toUpperCase()),
    ...rest,
    status: problem.status,
    answer: { ...problem, detail: shown, requestId },
  };
}

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
  examples: SentExample[];
}

/** Adds the codes and examples that follow from the route's body, credential, limit and use of the database. */
export function describeRoute(route: RouteDescription): DescribedRoute {
  const { errors = [], examples } = route;
  const good = goodRequest(route);
  const parts = [bodyProblems(route, good), credentialProblems(route, good), limitProblems(route, good)];
  const derived = [...parts.flat(), ...serviceProblems(route, good)];
  const send = (request: ExampleRequest): SentRequest => ({ credential: usualCredential(route), ...request });
  const lowest = Math.min(...Object.keys(route.responses).map(Number));
  const names = new Set(examples.map(({ name }) => name));
  const codes = [
    ...errors.filter((code) => code === 'invalid_request'),
    ...parts.flat().map(codeOf),
    ...errors,
    ...(usesDatabase(route) ? databaseCodes : []),
  ];
  return {
    ...route,
    errors: [...new Set(codes)],
    examples: [...examples, ...derived.filter(({ name }) => !names.has(name))].map(
      ({ request, before, status = lowest, answer, answerHeaders, ...rest }) => ({
        ...rest,
        request: send(request),
        ...(before ? { before: before.map(send) } : {}),
        response: { status, body: answer, ...(answerHeaders ? { headers: answerHeaders } : {}) },
      }),
    ),
  };
}

export function goodRequest({ good, examples }: Pick<RouteDescription, 'good' | 'examples'>): ExampleRequest {
  const { query: _query, ...first } = examples[0]!.request;
  return good ?? first;
}

function usualCredential({ credential, scope }: RouteDescription): Credential {
  if (credential === 'session') return 'ownerSession';
  if (credential !== 'apiKey') return credential;
  if (scope === 'usage:correct') return 'correctorKey';
  return scope?.startsWith('trading') ? 'traderKey' : 'liveKey';
}

const codeOf = ({ answer }: Example): ErrorCode => (answer as { code: ErrorCode }).code;

const usesDatabase = ({ usesDatabase: uses, credential }: RouteDescription): boolean =>
  uses ?? credential !== 'none';

const databaseCodes: ErrorCode[] = ['unavailable', 'internal'];

/** Answers of every route if the database is away, after an internal error, and before the first market data. */
function serviceProblems(route: RouteDescription, request: ExampleRequest): Example[] {
  const { errors = [] } = route;
  const databaseProblems = [
    problemExample('unavailable', {
      summary: 'The database cannot be reached',
      circumstance: 'database_unreachable',
      detail: 'The database cannot be reached at the moment.',
      request,
    }),
    problemExample('internal', {
      summary: 'An internal error',
      circumstance: 'defect',
      detail: 'Something went wrong on our side. Quote the request id when you report it.',
      request,
    }),
  ];
  const memoryProblems = [
    problemExample('unavailable', {
      summary: 'The service is shutting down',
      circumstance: 'draining',
      detail: 'This instance is shutting down.',
      request,
    }),
    problemExample('market_data_unavailable', {
      summary: 'No market data loaded yet',
      circumstance: 'no_market_data',
      detail: 'No market data has been loaded yet.',
      request,
    }),
  ];
  return usesDatabase(route)
    ? databaseProblems
    : memoryProblems.filter((example) => errors.includes(codeOf(example)));
}

function bodyProblems({ body: described }: RouteDescription, request: ExampleRequest): Example[] {
  if (!described || described.mediaType !== undefined) return [];
  const { body: _body, ...withoutBody } = request;
  const { maxBytes } = described;
  return [
    problemExample('invalid_json', {
      summary: 'A body that is not JSON',
      // The parser's message, which changes with its version.
      detail: generated('The body is not valid JSON: Unexpected token \'n\', "no JSON" is not valid JSON'),
      request: { ...withoutBody, rawBody: 'no JSON' },
    }),
    problemExample('body_too_large', {
      summary: `More than ${maxBytes.toLocaleString('en')} bytes`,
      detail: `The body is larger than ${maxBytes.toLocaleString('en')} bytes.`,
      request: { ...request, paddedToBytes: maxBytes + 1 },
    }),
    problemExample('unsupported_media_type', {
      summary: 'A body without a JSON content type',
      detail: 'Send the body as UTF-8 JSON with `Content-Type: application/json`.',
      request: { ...request, headers: { ...request.headers, 'content-type': 'text/plain' } },
    }),
  ];
}

function credentialProblems(route: RouteDescription, good: ExampleRequest): Example[] {
  const { credential, scope = null, errors = [] } = route;
  if (credential === 'apiKey') return [...keyProblems(good), ...(scope ? scopeProblems(good, scope) : [])];
  if (credential === 'operator') return operatorProblems(good);
  const crossSite = crossSiteProblem(good);
  if (credential === 'none' || route.isCredentialOptional)
    return errors.includes(codeOf(crossSite)) ? [crossSite] : [];
  return [...sessionProblems(good), ...(route.method === 'get' ? [] : [crossSite])];
}

const keyProblems = (good: ExampleRequest): Example[] => [
  problemExample('session_cookie_not_allowed', {
    summary: 'A session cookie in addition to the key',
    detail: 'Call this route with an API key only, without the session cookie.',
    request: {
      ...good,
      credential: 'liveKey',
      headers: { ...good.headers, cookie: 'gauge_session=any' },
    },
  }),
  problemExample('key_in_query_string', {
    summary: 'The key in the URL',
    detail: 'Send the API key in the Authorization header. URLs are stored in logs.',
    request: { ...good, credential: 'none', query: { ...good.query, api_key: exampleWorld.unknownSecret } },
  }),
  problemExample('missing_key', {
    summary: 'No key',
    detail: 'Send the API key as `Authorization: Bearer org_live_…`.',
    request: { ...good, credential: 'none' },
  }),
  problemExample('invalid_key', {
    summary: 'A key that does not exist',
    detail: 'There is no such API key.',
    request: { ...good, credential: 'unknownKey' },
  }),
  problemExample('key_expired', {
    summary: 'An expired key',
    detail: 'This API key has expired.',
    request: { ...good, credential: 'expiredKey' },
  }),
  problemExample('key_revoked', {
    summary: 'A revoked key',
    detail: 'This API key has been revoked.',
    request: { ...good, credential: 'revokedKey' },
  }),
];

const keyWith: Record<Scope, Credential> = {
  'usage:write': 'usageKey',
  'usage:read': 'liveKey',
  'usage:correct': 'correctorKey',
  'entitlements:read': 'readerKey',
  'trading:read': 'traderKey',
  'trading:write': 'traderKey',
};

const scopeProblems = (good: ExampleRequest, scope: Scope): Example[] => [
  problemExample('insufficient_scope', {
    summary: 'A key without the scope',
    detail: `This API key does not have the scope ${scope}.`,
    request: { ...good, credential: scope === 'usage:write' ? 'readerKey' : 'usageKey' },
  }),
  ...(isOfMarkets(scope)
    ? [
        problemExample('entitlement_required', {
          summary: 'A key of an Organization without access to markets',
          circumstance: 'no_market_access',
          detail:
            'The Organization of this API key has no access to markets. Ask the operator of this service for access.',
          request: good,
        }),
      ]
    : []),
];

function sessionProblems(good: ExampleRequest): Example[] {
  return [
    problemExample('not_signed_in', {
      summary: 'No session, or one that has ended',
      detail: 'Sign in first, at /login.',
      request: { ...good, credential: 'none' },
    }),
    problemExample('forbidden_role', {
      name: 'noOrganization',
      summary: 'Signed in, but a member of no Organization',
      detail: 'You do not belong to an Organization. Ask an owner or admin of your Organization to add you.',
      request: { ...good, credential: 'newcomerSession' },
    }),
    problemExample('rate_limited', {
      name: 'sessionLimit',
      summary: 'Too many requests from a session in a minute',
      circumstance: 'limit_used_up',
      before: [good, good],
      detail: generated('This session can make 300 requests a minute. Try again in 42 s.'),
      request: good,
    }),
  ];
}

const crossSiteProblem = (good: ExampleRequest): Example =>
  problemExample('cross_site_request', {
    summary: 'Sent from another site',
    detail: 'Changes are accepted only from this site’s own pages.',
    request: { ...good, headers: { ...good.headers, 'sec-fetch-site': 'cross-site' } },
  });

function operatorProblems(good: ExampleRequest): Example[] {
  const wrong: ExampleRequest = { ...good, credential: 'wrongOperator' };
  return [
    problemExample('missing_key', {
      summary: 'No token',
      detail: 'Send the operator token as `Authorization: Bearer …`.',
      request: { ...good, credential: 'none' },
    }),
    problemExample('invalid_key', {
      summary: 'A wrong token',
      detail: 'This is not the operator token.',
      request: wrong,
    }),
    problemExample('rate_limited', {
      summary: 'After 30 wrong tokens from an address in a minute',
      circumstance: 'limit_used_up',
      before: Array.from({ length: 30 }, () => wrong),
      detail: 'Too many calls from this address did not have a valid operator token.',
      request: wrong,
    }),
  ];
}

/** Texts of the 429 for each limit. The other limits have their own examples at their routes. */
const refusals: Partial<Record<Limit, { summary: string; detail: string; calls?: number }>> = {
  usage: perKey('600 usage'),
  entitlements: perKey('1200 entitlements'),
  trading: perKey('600 trading'),
  // Guessing keys is limited even where keys are not.
  'bad-keys': {
    summary: 'After 300 calls with bad keys from an address in a minute',
    detail: 'Too many calls from your address used an API key that does not exist or is no longer valid.',
    calls: 300,
  },
  reads: {
    summary: 'Too many reads from an address in a minute',
    detail: 'Your address can make 600 reads a minute.',
  },
  documents: {
    summary: 'Too many requests for documents from an address in a minute',
    detail: 'Your address can make 300 requests for documents a minute.',
  },
};

function perKey(calls: string) {
  return {
    summary: 'Too many calls with the key in a minute',
    detail: `This API key can make ${calls} calls a minute.`,
  };
}

function limitProblems({ limit, scope, credential }: RouteDescription, good: ExampleRequest): Example[] {
  const refusal = limit && refusals[limit];
  if (!refusal) return [];
  const { summary, detail, calls = 1 } = refusal;
  const request =
    credential === 'apiKey'
      ? { ...good, credential: scope ? keyWith[scope] : ('unknownKey' as const) }
      : good;
  return [
    problemExample('rate_limited', {
      summary,
      circumstance: 'limit_used_up',
      before: Array.from({ length: calls }, () => request),
      detail: generated(`${detail} Try again in 42 s.`),
      request,
    }),
  ];
}
