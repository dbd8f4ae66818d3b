import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { STATUS_CODES } from 'node:http';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import { groupBy } from '../core/collections.js';
import { formatCount } from '../core/pages/format.js';
import type { ErrorCode } from '../core/errors.js';
import type { Reference, SentExample } from '../core/reference/described.js';
import type { OpenApiDocument } from '../core/reference/document.js';
import type { OwnValues } from '../core/reference/own-examples.js';
import { listTopics } from './documentation-topics.js';

export const viewsFolder = fileURLToPath(new URL('../../views', import.meta.url));

export interface ServiceDocuments {
  reference: Reference;
  document: OpenApiDocument;
}

export interface Reader {
  origin: string;
  /** For other sites. */
  address?: string | undefined;
  own?: OwnValues | undefined;
  isOperator?: boolean | undefined;
}

interface Place {
  id: string;
  title: string;
}

export interface PageView extends Record<string, unknown> {
  title: string;
  description: string;
  /** Within `views/docs`. */
  template: string;
  /** Default: the headings of the rendered page. */
  contents?: Place[];
}

export async function makeView(
  page: string,
  { reference, document }: ServiceDocuments,
  reader: Reader,
): Promise<PageView | undefined> {
  const [kind, id = ''] = page.split('/');
  const shownFor = { ...reader, circumstances: reference.circumstances };
  const { isOperator = false } = reader;
  const common = {
    isOperator,
    isOwn: reader.own !== undefined,
    toInlineHtml: (await loadReader()).toInlineHtml,
  };
  if (kind === 'reference') return makeReferenceView(id, { reference, document }, shownFor, common);
  const shown = listTopics(reference);
  const clients = `${reader.origin}/clients`;
  const wheel = `${clients}/gauge_client-${document.info.version}-py3-none-any.whl`;
  if (kind === 'index') {
    const groups = (await listGroups(reference)).map(({ id, tag, description: words, routes, parts }) => ({
      id,
      tag,
      summary: firstSentence(words),
      count: formatCount(routes.length, 'request'),
      parts,
    }));
    const tasks = Object.fromEntries(groupBy(shown, ({ task }) => task));
    const description =
      'Guides and the reference of Gauge’s API, with examples in curl, TypeScript and Python.';
    const view = { title: 'Documentation', description, template: 'index', contents: [] };
    return { ...view, groups, tasks };
  }
  const topic = shown.find((each) => each.id === id);
  if (!topic) return undefined;
  const guide = `${viewsFolder}/docs/guides/${id}.md`;
  if (existsSync(guide)) {
    const { readGuide } = await import('../core/reference/guide.js');
    const parts = readGuide(await readFile(guide, 'utf8'), reference.routes, shownFor);
    return { title: topic.title, description: topic.summary, template: 'guide', parts };
  }
  const errors = id === 'errors' ? listErrors(reference) : [];
  const { describeExampleFor, describeMessages } = await loadReader();
  const messages = id === 'webhooks' ? describeMessages(document) : [];
  const places = [...errors.map(({ code }) => code), ...messages.map(({ type }) => type)];
  return {
    ...common,
    title: topic.title,
    description: topic.summary,
    template: `topics/${id}`,
    ...(places.length > 0 ? { contents: places.map((name) => ({ id: name, title: name })) } : {}),
    errors,
    messages,
    npmPackage: `${clients}/gauge-client.tgz`,
    wheel,
    findExample(operationId: string, name: string) {
      const route = reference.routes.find((one) => one.operationId === operationId);
      const example = route?.examples.find((one) => one.name === name);
      if (!route || !example) throw new Error(`There is no example ${name} of ${operationId}.`);
      return describeExampleFor(route, id === 'start' ? forFirstTry(example, reader) : example, shownFor);
    },
  };
}

/** With a test key. Times in the example would be too old. */
function forFirstTry(example: SentExample, { own }: Reader): SentExample {
  const { body, ...request } = example.request;
  const recent = own
    ? body
    : body && JSON.parse(JSON.stringify(body, (name, value) => (name === 'occurredAt' ? undefined : value)));
  return { ...example, request: { ...request, ...(recent ? { body: recent } : {}), credential: 'testKey' } };
}

const firstSentence = (markdown: string): string =>
  markdown.replaceAll(/`|\[(.*?)\]\(.*?\)/g, '$1').split(/(?<=\.)\s/, 1)[0]!;

const toListed = ({ operationId, method, path, summary }: Reference['routes'][number]) => ({
  id: operationId,
  method: method.toUpperCase(),
  path,
  summary,
});

async function makeReferenceView(
  id: string,
  { reference, document }: ServiceDocuments,
  shownFor: Reader & Pick<Reference, 'circumstances'>,
  common: object,
): Promise<PageView | undefined> {
  const { describeOperations } = await loadReader();
  const pages = (await listGroups(reference)).flatMap((group) => [
    { id: group.id, group, title: group.tag, routes: group.parts.length > 0 ? [] : group.routes },
    ...group.parts.map((part) => ({
      id: part.id,
      group,
      title: `${group.tag}: ${part.title}`,
      routes: part.routes,
    })),
  ]);
  const found = pages.find((page) => page.id === id);
  if (!found) return undefined;
  const { group, title, routes } = found;
  const parts = group.id === id ? group.parts : [];
  return {
    ...common,
    title,
    description: firstSentence(group.description),
    template: 'reference',
    pageId: id,
    group: parts.length > 0 || group.id === id ? group : { descriptionHtml: '' },
    parts: parts.map((part) => ({ ...part, operations: part.routes.map(toListed) })),
    operations: describeOperations(routes, document, shownFor),
    contents: [...parts, ...routes.map(({ operationId, summary }) => ({ id: operationId, title: summary }))],
  };
}

export function listErrors({ errors, statuses }: Reference) {
  const codes = Object.keys(statuses) as ErrorCode[];
  return codes
    .map((code) => ({
      code,
      status: statuses[code],
      title: STATUS_CODES[statuses[code]],
      ...errors[code],
    }))
    .toSorted((a, b) => a.status - b.status);
}

export const renderTemplate = (name: string, values: object): Promise<string> =>
  ejs.renderFile(`${viewsFolder}/docs/${name}.ejs`, values, { views: [viewsFolder] });

export async function renderContent(view: PageView): Promise<{ content: string; contents: Place[] }> {
  const contents: Place[] = [];
  const { highlightCode } = await import('../core/reference/highlight.js');
  const html = await highlightCode(await renderTemplate(view.template, view));
  const content = html.replaceAll(/<h2>([^<]*)<\/h2>/g, (_match, title: string) => {
    const id = toId(title);
    contents.push({ id, title });
    return `<h2 id="${id}">${title}</h2>`;
  });
  return { content, contents };
}

const toId = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/&[#\w]+;/g, '')
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');

/** Imported on first use, to keep startup fast. */
export const loadReader = () => import('../core/reference/reader.js');

export async function listGroups(reference: Reference) {
  return (await loadReader()).listGroups(reference);
}
