import type { Scope } from '../auth/key-reader.js';
import { AppError, type ErrorCode, type ErrorPlace } from '../errors.js';
import { toProblem } from '../http/problem.js';
import {
  generated,
  type Circumstance,
  type Example,
  type ExampleRequest,
  type Generated,
} from './description.js';
import { exampleWorld } from './example-world.js';

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

/** What every route for API keys answers to a call whose key is not good for it. */
export function apiKeyProblems(scope: Scope | null): ErrorCode[] {
  const codes: ErrorCode[] = [
    'session_cookie_not_allowed',
    'key_in_query_string',
    'missing_key',
    'invalid_key',
    'key_expired',
    'key_revoked',
  ];
  return scope === null ? codes : [...codes, 'insufficient_scope'];
}

/** @param request a request that would succeed with a good key */
export function apiKeyProblemExamples(
  request: Omit<ExampleRequest, 'credential'>,
  scope: Scope | null,
): Example[] {
  const examples = [
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
  ];
  if (scope === null) return examples;
  const lacking = problemExample('insufficient_scope', {
    summary: 'A key without the scope',
    detail: `This API key does not have the scope ${scope}.`,
    request: { ...request, credential: scope === 'usage:write' ? 'readerKey' : 'usageKey' },
  });
  return [...examples, lacking];
}
