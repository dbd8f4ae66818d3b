import { groupBy } from '../core/collections.js';
import type { Reference } from '../core/reference/described.js';
import { createSearch, type SearchEntry } from '../core/reference/search.js';
import { once } from '../core/steps.js';
import { listTopics } from './documentation-topics.js';
import type { SignedIn } from './own-values.js';
import {
  listGroups,
  makeView,
  renderContent,
  renderTemplate,
  type ServiceDocuments,
  type PageView,
  type Reader,
} from './documentation-views.js';

/** In each group. */
const MAX_RESULTS = 6;

export function createDocumentationPages(
  describe: () => Promise<ServiceDocuments>,
  readAssets: () => Promise<string>,
) {
  /** Undefined if the page does not exist. */
  async function renderPage(page: string, reader: Reader): Promise<Buffer | undefined> {
    const described = await describe();
    const view = await makeView(page, described, reader);
    if (!view) return undefined;
    const shown = { isOperator: reader.isOperator, ...view, address: reader.address };
    return renderInLayout(page, shown, described.reference);
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

  const readSearch = once(async () => {
    const { listEntries } = await import('./documentation-search.js');
    return createSearch(await listEntries(await describe()));
  });

  async function renderSearch(
    { q = '', kind: wanted }: { q?: string | undefined; kind?: SearchEntry['kind'] | undefined },
    error: string | undefined,
    { isOperator }: SignedIn,
    { title, fields }: { title: string; fields?: string[] } = { title: 'Search' },
  ): Promise<Buffer> {
    const isAsked = error === undefined && q.trim() !== '';
    const found = isAsked ? (await readSearch())(q, fields) : undefined;
    const view = {
      title,
      isOperator,
      description: '',
      template: 'search',
      contents: [],
      q,
      error,
      groups:
        found &&
        [...groupBy(found, ({ kind }) => kind)].flatMap(([kind, all]) => {
          if (wanted && kind !== wanted) return [];
          const results = wanted ? all : all.slice(0, MAX_RESULTS);
          return [{ kind, heading: `${kind}s`, count: all.length, results }];
        }),
    };
    return renderInLayout('search', view, (await describe()).reference);
  }

  /** Suggests pages whose titles have the words of the address. */
  const renderMissing = (name: string, reader: SignedIn) =>
    renderSearch({ q: name.replaceAll('-', ' ') }, undefined, reader, {
      title: 'Page not found',
      fields: ['title'],
    });

  return { renderPage, renderSearch, renderMissing };
}

/** Parts of a split group are linked only from one another's pages. */
async function listLinks(reference: Reference, current: string) {
  const groups = await listGroups(reference);
  const toLink = (page: string, title: string, isInside = false) => ({
    href: `/docs/${page.replace(/^topics\//, '')}`,
    page,
    title,
    isInside,
  });
  return {
    guideLinks: [...groupBy(listTopics(reference), ({ task }) => task)].map(([task, guides]) => ({
      task,
      links: guides.map(({ id, title }) => toLink(`topics/${id}`, title)),
    })),
    referenceLinks: groups.flatMap(({ id, tag, parts }) => [
      toLink(`reference/${id}`, tag),
      ...(parts.some((part) => `reference/${part.id}` === current)
        ? parts.map((part) => toLink(`reference/${part.id}`, part.title, true))
        : []),
    ]),
  };
}
