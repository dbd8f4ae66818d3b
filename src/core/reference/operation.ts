import type { RouteConfig } from '@asteasolutions/zod-to-openapi';
import { z } from 'zod';
import type { ErrorCode, StatusByCode } from '../errors.js';
import {
  asShown,
  bodyFormats,
  describeExample,
  requestBodyExamples,
  type ExampleWords,
} from './example-prose.js';
import { responseHeaders, type ResponseHeader } from './headers.js';
import type { DescribedRoute, Reference, SentExample } from './described.js';

/** `problemSchemaOf` reuses the result, because an OpenAPI document must not define a schema twice. */
function createProblemSchema(statuses: StatusByCode): z.ZodObject {
  const errorCode = z.enum(Object.keys(statuses) as [ErrorCode, ...ErrorCode[]]).meta({
    id: 'ErrorCode',
    description:
      'A stable error code for programs. Each code is explained at `/docs/errors#<code>`. New codes may be added.',
  });
  const errorPlaceSchema = z
    .object({
      index: z
        .int()
        .min(0)
        .optional()
        .meta({ description: 'The index of the list item, from 0, if the place is inside one.' }),
      pointer: z
        .string()
        .meta({ description: 'RFC 6901 JSON pointer into the request body; empty for the whole body.' }),
      code: errorCode,
      detail: z.string().meta({ description: 'What is wrong at this place, for people.' }),
    })
    .meta({ id: 'ErrorPlace', description: 'An invalid place in the request body.' });

  return z
    .object({
      type: z.string().meta({
        format: 'uri-reference',
        description: 'A link to the explanation of the code.',
      }),
      title: z.string().meta({ description: 'The HTTP status text, such as `Forbidden`.' }),
      status: z.int().min(400).max(599).meta({ description: 'The HTTP status.' }),
      code: errorCode,
      detail: z.string().meta({ description: 'What went wrong, for people. The wording may change.' }),
      requestId: z.string().meta({
        description: "The `X-Request-Id` of the response. It identifies the request in the service's log.",
      }),
      errors: z.array(errorPlaceSchema).optional().meta({
        description: 'Every invalid place, in the order of the body; present if places can be identified.',
      }),
      limit: z.record(z.string(), z.unknown()).optional().meta({
        description:
          'If a limit leaves no room: the one with the least remaining, in the same form as in other answers.',
      }),
      required: z.number().optional().meta({
        description: 'With `credits_exhausted`: the credits that the request needs, an exact decimal.',
      }),
      available: z.number().optional().meta({
        description: 'With `credits_exhausted`: the credits that were available for it, an exact decimal.',
      }),
    })
    .meta({ id: 'Problem', description: 'RFC 9457 problem details with a stable `code`.' });
}

const problemSchemas = new WeakMap<StatusByCode, z.ZodObject>();

function problemSchemaOf({ statuses }: DescribedRoute): z.ZodObject {
  const schema = problemSchemas.get(statuses) ?? createProblemSchema(statuses);
  problemSchemas.set(statuses, schema);
  return schema;
}

type ContentObject = NonNullable<NonNullable<RouteConfig['request']>['body']>['content'];
type ResponseConfig = RouteConfig['responses'][string];

const problemType = 'application/problem+json';

export function toOperation(route: DescribedRoute, reference: Reference): RouteConfig {
  const { method, path, operationId, tag, summary, params, query, headers, body } = route;
  return {
    method,
    path,
    operationId,
    tags: [tag],
    summary,
    description: [route.description, scopeNote(route)].filter((part) => part !== '').join('\n\n'),
    security: securityOf(route),
    request: {
      ...(params ? { params } : {}),
      ...(query ? { query } : {}),
      ...(headers ? { headers } : {}),
      ...(body ? { body: requestBody(route, body) } : {}),
    },
    responses: Object.fromEntries(
      statusesOf(route).map((status) => [status, toResponse(route, status, reference)]),
    ),
  };
}

function securityOf({ credential, scope, isCredentialOptional }: DescribedRoute) {
  if (credential === 'none') return [];
  return [{ [credential]: scope ? [scope] : [] }, ...(isCredentialOptional ? [{}] : [])];
}

function scopeNote({ credential, scope }: DescribedRoute): string {
  if (credential === 'serviceKey') return `Requires a service key with the scope \`${scope}\`.`;
  if (credential !== 'apiKey') return '';
  return scope
    ? `Requires a key with the scope \`${scope}\`.`
    : 'Accepts any valid key, whatever its scopes.';
}

