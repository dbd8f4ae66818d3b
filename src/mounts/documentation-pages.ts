import { STATUS_CODES } from 'node:http';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import { groupBy } from '../core/collections.js';
import type { ErrorCode } from '../core/errors.js';
import type { Reference } from '../core/reference/described.js';
import type { OpenApiDocument } from '../core/reference/document.js';
import type { OwnValues } from '../core/reference/own-examples.js';
import { formatCount } from '../core/pages/format.js';
import { createSearch, type SearchEntry } from '../core/reference/search.js';
import { once } from '../core/steps.js';

export const viewsFolder = fileURLToPath(new URL('../../views', import.meta.url));

interface Topic {
  title: string;
  summary: string;
  /** Heading of its card on the overview. */
  task: string;
  /** The page is about this operation, and is missing where the service has none of it. */
  operationId?: string;
}

/** Pages on one topic each, by the last part of their address, in reading order. */
export const topics: Record<string, Topic> = {
  start: {
    title: 'Five-minute start',
    summary: 'Create a key, send an event and see the result.',
    task: 'Start',
    operationId: 'recordUsageEvents',
  },
  'test-and-live': {
    title: 'Test and live',
    summary: 'Try everything without changing live totals.',
    task: 'Start',
    operationId: 'recordUsageEvents',
  },
  retries: {
    title: 'Retries and idempotency',
    summary: 'Retry without counting twice.',
    task: 'Send usage',
    operationId: 'recordUsageEvents',
  },
  caps: {
    title: 'Caps and warnings',
    summary: 'What happens near and above the cap.',
    task: 'Send usage',
    operationId: 'recordUsageEvents',
  },
  'key-rotation': {
    title: 'Rotating keys',
    summary: 'Replace a key while your runtimes keep running.',
    task: 'Manage keys',
  },
  'paper-trading': {
    title: 'Paper trading',
    summary: 'Trade weather markets with paper money.',
    task: 'Trade',
    operationId: 'placeOrder',
  },
  webhooks: {
    title: 'Webhook messages',
    summary: 'Every message that your endpoints receive.',
    task: 'React to messages',
  },
  errors: { title: 'Errors', summary: 'Every code and how to fix it.', task: 'Fix an error' },
};

interface Described {
  reference: Reference;
  document: OpenApiDocument;
}

interface Reader {
  origin: string;
  own: OwnValues | undefined;
}

/** A place on a page, for its table of contents. */
interface Place {
  id: string;
  title: string;
}

interface PageView extends Record<string, unknown> {
  title: string;
  /** Template below `views/docs`. */
  template: string;
  /** Default: the headings of the rendered page. */
  contents?: Place[];
}

export function createDocumentationPages(
  describe: () => Promise<Described>,
  readAssets: () => Promise<string>,
) {
  /** Undefined for an unknown page. */
  async function renderPage(page: string, reader: Reader): Promise<Buffer | undefined> {
    const described = await describe();
    const view = await makeView(page, described, reader);
    return view && renderInLayout(page, view, described.reference);
  }

  async function renderInLayout(page: string, view: PageView, reference: Reference): Promise<Buffer> {
    const { content, contents } = await renderContent(view);
    const values = {
      ...view,
      ...(await listLinks(reference, page)),
      current: page,
      content,
      contents: view.contents ?? contents,
      assets: await readAssets(),
    };
    return Buffer.from(await renderTemplate('layout', values));
  }

  const readSearch = once(async () => createSearch(await listEntries(await describe())));

  async function renderSearch(q: string, error: string | undefined): Promise<Buffer> {
    const isAsked = error === undefined && q.trim() !== '';
    const found = isAsked ? (await readSearch())(q, MAX_RESULTS + 1) : undefined;
    const view = {
      title: 'Search',
      template: 'search',
      contents: [],
      q,
      error,
      found: found?.slice(0, MAX_RESULTS),
      isCut: found !== undefined && found.length > MAX_RESULTS,
    };
    return renderInLayout('search', view, (await describe()).reference);
  }

  return { renderPage, renderSearch };
}

const MAX_RESULTS = 30;

