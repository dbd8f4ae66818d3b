import { marked } from 'marked';
import { groupBy } from '../collections.js';
import type { OpenApiDocument } from './document.js';
import { ORGANIZATION_ROOT } from './define-route.js';
import { addressOf, asShown, bodyFormats, mediaTypeOf } from './example-prose.js';
import type { Tag } from './names.js';
import { ownAnswer, ownRequest, type OwnValues } from './own-examples.js';
import { toSamples, toShortJson, type SampleRequest } from './samples.js';
import type { DescribedRoute, Reference, SentExample, SentRequest } from './described.js';

export interface ShownFor extends Pick<Reference, 'circumstances'> {
  origin: string;
  own?: OwnValues | undefined;
}

interface JsonSchema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  additionalProperties?: boolean | JsonSchema;
  allOf?: JsonSchema[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
}

interface Field {
  /** For example `events[].metric`. */
  name: string;
  type: string;
  isRequired: boolean;
  /** Markdown. */
  description: string;
}

/** A larger group is split into one page for each resource in its routes' paths. */
const MAX_ROUTES_ON_PAGE = 15;

export const listGroups = ({ tags, routes }: Pick<Reference, 'tags' | 'routes'>) =>
  Object.entries<string>(tags).map(([tag, description]) => {
    const id = toId(tag);
    const own = routes.filter((route) => route.tag === tag && !route.path.startsWith('/docs'));
    return {
      id,
      tag: tag as Tag,
      description,
      descriptionHtml: toHtml(description),
      routes: own,
      parts: own.length > MAX_ROUTES_ON_PAGE ? splitByThing(id, own) : [],
    };
  });

const toId = (title: string): string => title.toLowerCase().replaceAll(' ', '-');

function splitByThing(groupId: string, routes: readonly DescribedRoute[]) {
  return [...groupBy(routes, ({ path }) => thingOf(path))].map(([thing, own]) => ({
    id: `${groupId}-${thing}`,
    title: thing.charAt(0).toUpperCase() + thing.slice(1).replaceAll('-', ' '),
    routes: own,
  }));
}

/** `members` for `/operator/organizations/{slug}/members/{email}`, `users` for `/operator/users/{email}/sessions`. */
function thingOf(path: string): string {
  const [, , thing = '', parameter, owned] = path.split('/');
  const isOwned = thing === 'organizations' && parameter !== undefined && owned !== undefined;
  return isOwned ? owned.replace(/^plan$/, 'plans') : thing;
}

/** Only for the service's own texts, never for user input. */
export function toHtml(markdown: string): string {
  return marked.parse(markdown, { async: false });
}

export const toInlineHtml = (markdown: string): string => marked.parseInline(markdown, { async: false });

export const describeMessages = (document: OpenApiDocument) =>
  Object.entries(document.webhooks ?? {}).map(([type, item]) => {
    const { summary, description, requestBody } = item.post!;
    const { schema, example } = asContent(requestBody)!.content!['application/json']!;
    return {
      type,
      summaryHtml: toInlineHtml([summary, description].filter(Boolean).join(' ')),
      fields: listFields(document, schema ?? {}).filter(({ name }) => name.startsWith('data.')),
      example: toShortJson(example),
    };
  });

export const describeOperations = (
  routes: readonly DescribedRoute[],
  document: OpenApiDocument,
  shownFor: ShownFor,
) => routes.map((route) => describeOperation(route, document, shownFor));

function describeOperation(route: DescribedRoute, document: OpenApiDocument, shownFor: ShownFor) {
  const operation = document.paths![route.path]![route.method]!;
  const content = Object.entries(asContent(operation.requestBody)?.content ?? {})[0];
  return {
    id: route.operationId,
    method: route.method.toUpperCase(),
    path: route.path,
    summary: route.summary,
    descriptionHtml: toHtml(route.description),
    ...splitDescription(route.description),
    credential: credentialOf(route),
    takesKey: route.credential === 'apiKey',
    canBeTried: canBeTried(route),
    parameters: ((operation.parameters ?? []) as ParameterObject[]).map(({ schema = {}, ...parameter }) => ({
      name: parameter.name,
      place: parameter.in,
      type: typeOf(document, schema),
      isRequired: parameter.required ?? false,
      description: parameter.description ?? schema.description ?? '',
    })),
    body: content && {
      isOptional: route.body?.isOptional ?? false,
      mediaTypes: Object.keys(bodyFormats(route.body!)),
      maxBytes: route.body!.maxBytes,
      fields: listFields(document, content[1].schema ?? {}),
    },
    answers: Object.entries(route.responses).map(([status, { description }]) => ({
      status: Number(status),
      descriptionHtml: toInlineHtml(description),
      fields: listFields(
        document,
        asContent(operation.responses?.[status])?.content?.['application/json']?.schema ?? {},
      ),
    })),
    examples: route.examples.filter(isGood).map((example) => describeExampleFor(route, example, shownFor)),
    refusals: listRefusals(route),
  };
}