function requestBody(route: DescribedRoute, body: NonNullable<DescribedRoute['body']>) {
  const { isOptional = false } = body;
  const content = Object.entries(bodyFormats(body)).map(([mediaType, schema]) => [
    mediaType,
    { schema, examples: requestBodyExamples(route, mediaType) },
  ]);
  return { required: !isOptional, content: Object.fromEntries(content) as ContentObject };
}

export function statusesOf({ responses, errors, statuses: byCode }: DescribedRoute): number[] {
  const statuses = [...Object.keys(responses).map(Number), ...errors.map((code) => byCode[code])];
  return [...new Set(statuses)].sort((a, b) => a - b);
}

/** OpenAPI has one response per status, so this combines the success or form response with all problem codes. */
function toResponse(route: DescribedRoute, status: number, reference: Reference): ResponseConfig {
  const own = route.responses[status];
  const codes = codesOf(route, status).map((code) => `\`${code}\`: ${reference.errors[code].meaning}`);
  const mediaTypes = [...Object.keys(own?.content ?? {}), ...(codes.length > 0 ? [problemType] : [])];
  return {
    description: [...(own ? [own.description] : []), ...codes].join('\n\n'),
    headers: Object.fromEntries(headersOf(route, status).map((name) => [name, describeHeader(name, status)])),
    ...(mediaTypes.length === 0 ? {} : { content: contentOf(route, status, { mediaTypes, reference }) }),
  };
}

function contentOf(
  route: DescribedRoute,
  status: number,
  { mediaTypes, reference }: { mediaTypes: string[]; reference: ExampleWords },
) {
  return Object.fromEntries(
    mediaTypes.map((mediaType) => {
      // The schema of a stream would be that of each event.
      const otherwise = mediaType === 'text/event-stream' ? {} : { type: 'string' as const };
      const schema = schemaOf(route, status, mediaType) ?? otherwise;
      return [
        mediaType,
        { schema, examples: responseExamples(answersOf(route, status, mediaType), route, reference) },
      ];
    }),
  );
}

const codesOf = (route: DescribedRoute, status: number): ErrorCode[] =>
  route.errors.filter((code) => route.statuses[code] === status);

/** Null for plain text, undefined if there is no such body. */
export function schemaOf(route: DescribedRoute, status: number, mediaType: string) {
  const own = route.responses[status]?.content?.[mediaType];
  if (own !== undefined) return own;
  const codes = codesOf(route, status);
  if (codes.length === 0 || mediaType !== problemType) return undefined;
  return z.intersection(problemSchemaOf(route), z.object({ code: z.enum(codes) }));
}

export function headersOf(route: DescribedRoute, status: number): ResponseHeader[] {
  const isProblem = codesOf(route, status).length > 0;
  const own = route.responses[status]?.headers ?? [];
  // Calls to the operator API without a valid token also count against a limit.
  const isCounted =
    route.limit !== undefined || status === 429 || (status === 401 && route.credential === 'operator');
  const limit: ResponseHeader[] = isCounted ? ['RateLimit', 'RateLimit-Policy'] : [];
  return ['X-Request-Id', ...limit, ...own, ...(isProblem ? problemHeaders(route, status) : [])];
}

function problemHeaders(
  { credential, errors, waitingMayHelp }: DescribedRoute,
  status: number,
): ResponseHeader[] {
  const takesBearer =
    ['apiKey', 'serviceKey', 'operator'].includes(credential) || errors.includes('missing_key');
  if (status === 401 && takesBearer) return ['WWW-Authenticate'];
  return status === 429 || status === 503 || status === waitingMayHelp ? ['Retry-After'] : [];
}

/** Status 409 includes `Retry-After` only if waiting helps. */
export const isAlwaysSent = (name: ResponseHeader, status: number): boolean =>
  'required' in responseHeaders[name] && !(name === 'Retry-After' && status === 409);

function describeHeader(name: ResponseHeader, status: number) {
  const described = responseHeaders[name];
  if (isAlwaysSent(name, status) === 'required' in described) return { $ref: `#/components/headers/${name}` };
  return { description: described.description, schema: described.schema };
}

const answersOf = ({ examples }: DescribedRoute, status: number, mediaType: string): SentExample[] =>
  examples.filter(({ response }) => response.status === status && isOf(response.body, mediaType));

function responseExamples(examples: SentExample[], route: DescribedRoute, words: ExampleWords) {
  return Object.fromEntries(
    examples.map((example) => [
      example.name,
      {
        summary: example.summary,
        description: describeExample(route, example, words),
        value: asShown(example.response.body),
      },
    ]),
  );
}

const isOf = (body: unknown, mediaType: string): boolean =>
  mediaType === 'text/html'
    ? typeof body === 'string'
    : mediaType !== problemType || typeof body === 'object';