const renderTemplate = (name: string, values: object): Promise<string> =>
  ejs.renderFile(`${viewsFolder}/docs/${name}.ejs`, values, { views: [viewsFolder] });

async function renderContent(view: PageView): Promise<{ content: string; contents: Place[] }> {
  const contents: Place[] = [];
  const html = await renderTemplate(view.template, view);
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

const listTopics = ({ routes }: Reference) =>
  Object.entries(topics)
    .filter(
      ([, { operationId }]) =>
        operationId === undefined || routes.some((route) => route.operationId === operationId),
    )
    .map(([id, topic]) => ({ id, ...topic }));

/** Loads the reader with the first page, so that it does not delay the start. */
const loadReader = () => import('../core/reference/reader.js');

async function listGroups(reference: Reference) {
  const reader = await loadReader();
  return reader.listGroups(reference);
}

/** The parts of a split group are listed only beside each other. */
async function listLinks(reference: Reference, current: string) {
  const groups = await listGroups(reference);
  const toLink = (page: string, title: string, isInside = false) => ({
    href: `/docs/${page.replace(/^topics\//, '')}`,
    page,
    title,
    isInside,
  });
  return {
    guideLinks: listTopics(reference).map(({ id, title }) => toLink(`topics/${id}`, title)),
    referenceLinks: groups.flatMap(({ id, tag, parts }) => [
      toLink(`reference/${id}`, tag),
      ...(parts.some((part) => `reference/${part.id}` === current)
        ? parts.map((part) => toLink(`reference/${part.id}`, part.title, true))
        : []),
    ]),
  };
}

async function makeView(
  page: string,
  { reference, document }: Described,
  reader: Reader,
): Promise<PageView | undefined> {
  const [kind, id = ''] = page.split('/');
  const shownFor = { ...reader, circumstances: reference.circumstances };
  const common = { isOwn: reader.own !== undefined, toInlineHtml: (await loadReader()).toInlineHtml };
  if (kind === 'reference') return makeReferenceView(id, { reference, document }, shownFor, common);
  const shown = listTopics(reference);
  if (kind === 'index') {
    const groups = (await listGroups(reference)).map(({ routes, parts, ...group }) => ({
      ...group,
      operations: routes.map(toListed),
      parts: parts.map((part) => ({ ...part, operations: part.routes.map(toListed) })),
    }));
    const tasks = Object.fromEntries(groupBy(shown, ({ task }) => task));
    const byId = Object.fromEntries(shown.map((topic) => [topic.id, topic]));
    return { title: 'Documentation', template: 'index', contents: [], groups, tasks, topics: byId };
  }
  const topic = shown.find((each) => each.id === id);
  if (!topic) return undefined;
  const errors = id === 'errors' ? listErrors(reference) : [];
  const { describeExampleFor, describeMessages } = await loadReader();
  const messages = id === 'webhooks' ? describeMessages(document) : [];
  const places = [...errors.map(({ code }) => code), ...messages.map(({ type }) => type)];
  return {
    ...common,
    title: topic.title,
    template: `topics/${id}`,
    ...(places.length > 0 ? { contents: places.map((name) => ({ id: name, title: name })) } : {}),
    errors,
    messages,
    findExample(operationId: string, name: string) {
      const route = reference.routes.find((one) => one.operationId === operationId);
      const example = route?.examples.find((one) => one.name === name);
      if (!route || !example) throw new Error(`There is no example ${name} of ${operationId}.`);
      return describeExampleFor(route, example, shownFor);
    },
  };
}

const toListed = ({ operationId, method, path, summary }: Reference['routes'][number]) => ({
  id: operationId,
  method: method.toUpperCase(),
  path,
  summary,
});

async function makeReferenceView(
  id: string,
  { reference, document }: Described,
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
    template: 'reference',
    pageId: id,
    group: parts.length > 0 || group.id === id ? group : { descriptionHtml: '' },
    parts: parts.map((part) => ({ ...part, operations: part.routes.map(toListed) })),
    operations: describeOperations(routes, document, shownFor),
    contents: [...parts, ...routes.map(({ operationId, summary }) => ({ id: operationId, title: summary }))],
  };
}

