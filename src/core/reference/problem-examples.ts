import type { Scope } from '../../api-keys/key-reader.js';
import { AppError, type ErrorCode, type ErrorPlace } from '../errors.js';
import { toProblem } from '../http/problem.js';
import {
  generated,
  type Circumstance,
  type Example,
  type ExampleRequest,
  type Generated,
} from './description.js';
import { exampleWorld, type Credential } from './example-world.js';

interface ProblemExample {
  summary: string;
  detail: string | Generated;
  errors?: ErrorPlace[];
  request: ExampleRequest;
  /** Left out: the code in camelCase. */
  name?: string;
  circumstance?: Circumstance;
  before?: ExampleRequest[];
}

/** A request and the problem it is answered with. */
export function problemExample(code: ErrorCode, { detail, errors, name, ...rest }: ProblemExample): Example {
  const problem = toProblem(new AppError(code, '', errors ? { errors } : {}), '');
  const requestId = generated('9f0c1d3e-5b7a-4c86-a2d4-1f0e5a2b7c31');
  return {
    name: name ?? code.replace(/_(\w)/g, (_match, letter: string) => letter.toUpperCase()),
    ...rest,
    response: { status: problem.status, body: { ...problem, detail, requestId } },
  };
}

/** What every route answers when the database is away, and when it meets a defect of its own. */
export const serviceProblems: ErrorCode[] = ['unavailable', 'internal'];

export function serviceProblemExamples(request: ExampleRequest): Example[] {
  return [
    problemExample('unavailable', {
      summary: 'The database cannot be reached',
      circumstance: 'database_unreachable',
      detail: 'The database cannot be reached at the moment.',
      request,
    }),
    problemExample('internal', {
      summary: 'A defect of the service',
      circumstance: 'defect',
      detail: 'Something went wrong on our side. The request id finds it in the log.',
      request,
    }),
  ];
}

/** What every route with a JSON body answers to one that cannot be read. */
export const bodyProblems: ErrorCode[] = ['invalid_json', 'body_too_large', 'unsupported_media_type'];

/** @param request a request that would succeed */
export function bodyProblemExamples(request: ExampleRequest, maxBytes: number): Example[] {
  const { body: _body, ...withoutBody } = request;
  return [
    problemExample('invalid_json', {
      summary: 'A body that is not JSON',
      // The parser's words, which change with its version.
      detail: generated('The body is not valid JSON: Unexpected token \'n\', "no JSON" is not valid JSON'),
      request: { ...withoutBody, rawBody: 'no JSON' },
    }),
    problemExample('body_too_large', {
      summary: `More than ${maxBytes.toLocaleString('en')} bytes`,
      detail: `The body is larger than ${maxBytes.toLocaleString('en')} bytes.`,
      request: { ...request, paddedToBytes: maxBytes + 1 },
    }),
    problemExample('unsupported_media_type', {
      summary: 'A body that is not declared as JSON',
      detail: 'Send the body as UTF-8 JSON with `Content-Type: application/json`.',
      request: { ...request, headers: { ...request.headers, 'content-type': 'text/plain' } },
    }),
  ];
}

/** What every route for API keys answers to a call whose key is not good for it, or that comes too often. */
export function apiKeyProblems(scope: Scope | null): ErrorCode[] {
  const codes: ErrorCode[] = [
    'session_cookie_not_allowed',
    'key_in_query_string',
    'missing_key',
    'invalid_key',
    'key_expired',
    'key_revoked',
  ];
  return [...codes, ...(scope === null ? [] : (['insufficient_scope'] as const)), 'rate_limited'];
}

/** @param request a request that would succeed with a good key */
export function apiKeyProblemExamples(
  request: Omit<ExampleRequest, 'credential'>,
  scope: Scope | null,
): Example[] {
  return [
    problemExample('session_cookie_not_allowed', {
      summary: 'A session cookie beside the key',
      detail: 'Call this route with an API key alone, without the session cookie.',
      request: {
        ...request,
        credential: 'liveKey',
        headers: { ...request.headers, cookie: 'gauge_session=any' },
      },
    }),
    problemExample('key_in_query_string', {
      summary: 'The key in the address',
      detail: 'Send the API key in the Authorization header; addresses end up in logs.',
      request: {
        ...request,
        credential: 'none',
        query: { ...request.query, api_key: exampleWorld.unknownSecret },
      },
    }),
    problemExample('missing_key', {
      summary: 'No key',
      detail: 'Send the API key as `Authorization: Bearer org_live_…`.',
      request: { ...request, credential: 'none' },
    }),
    problemExample('invalid_key', {
      summary: 'A key that does not exist',
      detail: 'There is no such API key.',
      request: { ...request, credential: 'unknownKey' },
    }),
    problemExample('key_expired', {
      summary: 'An expired key',
      detail: 'This API key has expired.',
      request: { ...request, credential: 'expiredKey' },
    }),
    problemExample('key_revoked', {
      summary: 'A revoked key',
      detail: 'This API key has been revoked.',
      request: { ...request, credential: 'revokedKey' },
    }),
    ...(scope === null ? [badKeysExample(request)] : scopeProblemExamples(request, scope)),
  ];
}

