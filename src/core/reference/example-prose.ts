import type { z } from 'zod';
import type { DescribedRoute, Reference, SentExample, SentRequest } from './described.js';

export type ExampleWords = Pick<Reference, 'credentials' | 'circumstances'>;

export function describeExample(
  route: DescribedRoute,
  example: SentExample,
  { credentials, circumstances }: ExampleWords,
): string {
  const { request, before = [], circumstance } = example;
  return [
    `\`${requestLine(route, request)}\` with ${credentials[request.credential]}${headerList(request)}.`,
    circumstance ? `At that time, ${circumstances[circumstance]}.` : '',
    before.length > 0 && circumstance !== 'limit_used_up'
      ? `Earlier: ${before.map((earlier) => describeEarlier(route, earlier, request, credentials)).join('; ')}.`
      : '',
    bodyNote(route, example),
  ]
    .filter((part) => part !== '')
    .join(' ');
}

const requestLine = (route: DescribedRoute, request: SentRequest): string =>
  `${route.method.toUpperCase()} ${addressOf(route, request)}`;

export function addressOf({ path }: DescribedRoute, { params = {}, query }: SentRequest): string {
  const filled = path.replace(/\{(\w+)\}/g, (_match, name: string) => encodeURIComponent(params[name] ?? ''));
  return query ? `${filled}?${new URLSearchParams(query).toString()}` : filled;
}

function headerList({ headers = {} }: SentRequest): string {
  const list = Object.entries(headers).map(([name, value]) => `\`${name}: ${value}\``);
  return list.length === 0 ? '' : ` and ${list.join(', ')}`;
}

function describeEarlier(
  route: DescribedRoute,
  earlier: SentRequest,
  request: SentRequest,
  credentials: Reference['credentials'],
): string {
  if (JSON.stringify(earlier) === JSON.stringify(request)) return 'the same request';
  const body = earlier.body === undefined ? '' : ` and the body \`${JSON.stringify(earlier.body)}\``;
  return `\`${requestLine(route, earlier)}\` with ${credentials[earlier.credential]}${headerList(earlier)}${body}`;
}

function bodyNote(route: DescribedRoute, example: SentExample): string {
  const { rawBody, paddedToBytes, body } = example.request;
  if (rawBody !== undefined) return rawBody === '' ? 'The body is empty.' : `The body is \`${rawBody}\`.`;
  if (body === undefined) return route.body ? 'There is no body.' : '';
  const json = JSON.stringify(body);
  const shown = route.examples.find(
    (other) => isShown(route, other) && JSON.stringify(other.request.body) === json,
  );
  if (!shown) return `The body is \`${json}\`.`;
  const padding = paddedToBytes
    ? `, followed by spaces up to ${paddedToBytes.toLocaleString('en')} bytes`
    : '';
  return `The body is that of the request example \`${shown.name}\`${padding}.`;
}

/** Each distinct body has the name of its first example. */
export function requestBodyExamples(route: DescribedRoute, mediaType: string) {
  const distinct = new Map<string, SentExample>();
  for (const example of route.examples) {
    const json = JSON.stringify(example.request.body);
    if (mediaTypeOf(route, example.request) !== mediaType) continue;
    if (isShown(route, example) && !distinct.has(json)) distinct.set(json, example);
  }
  return Object.fromEntries(
    [...distinct].map(([json, { name, summary }]) => [name, { summary, value: JSON.parse(json) as unknown }]),
  );
}

/** Invalid bodies are shown only with their response, so that nobody copies them. */
function isShown(route: DescribedRoute, { request }: SentExample): boolean {
  const schema = route.body && bodyFormats(route.body)[mediaTypeOf(route, request)];
  return request.body !== undefined && schema?.safeParse(asShown(request.body)).success === true;
}

/** By media type, with the default format first. */
export const bodyFormats = ({
  mediaType = 'application/json',
  schema,
  others,
}: NonNullable<DescribedRoute['body']>): Record<string, z.ZodType> => ({ [mediaType]: schema, ...others });

export const mediaTypeOf = ({ body }: Pick<DescribedRoute, 'body'>, { headers }: SentRequest): string =>
  headers?.['content-type'] ?? body?.mediaType ?? 'application/json';

export const asShown = (value: unknown): unknown => JSON.parse(JSON.stringify(value)) as unknown;
