import {
  AppError,
  type AppErrorOptions,
  type ErrorCode,
  type ErrorPlace,
  type ProblemMembers,
} from '../errors.js';
import { toProblem } from '../http/problem.js';
import { parseInput } from '../http/validate.js';
import {
  generated,
  type Example,
  type ExampleRequest,
  type Generated,
  type RouteDescription,
  type RouteProse,
} from './define-route.js';
import { asShown } from './example-prose.js';
import { exampleWorld } from './example-world.js';
import type { DescribedRoute, Reference, Refusal, ScopeExamples, SentRequest } from './described.js';
import type { Circumstance, Credential } from './names.js';

export interface ProblemExample {
  summary: string;
  detail: string | Generated;
  at?: string;
  index?: number;
  /** Default: `at`. */
  lead?: string;
  errors?: ErrorPlace[];
  members?: ProblemMembers;
  request: ExampleRequest;
  name?: string;
  circumstance?: Circumstance;
  before?: ExampleRequest[];
}

const requestId = generated('9f0c1d3e-5b7a-4c86-a2d4-1f0e5a2b7c31');

/** `describeRoute` fills in the schema's error. */
class SchemaAnswer {
  readonly code = 'invalid_request';
}

export const invalidExample = (
  summary: string,
  request: ExampleRequest,
  name = 'invalidRequest',
): Example => ({ name, summary, request, status: 400, answer: new SchemaAnswer() });

const textOf = (detail: string | Generated): string => (typeof detail === 'string' ? detail : detail.shown);

export function problemExample(
  code: ErrorCode,
  { detail, at, index, lead = at, name, errors, members, ...rest }: ProblemExample,
): Example {
  const places =
    at === undefined
      ? errors
      : [{ ...(index !== undefined && { index }), pointer: at, code, detail: textOf(detail) }];
  const shown = lead === undefined ? detail : `${lead} ${textOf(detail)}`;
  return {
    name: name ?? code.replace(/_(\w)/g, (_match, letter: string) => letter.toUpperCase()),
    ...rest,
    answer: new ProblemAnswer(code, shown, {
      ...(places && { errors: places }),
      ...(members && { members }),
    }),
  };
}

/** `describeRoute` fills in the status. */
class ProblemAnswer {
  readonly code: ErrorCode;
  readonly detail: string | Generated;
  readonly options: Pick<AppErrorOptions, 'errors' | 'members'>;
  constructor(code: ErrorCode, detail: string | Generated, options: ProblemAnswer['options']) {
    this.code = code;
    this.detail = detail;
    this.options = options;
  }
}

export function describeRoute(
  { moreExamples, ...description }: RouteDescription,
  prose: RouteProse,
  { limits, scopes, statuses }: Pick<Reference, 'limits' | 'scopes' | 'statuses'>,
): DescribedRoute {
  const good = goodRequest(prose);
  const examples = [...prose.examples, ...(moreExamples?.(good) ?? [])];
  const route = { ...description, ...prose, examples };
  const { errors = [] } = route;
  const scope = route.scope ? scopes[route.scope] : undefined;
  const parts = [
    inputProblems(route, good),
    bodyProblems(route, good),
    credentialProblems(route, scope, good),
    limitProblems(route, route.limit && limits[route.limit], { scope, good }),
  ];
  const derived = [...parts.flat(), ...serviceProblems(route, good)];
  const send = (request: ExampleRequest): SentRequest => ({
    credential: usualCredential(route, scope),
    ...request,
  });
  const lowest = Math.min(...Object.keys(route.responses).map(Number));
  const names = new Set(examples.map(({ name }) => name));
  const bodyOf = (answer: unknown, request: ExampleRequest): unknown => {
    if (answer instanceof SchemaAnswer) return answerOfSchema(route, request);
    if (!(answer instanceof ProblemAnswer)) return answer;
    const { code, detail, options } = answer;
    return { ...toProblem(new AppError(code, '', options), statuses[code], ''), detail, requestId };
  };
  const ownCodes = [...errors, ...examples.flatMap(codesOf)];
  const codes = [
    ...ownCodes.filter((code) => code === 'invalid_request'),
    ...parts.flat().flatMap(codesOf),
    ...ownCodes,
    ...(usesDatabase(route) ? databaseCodes : []),
    ...(mayBeUnavailable(route) ? (['clock_off'] as const) : []),
  ];
  return {
    ...route,
    statuses,
    errors: [...new Set(codes)],
    examples: [...examples, ...derived.filter(({ name }) => !names.has(name))].map(
      ({ request, before, status = lowest, answer, answerHeaders, ...rest }) => ({
        ...rest,
        request: send(request),
        ...(before ? { before: before.map(send) } : {}),
        response: {
          status: answer instanceof ProblemAnswer ? statuses[answer.code] : status,
          body: bodyOf(answer, request),
          ...(answerHeaders ? { headers: answerHeaders } : {}),
        },
      }),
    ),
  };
}