/** A key of the example world that has the scope, and the limit of the calls that need it. */
const byScope: Record<Scope, { key: Credential; limit: string }> = {
  'usage:write': { key: 'usageKey', limit: '600 usage' },
  'entitlements:read': { key: 'readerKey', limit: '1200 entitlements' },
  'trading:read': { key: 'traderKey', limit: '600 trading' },
  'trading:write': { key: 'traderKey', limit: '600 trading' },
};

function scopeProblemExamples(request: Omit<ExampleRequest, 'credential'>, scope: Scope): Example[] {
  const { key, limit } = byScope[scope];
  const good: ExampleRequest = { ...request, credential: key };
  return [
    problemExample('insufficient_scope', {
      summary: 'A key without the scope',
      detail: `This API key does not have the scope ${scope}.`,
      request: { ...request, credential: key === 'usageKey' ? 'readerKey' : 'usageKey' },
    }),
    problemExample('rate_limited', {
      summary: 'More calls in a minute than the key may make',
      circumstance: 'limit_used_up',
      before: [good],
      detail: generated(`This API key may make ${limit} calls a minute. Try again in 42 s.`),
      request: good,
    }),
  ];
}

/** Where keys are not limited, guessing them is. */
function badKeysExample(request: Omit<ExampleRequest, 'credential'>): Example {
  const guess: ExampleRequest = { ...request, credential: 'unknownKey' };
  return problemExample('rate_limited', {
    summary: 'After 300 calls with bad keys from an address within a minute',
    circumstance: 'limit_used_up',
    before: Array.from({ length: 300 }, () => guess),
    detail: generated(
      'Too many calls from your address had an API key that does not exist or is no longer good. Try again in 42 s.',
    ),
    request: guess,
  });
}

/** What every route of the dashboard answers to a person who may not use it, or to another site. */
export const sessionProblems = (isChange: boolean): ErrorCode[] => [
  'not_signed_in',
  'forbidden_role',
  'rate_limited',
  ...(isChange ? (['cross_site_request'] as const) : []),
];

/** @param request a request that an owner's session would succeed with */
export function sessionProblemExamples(
  request: Omit<ExampleRequest, 'credential'>,
  isChange: boolean,
): Example[] {
  const examples = [
    problemExample('not_signed_in', {
      summary: 'No session, or one that has ended',
      detail: 'Sign in first, at /login.',
      request: { ...request, credential: 'none' },
    }),
    problemExample('forbidden_role', {
      name: 'noOrganization',
      summary: 'Signed in, but a member of no Organization',
      detail: 'You do not belong to an Organization. Ask an owner or admin of yours to add you.',
      request: { ...request, credential: 'newcomerSession' },
    }),
  ];
  const good: ExampleRequest = { ...request, credential: 'ownerSession' };
  examples.push(
    problemExample('rate_limited', {
      name: 'sessionLimit',
      summary: 'More requests in a minute than a session may make',
      circumstance: 'limit_used_up',
      before: [good, good],
      detail: generated('This session may make 300 requests a minute. Try again in 42 s.'),
      request: good,
    }),
  );
  if (!isChange) return examples;
  const foreign = problemExample('cross_site_request', {
    summary: 'Sent from another site',
    detail: 'Changes are accepted from this site’s own pages only.',
    request: {
      ...request,
      credential: 'ownerSession',
      headers: { ...request.headers, 'sec-fetch-site': 'cross-site' },
    },
  });
  return [...examples, foreign];
}

/** What every route for the operator answers to a stranger. */
export const operatorProblems: ErrorCode[] = ['missing_key', 'invalid_key', 'rate_limited'];

/** @param request a request that would succeed with the operator token */
export function operatorProblemExamples(request: Omit<ExampleRequest, 'credential'>): Example[] {
  const wrong: ExampleRequest = { ...request, credential: 'wrongOperator' };
  return [
    problemExample('missing_key', {
      summary: 'No token',
      detail: 'Send the operator token as `Authorization: Bearer …`.',
      request: { ...request, credential: 'none' },
    }),
    problemExample('invalid_key', {
      summary: 'A wrong token',
      detail: 'This is not the operator token.',
      request: wrong,
    }),
    problemExample('rate_limited', {
      summary: 'After 30 wrong tokens from an address within a minute',
      circumstance: 'limit_used_up',
      before: Array.from({ length: 30 }, () => wrong),
      detail: 'Too many calls from this address had no valid operator token.',
      request: wrong,
    }),
  ];
}