function listErrors({ errors, statuses }: Reference) {
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

/** Everything that the search finds: about a thousand short texts. */
async function listEntries(described: Described): Promise<SearchEntry[]> {
  const { reference, document } = described;
  const { describeMessages, describeOperations } = await loadReader();
  const groups = await listGroups(reference);
  const shownFor = { origin: '', own: undefined, circumstances: reference.circumstances };
  const operations = groups.flatMap(({ id, routes, parts }) =>
    (parts.length > 0 ? parts : [{ id, routes }]).flatMap((page) =>
      describeOperations(page.routes, document, shownFor).map((operation) => ({
        ...operation,
        href: `/docs/reference/${page.id}#${operation.id}`,
      })),
    ),
  );
  const requests = operations.map(({ id, summary, method, path, href, descriptionHtml }): SearchEntry => ({
    kind: 'Request',
    title: summary,
    href,
    context: path,
    method,
    text: `${toText(descriptionHtml)} ${id}`,
  }));
  const errors = listErrors(reference).map(({ code, status, title = '', meaning, remedy }): SearchEntry => ({
    kind: 'Error',
    title: code,
    href: `/docs/errors#${code}`,
    context: `${status} ${title}`,
    text: toText(`${meaning} ${remedy}`).replaceAll('`', ''),
  }));
  const messages = describeMessages(document).map(({ type, summaryHtml }): SearchEntry => ({
    kind: 'Message',
    title: type,
    href: `/docs/webhooks#${type}`,
    context: 'Webhook messages',
    text: toText(summaryHtml),
  }));
  return [
    ...(await listGuideEntries(described)),
    ...requests,
    ...errors,
    ...messages,
    ...listFields(operations),
  ];
}

async function listGuideEntries(described: Described): Promise<SearchEntry[]> {
  const entries: SearchEntry[] = [];
  for (const { id, title, summary } of listTopics(described.reference)) {
    const href = `/docs/${id}`;
    entries.push({ kind: 'Guide', title, href, context: '', text: summary });
    const view = await makeView(`topics/${id}`, described, { origin: '', own: undefined });
    // Errors and messages have entries of their own.
    if (view!.contents) continue;
    const { content } = await renderContent(view!);
    for (const section of content.split(/(?=<h2 id=)/)) {
      const [, place, heading] = /^<h2 id="([^"]+)">(.*?)<\/h2>/.exec(section) ?? [];
      const text = toText(section.replace(/^<h[12].*?<\/h[12]>/, ''));
      if (heading)
        entries.push({
          kind: 'Guide',
          title: toText(heading),
          href: `${href}#${place}`,
          context: title,
          text,
        });
      else entries.at(-1)!.text = `${summary} ${text}`;
    }
  }
  return entries;
}

interface DescribedOperation {
  summary: string;
  href: string;
  parameters: { name: string; description: string }[];
  body?: { fields: { name: string; description: string }[] } | undefined;
  answers: { fields: { name: string; description: string }[] }[];
}

/** Fields of one name become one entry, which leads to the first request that has it and describes it. */
function listFields(operations: DescribedOperation[]): SearchEntry[] {
  const all = operations.flatMap((operation) =>
    [operation.parameters, operation.body?.fields ?? [], ...operation.answers.map(({ fields }) => fields)]
      .flat()
      .map(({ name, description }) => ({ name: name.replace(/^.*\./, ''), description, operation })),
  );
  return [...groupBy(all, ({ name }) => name).values()].map((same): SearchEntry => {
    const { name, description, operation } = same.find((one) => one.description !== '') ?? same[0]!;
    const others = new Set(same.map((one) => one.operation)).size - 1;
    return {
      kind: 'Field',
      title: name,
      href: operation.href,
      context: `${operation.summary}${others === 0 ? '' : ` and ${formatCount(others, 'other request')}`}`,
      text: description.replaceAll('`', ''),
    };
  });
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'", '#34': '"' };

/** The words of our own HTML, without code that is shown in blocks. */
const toText = (html: string): string =>
  html
    .replaceAll(/<div class="example">[\s\S]*?\n<\/div>/g, ' ')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/&([#\w]+);/g, (match, name: string) => entities[name] ?? match)
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ ([.,:;)])/g, '$1')
    .trim();