function goodRequest({ good, examples }: RouteProse): ExampleRequest {
  const { query: _query, ...first } = examples[0]!.request;
  return good ?? first;
}

function usualCredential({ credential }: RouteDescription, scope: ScopeExamples | undefined): Credential {
  if (credential === 'session') return 'ownerSession';
  return credential === 'apiKey' ? (scope?.holder ?? 'liveKey') : credential;
}

function codesOf({ status = 200, answer }: Example): ErrorCode[] {
  const { code } = (answer ?? {}) as { code?: ErrorCode };
  return (status >= 400 || answer instanceof ProblemAnswer) && code !== undefined ? [code] : [];
}

const usesDatabase = ({ usesDatabase: uses, credential }: RouteDescription) => uses ?? credential !== 'none';

const mayBeUnavailable = (route: RouteDescription): boolean =>
  usesDatabase(route) || (route.errors ?? []).includes('unavailable');

const databaseCodes: ErrorCode[] = ['unavailable', 'internal'];

export const CLOCK_OFF = "This instance's clock is 3600 s behind the database's.";

function serviceProblems(route: RouteDescription, request: ExampleRequest): Example[] {
  const problem = (code: ErrorCode, circumstance: Circumstance, summary: string, detail: string) =>
    problemExample(code, { summary, circumstance, detail, request });
  if (!mayBeUnavailable(route)) return [];
  const clockOff = problem('clock_off', 'clock_off', 'The clock of the instance is wrong', CLOCK_OFF);
  const draining = 'This instance is shutting down.';
  if (!usesDatabase(route))
    return [problem('unavailable', 'draining', 'The service is shutting down', draining), clockOff];
  const unreachable = 'The database cannot be reached';
  const defect = 'Something went wrong on our side. Quote the request id when you report it.';
  return [
    problem('unavailable', 'database_unreachable', unreachable, `${unreachable} at the moment.`),
    problem('internal', 'defect', 'An internal error', defect),
    clockOff,
  ];
}

/** Unless the route already has its own example of invalid input. */
function inputProblems(route: RouteDescription & RouteProse, good: ExampleRequest): Example[] {
  const { query, body, examples } = route;
  const colour = 'red';
  const derived =
    query || body?.mediaType !== undefined
      ? invalidExample('An unknown parameter', { ...good, query: { colour } })
      : invalidExample('An unknown field', { ...good, body: { ...(good.body as object), colour } });
  const isKnown = examples.some(({ name }) => name === derived.name);
  return !isKnown && refusalOf(route, derived.request) ? [derived] : [];
}

function answerOfSchema(route: RouteDescription, request: ExampleRequest): object {
  const refusal = refusalOf(route, request);
  if (!refusal) throw new Error(`${route.path} accepts the input of an example that it is to refuse.`);
  return { ...toProblem(refusal, 400, ''), requestId };
}