/** The first two sentences come before the fields, and the rest after them. */
function splitDescription(markdown: string): { leadHtml: string; restHtml: string } {
  const [first = '', ...paragraphs] = markdown.trim().split(/\n{2,}/);
  const sentences = first.split(/(?<=[.!?])\s+(?=[A-Z`])/);
  const rest = [sentences.slice(2).join(' '), ...paragraphs];
  return { leadHtml: toHtml(sentences.slice(0, 2).join(' ')), restHtml: toHtml(rest.join('\n\n')) };
}

interface ParameterObject {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: JsonSchema;
}

const asContent = (part: unknown) =>
  part as { content?: Record<string, { schema?: JsonSchema; example?: unknown }> } | undefined;

export const isGood = ({ response }: SentExample): boolean => response.status < 400;

/** Session routes are excluded, because they change data and have pages of their own. */
const canBeTried = ({ credential, tag, body }: DescribedRoute): boolean =>
  (credential === 'apiKey' || credential === 'none') &&
  tag !== 'Signing in' &&
  (body === undefined || body.mediaType === undefined);

function credentialOf({ credential, scope }: DescribedRoute): string {
  if (credential === 'apiKey') return scope ? `An API key with the scope \`${scope}\`` : 'Any API key';
  if (credential === 'serviceKey') return `A service key with the scope \`${scope}\``;
  if (credential === 'session') return 'A session';
  return credential === 'operator' ? 'The operator token' : 'None';
}

export function describeExampleFor(route: DescribedRoute, example: SentExample, shownFor: ShownFor) {
  const { origin, own } = shownFor;
  const request = own ? ownRequest(example.request, own) : (asShown(example.request) as SentRequest);
  const { body } = example.response;
  const answer = own && route.credential === 'apiKey' ? ownAnswer(body, own) : asShown(body ?? null);
  const path = addressOf(route, request);
  const text = bodyOf(route, request);
  const headers = Object.fromEntries(
    Object.entries(request.headers ?? {}).map(([name, value]) => [titleCase(name), value]),
  );
  const typed = text === '' ? {} : { 'Content-Type': mediaTypeOf(route, request) };
  return {
    id: `${route.operationId}-${example.name}`,
    name: example.name,
    summary: example.summary,
    notes: notesOf(example, shownFor),
    samples: toSamples({
      method: route.method.toUpperCase(),
      origin,
      path,
      headers: { ...credentialHeader(request, own), ...headers, ...typed },
      body: text,
      answers: answersOf(route, example.response.status, answer),
      typed: typedCallOf(route, request, own),
    }),
    status: example.response.status,
    /** JSON, or part of a text response; empty if there is no body. */
    answer: answer === null ? '' : typeof answer === 'string' ? answer : toShortJson(answer),
    /** Request that a form can send; undefined if a browser cannot or should not send it. */
    request: canBeTried(route) ? { path, headers, body: text } : undefined,
  };
}

function answersOf({ responses }: DescribedRoute, status: number, answer: unknown): SampleRequest['answers'] {
  if (responses[status]?.content?.['text/event-stream'] !== undefined) return 'stream';
  return answer === null ? 'nothing' : typeof answer === 'string' ? 'text' : 'json';
}

/** The client sends only a key, JSON, and the headers in its types. */
function typedCallOf(route: DescribedRoute, request: SentRequest, own: OwnValues | undefined) {
  const sent = Object.entries(request.headers ?? {});
  const known = Object.keys(route.headers?.shape ?? {});
  const header = sent.map(([name, value]) => [
    known.find((each) => each.toLowerCase() === name.toLowerCase()),
    value,
  ]);
  const isStream = Object.values(route.responses).some(({ content }) => content?.['text/event-stream']);
  const isService = route.credential === 'serviceKey';
  if (
    !(isService || route.credential === 'apiKey') ||
    isStream ||
    header.some(([name]) => name === undefined)
  )
    return undefined;
  const { slug, ...path } = request.params ?? {};
  const isForOne = route.sameAs !== undefined;
  const key = keyOf(request, own);
  return {
    template: isForOne ? route.path.replace(ORGANIZATION_ROOT, '/api/') : route.path,
    key: isService ? { serviceKey: key } : { apiKey: key },
    organization: isForOne ? slug : undefined,
    python: route.python ?? [],
    params: {
      path: isForOne ? path : (request.params ?? {}),
      query: request.query ?? {},
      header: Object.fromEntries(header) as Record<string, unknown>,
    },
  };
}

function notesOf({ before, circumstance }: SentExample, { circumstances }: ShownFor): string[] {
  return [
    ...(before ? ['Sent after the first request.'] : []),
    ...(circumstance ? [`At that time, ${circumstances[circumstance]}.`] : []),
  ];
}

function bodyOf({ body: described }: DescribedRoute, { body }: SentRequest): string {
  if (body === undefined) return '';
  const isForm = described?.mediaType?.includes('form') === true;
  return isForm ? new URLSearchParams(body as Record<string, string>).toString() : JSON.stringify(body);
}

function credentialHeader({ credential }: SentRequest, own: OwnValues | undefined): Record<string, string> {
  if (credential === 'none') return {};
  if (credential.endsWith('Session')) return { Cookie: 'gauge_session=…' };
  if (credential === 'operator') return { Authorization: 'Bearer …' };
  return { Authorization: `Bearer ${keyOf({ credential }, own)}` };
}

function keyOf({ credential }: Pick<SentRequest, 'credential'>, own: OwnValues | undefined): string {
  const mode = credential === 'testKey' ? 'test' : 'live';
  if (credential === 'serviceKey') return 'service_live_…';
  return `${own?.prefixes[mode] ?? `org_${mode}_`}…`;
}

const titleCase = (name: string): string => name.replace(/(^|-)[a-z]/g, (part) => part.toUpperCase());

function listRefusals({ examples, errors }: DescribedRoute) {
  return errors.map((code) => {
    const matching = examples.filter(
      ({ response }) => (response.body as { code?: string } | undefined)?.code === code,
    );
    return {
      code,
      status: matching[0]?.response.status ?? 500,
      summaries: [...new Set(matching.map(({ summary }) => summary))],
    };
  });
}

/** Only recursive schemas go deeper. */
const MAX_DEPTH = 6;

function listFields(document: OpenApiDocument, schema: JsonSchema, path = '', depth = 0): Field[] {
  if (depth > MAX_DEPTH) return [];
  const { properties = {}, required = [], ...rest } = resolve(document, schema);
  const own = Object.entries(properties).flatMap(([key, inner]) => {
    const name = path === '' ? key : `${path}.${key}`;
    const { description = '' } = { ...resolve(document, inner), ...inner };
    const field = { name, type: typeOf(document, inner), isRequired: required.includes(key), description };
    return [field, ...listFields(document, inner, name, depth + 1)];
  });
  const parts = [...(rest.allOf ?? []), ...(rest.anyOf ?? []), ...(rest.oneOf ?? [])];
  const variants = parts.flatMap((part) => listFields(document, part, path, depth + 1));
  const items = rest.items ? listFields(document, rest.items, `${path}[]`, depth + 1) : [];
  const values =
    typeof rest.additionalProperties === 'object'
      ? listFields(document, rest.additionalProperties, `${path}.*`, depth + 1)
      : [];
  return distinct([...own, ...variants, ...items, ...values]);
}

function distinct(fields: Field[]): Field[] {
  const byName = new Map<string, Field>();
  for (const field of fields) {
    const known = byName.get(field.name);
    if (!known) byName.set(field.name, field);
    else if (!known.type.split(' or ').includes(field.type))
      byName.set(field.name, { ...known, type: `${known.type} or ${field.type}` });
  }
  return [...byName.values()];
}

function typeOf(document: OpenApiDocument, schema: JsonSchema): string {
  const { type, format, items, ...rest } = resolve(document, schema);
  if (rest.const !== undefined) return JSON.stringify(rest.const);
  if (rest.enum) return rest.enum.map((value) => JSON.stringify(value)).join(' or ');
  const variants = rest.anyOf ?? rest.oneOf;
  if (variants) return [...new Set(variants.map((variant) => typeOf(document, variant)))].join(' or ');
  if (rest.allOf) return typeOf(document, rest.allOf[0]!);
  if (items) return `list of ${typeOf(document, items)}`;
  const names = [type ?? 'any'].flat().join(' or ');
  return format === undefined ? names : `${names}, ${format}`;
}

function resolve(document: OpenApiDocument, schema: JsonSchema): JsonSchema {
  if (schema.$ref === undefined) return schema;
  const name = schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1);
  return document.components?.schemas?.[name] ?? {};
}
