import { groupBy } from '../core/collections.js';
import { formatCount } from '../core/pages/format.js';
import { toPlain } from '../core/reference/highlight.js';
import type * as Reader from '../core/reference/reader.js';
import type { SearchEntry } from '../core/reference/search.js';
import { listTopics } from './documentation-topics.js';
import {
  listErrors,
  listGroups,
  loadReader,
  makeView,
  renderContent,
  type ServiceDocuments,
} from './documentation-views.js';

/** About a thousand short texts. */
export async function listEntries(described: ServiceDocuments): Promise<SearchEntry[]> {
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
    words: [id],
    href,
    context: path,
    method,
    text: toText(descriptionHtml),
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

async function listGuideEntries(described: ServiceDocuments): Promise<SearchEntry[]> {
  const entries: SearchEntry[] = [];
  for (const { id, title, summary, words } of listTopics(described.reference)) {
    const href = `/docs/${id}`;
    entries.push({ kind: 'Guide', title, ...(words && { words }), href, context: '', text: summary });
    const view = await makeView(`topics/${id}`, described, { origin: '', own: undefined });
    // The entries of the errors and messages pages are created separately.
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

/** One entry for all fields with the same name. It links to the first request that describes the field. */
function listFields(
  operations: readonly (ReturnType<typeof Reader.describeOperations>[number] & { href: string })[],
): SearchEntry[] {
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

/** Leaves out code blocks. */
const toText = (html: string): string =>
  toPlain(
    html
      .replaceAll(/<section class="example">[\s\S]*?<\/section>/g, ' ')
      .replaceAll(/<\/?(?:a|code|em|span|strong)\b[^>]*>/g, '')
      .replaceAll(/<\/t[dh]>(?=\s*<t[dh])/g, ' · ')
      .replaceAll(/<\/tr>(?=\s*<)/g, '; ')
      .replaceAll(/<[^>]*>/g, ' '),
  )
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ ;/g, ';')
    .trim();