function refusalOf({ query, body }: RouteDescription, request: ExampleRequest): AppError | undefined {
  const [schema, input] = request.query ? [query, request.query] : [body?.schema, request.body];
  try {
    if (schema) parseInput(schema, asShown(input));
    return undefined;
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
}

function bodyProblems({ body: described }: RouteDescription, request: ExampleRequest): Example[] {
  if (!described || described.mediaType !== undefined) return [];
  const { body: _body, ...withoutBody } = request;
  const { maxBytes } = described;
  return [
    problemExample('invalid_json', {
      summary: 'A body that is not JSON',
      // The parser's message differs between versions.
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

function credentialProblems(route: RouteDescription, scope: ScopeExamples | undefined, good: ExampleRequest) {
  const { credential, errors = [] } = route;
  if (credential === 'apiKey')
    return [
      ...keyProblems(good, ownKey),
      ...(scope ? [lacksScope(good, route.scope!, scope.outsider), ...(scope.refusals?.(good) ?? [])] : []),
    ];
  if (credential === 'serviceKey') return serviceKeyProblems(good, route);
  if (credential === 'operator') return operatorProblems(good);
  const crossSite = crossSiteProblem(good);
  if (credential === 'none' || route.isCredentialOptional)
    return errors.includes('cross_site_request') ? [crossSite] : [];
  return [...sessionProblems(good), ...(route.method === 'get' ? [] : [crossSite])];
}

interface KeyWords {
  send: string;
  query: Record<string, string>;
  credentials: Record<'own' | 'unknown' | 'expired' | 'revoked', Credential>;
}

const ownKey: KeyWords = {
  send: 'Send the API key as `Authorization: Bearer org_live_…`.',
  query: { api_key: exampleWorld.unknownSecret },
  credentials: { own: 'liveKey', unknown: 'unknownKey', expired: 'expiredKey', revoked: 'revokedKey' },
};

const serviceKey: KeyWords = {
  send: 'Send the service key as `Authorization: Bearer service_live_…`.',
  query: { token: 'any' },
  credentials: {
    own: 'serviceKey',
    unknown: 'unknownServiceKey',
    expired: 'expiredServiceKey',
    revoked: 'revokedServiceKey',
  },
};

/** Makes examples of refusals, each of `good` with the changes. */
const refusalsOf =
  (good: ExampleRequest) =>
  (code: ErrorCode, summary: string, detail: string, changes: ExampleRequest, name?: string): Example =>
    problemExample(code, { summary, detail, request: { ...good, ...changes }, ...(name && { name }) });

function keyProblems(good: ExampleRequest, { send, query, credentials }: KeyWords): Example[] {
  const refuse = refusalsOf(good);
  const cookieDetail = 'Call this route with a key only, without the session cookie.';
  const urlDetail = 'Send the key in the Authorization header. URLs are stored in logs.';
  return [
    refuse('session_cookie_not_allowed', 'A session cookie in addition to the key', cookieDetail, {
      credential: credentials.own,
      headers: { ...good.headers, cookie: 'gauge_session=any' },
    }),
    refuse('key_in_query_string', 'The key in the URL', urlDetail, {
      credential: 'none',
      query: { ...good.query, ...query },
    }),
    refuse('missing_key', 'No key', send, { credential: 'none' }),
    refuse('invalid_key', 'A key that does not exist', 'There is no such key.', {
      credential: credentials.unknown,
    }),
    refuse('key_expired', 'An expired key', 'This key has expired.', { credential: credentials.expired }),
    refuse('key_revoked', 'A revoked key', 'This key has been revoked.', { credential: credentials.revoked }),
  ];
}

function serviceKeyProblems(good: ExampleRequest, { params, scope }: RouteDescription): Example[] {
  const refuse = refusalsOf(good);
  const detail = 'This is the API key of an Organization. Call /api/… with it.';
  const nobody = { params: { ...good.params, slug: 'nobody' } };
  const unknown = 'There is no Organization "nobody".';
  return [
    ...keyProblems(good, serviceKey),
    refuse('invalid_key', "An Organization's own key", detail, { credential: 'liveKey' }, 'ownKey'),
    lacksScope(good, scope!, 'narrowServiceKey'),
    ...(params && 'slug' in params.shape
      ? [refuse('not_found', 'An unknown Organization', unknown, nobody, 'unknownOrganization')]
      : []),
  ];
}

const lacksScope = (good: ExampleRequest, scope: string, credential: Credential): Example =>
  problemExample('insufficient_scope', {
    summary: 'A key without the scope',
    detail: `This key does not have the scope ${scope}.`,
    request: { ...good, credential },
  });

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
  const refuse = refusalsOf(good);
  const wrong: ExampleRequest = { ...good, credential: 'wrongOperator' };
  const howToSend = 'Send the operator token as `Authorization: Bearer …`.';
  return [
    refuse('missing_key', 'No token', howToSend, { credential: 'none' }),
    refuse('invalid_key', 'A wrong token', 'This is not the operator token.', wrong),
    problemExample('rate_limited', {
      summary: 'After 30 wrong tokens from an address in a minute',
      circumstance: 'limit_used_up',
      before: Array.from({ length: 30 }, () => wrong),
      detail: 'Too many calls from this address did not have a valid operator token.',
      request: wrong,
    }),
  ];
}

function limitProblems(
  { credential }: RouteDescription,
  refusal: Refusal | undefined,
  { scope, good }: { scope: ScopeExamples | undefined; good: ExampleRequest },
): Example[] {
  if (!refusal) return [];
  const { summary, detail, calls = 1 } = refusal;
  const key = scope ? (scope.limited ?? scope.holder) : 'unknownKey';
  const request = credential === 'apiKey' ? { ...good, credential: key } : good;
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
