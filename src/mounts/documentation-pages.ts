import { groupBy } from '../core/collections.js';
import type { Reference } from '../core/reference/described.js';
import { createSearch } from '../core/reference/search.js';
import { once } from '../core/steps.js';
import { listEntries } from './documentation-search.js';
import { listTopics } from './documentation-topics.js';
import {
  listGroups,
  makeView,
  renderContent,
  renderTemplate,
  type ServiceDocuments,
  type PageView,
  type Reader,
} from './documentation-views.js';

const MAX_RESULTS = 30;
/** Points of a result that a wrong address leads to: its title begins with one of the address's words. */
const NEAR_MISS = 15;

export function createDocumentationPages(
  describe: () => Promise<ServiceDocuments>,
  readAssets: () => Promise<string>,
) {
  /** Undefined if the page does not exist. */
  async function renderPage(page: string, reader: Reader): Promise<Buffer | undefined> {
    const described = await describe();
    const view = await makeView(page, described, reader);
    return view && renderInLayout(page, { ...view, address: reader.address }, described.reference);
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

  async function renderSearch(
    q: string,
    error: string | undefined,
    { title, least }: { title: string; least?: number } = { title: 'Search' },
  ): Promise<Buffer> {
    const isAsked = error === undefined && q.trim() !== '';
    const found = isAsked ? (await readSearch())(q, MAX_RESULTS + 1, least) : undefined;
    const view = {
      title,
      description: '',
      template: 'search',
      contents: [],
      q,
      error,
      found: found?.slice(0, MAX_RESULTS),
      isCut: found !== undefined && found.length > MAX_RESULTS,
    };
    return renderInLayout('search', view, (await describe()).reference);
  }

  /** Suggests pages about the words of the address. */
  const renderMissing = (name: string) =>
    renderSearch(name.replaceAll('-', ' '), undefined, { title: 'Page not found', least: NEAR_MISS });

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
