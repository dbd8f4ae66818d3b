import type { Router } from 'express';
import { z } from 'zod';
import { text } from '../core/http/validate.js';
import { toAddress, type Query } from '../core/pages/address.js';
import { beginsWord } from '../core/reference/search.js';
import { sendCsv, type CsvCell } from '../core/pages/csv.js';
import { parseQueryForm, readQuery, tryQuery, type FormFields } from '../core/pages/form.js';
import { formatDecimal, inSentence } from '../core/pages/format.js';
import { renderPage, pageRouter } from '../core/pages/layout.js';
import { listCustomers, type CustomerFilter, ownSignals } from './customer-queries.js';
import type { CustomerColumn, CustomerSummary, SortedFacts, Tile } from './customer-summary.js';
import { addressOf, CONSOLE, type CustomerDeps } from './page.js';
import { type AllFacts, createReader, toCustomerViews } from './customer-facts.js';
import { addOverview } from './customer-overview-pages.js';
import { addSettings, addArchive } from './customer-settings-pages.js';
import { addNew } from './new-customer-pages.js';

/** Customers that need attention come first. */
const FIRST = '-attention';
/** Per page. */
const LISTED = 25;

/** An old or mistyped link still opens the list. */
const schemaOf = (signals: readonly { id: string }[], columns: readonly CustomerColumn[]) =>
  z.object({
    search: text(254).optional(),
    plan: z.string().optional().catch(undefined),
    page: z.coerce.number().int().min(1).max(9999).catch(1),
    signal: z
      .enum(signals.map(({ id }) => id))
      .optional()
      .catch(undefined),
    sort: z.enum(columns.flatMap(({ id }) => [id, `-${id}`])).catch(FIRST),
  });

export function customerPages(deps: CustomerDeps): Router {
  const router = pageRouter();
  const reader = createReader(deps);
  addList(router, deps, reader.read);
  addNew(router, deps, reader.forget);
  addOverview(router, deps);
  addSettings(router, deps);
  addArchive(router, deps);
  return router;
}

/** Without one of them, archived customers are left out. */
const otherStates: { id: CustomerFilter['state']; label: string }[] = [
  { id: 'archived', label: 'Archived' },
  { id: 'all', label: 'Archived or not' },
];

type ReadAll = ReturnType<typeof createReader>['read'];

/** Reads the customers that a query asks for, in its order. */
function createList(deps: CustomerDeps, readAll: ReadAll) {
  const { db, clock, summaries } = deps;
  const signals = [...summaries.flatMap((summary) => summary.signals), ...ownSignals];
  const columns: CustomerColumn[] = [
    { id: 'name', label: 'Customer' },
    { id: 'attention', label: 'Attention', isLargestFirst: true },
    ...summaries.flatMap((summary) => summary.columns),
  ];
  const planFilter = summaries.find(({ plans }) => plans)?.plans;
  const schema = schemaOf([...signals, ...otherStates], columns);

  const readFacts = async (query: FormFields) => {
    const isSorted = query.sort !== undefined && !['name', '-name', FIRST].includes(String(query.sort));
    const all = await readAll(isSorted || signals.some(({ id }) => id === query.signal));
    return { all, plans: (await planFilter?.list(db.orm)) ?? [] };
  };

  function readChoice(query: FormFields, { all, plans }: Awaited<ReturnType<typeof readFacts>>) {
    const { search, page, signal: id, plan: slug, sort } = parseQueryForm(schema, query);
    const facts = all?.facts ?? [];
    const signal = signals.find((one) => one.id === id);
    const plan = plans.find(({ value }) => value === slug);
    const column = sort.replace('-', '');
    const filter = {
      state: otherStates.find((state) => state.id === id)?.id ?? 'current',
      search: search?.trim() || undefined,
      found: search && all ? listFound(all.words, search.trim().toLowerCase()) : undefined,
      ids: signal && listSignalled(facts, signal.id),
      isOnPlan: plan && planFilter?.isOn(plan.value),
    };
    const [empty, ...others] = [
      filter.search && `No customers match “${filter.search}”`,
      id === 'archived' && 'No archived customers',
      signal && `No customers ${signal.isState ? 'are' : 'with'} ${inSentence(signal.label)}`,
      plan && `No customers under “${plan.label}”`,
    ].filter(Boolean);
    const ranks = column === 'name' ? undefined : toRanks(facts, column, sort !== column);
    const compare = compareKeys(sort !== column);
    const word = filter.search?.toLowerCase();
    const isNamed = ({ slug: own, name }: { slug: string; name: string }) =>
      Number(sort === FIRST && word !== undefined && `${own}\n${name}`.toLowerCase().includes(word));
    async function read(range: { offset: number; limit: number }, withTrends: boolean) {
      const order = { isReversed: sort === '-name', isNamedFirst: sort === FIRST, ranks };
      const { customers, hasMore } = await listCustomers(db.orm, clock.now(), filter, { ...range, ...order });
      const views = await toCustomerViews(deps, customers, { older: facts, withTrends });
      // The order agrees with the rows, although older figures, or none, chose them.
      const rows =
        column === 'name'
          ? views
          : views.toSorted((a, b) => isNamed(b) - isNamed(a) || compare(a.keys[column], b.keys[column]));
      return { rows, hasMore };
    }
    const shown = { search: filter.search, signal: id, plan: plan?.value };
    return { page, sort, column, shown, empty: others[0] ? 'No customers match' : empty, read };
  }
  return { signals, columns, readFacts, readChoice };
}

function addList(router: Router, deps: CustomerDeps, readAll: ReadAll): void {
  const { clock, summaries } = deps;
  const { signals, columns, readFacts, readChoice } = createList(deps, readAll);

  router.get('/', async (req, res) => {
    const query = readQuery(req);
    const { all, plans } = await readFacts(query);
    const { form, result } = await tryQuery(res, query, async () => {
      const { page, sort, column, shown, empty, read } = readChoice(query, { all, plans });
      const { rows, hasMore } = await read({ offset: (page - 1) * LISTED, limit: LISTED }, true);
      const ordered = { ...shown, sort: sort === FIRST ? undefined : sort };
      const to = (asked: Query) => toAddress(CONSOLE, { ...ordered, ...asked });
      return {
        customers: rows.map((view) => ({ ...view, href: addressOf(view.slug) })),
        headers: columns.map(({ id: own, label, isNumber, isLargestFirst }) => ({
          ...(isNumber ? { number: label } : { label }),
          sort: {
            order: own !== column ? undefined : sort === own ? 'ascending' : 'descending',
            href: to({ sort: (own === column ? sort === own : isLargestFirst) ? `-${own}` : own }),
          },
        })),
        empty,
        csvHref: toAddress(`${CONSOLE}/customers.csv`, ordered),
        count: hasMore ? undefined : (page - 1) * LISTED + rows.length,
        pager: {
          first: page > 2 ? to({}) : undefined,
          previous: page > 1 ? to({ page: page === 2 ? undefined : page - 1 }) : undefined,
          next: hasMore ? to({ page: page + 1 }) : undefined,
        },
      };
    });
    const page = { view: 'console/customers', title: 'Customers', section: 'customers' };
    await renderPage(deps, req, res, page, {
      form,
      result,
      signals: [...signals, ...otherStates],
      plans,
      sorts: columns.flatMap(toSorts),
      cells: summaries.map(({ view }) => view),
      tiles:
        all &&
        toTiles(summaries, all).map(({ query: asked, ...tile }) => ({
          ...tile,
          href: toAddress(CONSOLE, asked),
          sorts: asked.sort !== undefined,
          isCurrent: toAddress(CONSOLE, asked) === toAddress(CONSOLE, { ...query, page: undefined }),
        })),
      readAt: all && new Date(all.atMs),
      isFiltered: ['search', 'signal', 'plan'].some((name) => name in query),
    });
  });

  router.get('/customers.csv', async (req, res) => {
    const query = readQuery(req);
    const { read } = readChoice(query, await readFacts(query));
    await sendCsv(deps.log, req, res, {
      filename: `customers-${new Date(clock.now()).toISOString().slice(0, 10)}.csv`,
      columns: [...ownColumns, ...summaries.flatMap(({ csvColumns }) => csvColumns)],
      pieces: exportRows(read),
    });
  });
}

const ownColumns = ['slug', 'name', 'owner', 'invited_owner', 'needs_attention'];

/** In one statement. */
const EXPORTED = 500;

async function* exportRows(
  read: ReturnType<ReturnType<typeof createList>['readChoice']>['read'],
): AsyncGenerator<CsvCell[][]> {
  for (let offset = 0, isMore = true; isMore; offset += EXPORTED) {
    const { rows, hasMore } = await read({ offset, limit: EXPORTED }, false);
    isMore = hasMore;
    yield rows.map(({ slug, name, owner, invited, flags, cells }) => {
      const needs = flags.map(({ label }) => label).join('; ');
      return [slug, name, owner, owner ? null : invited, needs, ...cells];
    });
  }
}

const toTiles = (summaries: readonly CustomerSummary[], { facts }: AllFacts): Tile[] => [
  { label: 'Customers', value: formatDecimal(facts[0]?.size ?? 0), query: {} },
  ...summaries.flatMap((summary, i) => summary.tiles([...facts[i]!.values()])),
  {
    label: 'Webhooks failing',
    value: formatDecimal(listSignalled(facts, 'webhooks').length),
    query: { signal: 'webhooks' },
    tone: 'bad',
  },
];

const listSignalled = (facts: AllFacts['facts'], signal: string): string[] =>
  facts.flatMap((own) => [...own].flatMap(([id, { signals }]) => (signals.includes(signal) ? [id] : [])));

/** By the owner's name, the address of an owner or of an open invitation for one, or the plan. */
const listFound = (words: AllFacts['words'], word: string): string[] =>
  [...words].flatMap(([id, text]) => (beginsWord(text, word) ? [id] : []));

/** Equal keys have the same rank. */
function toRanks(facts: AllFacts['facts'], column: string, isReversed: boolean) {
  const keyed = facts
    .flatMap((own) => [...own].map(([id, { keys }]) => ({ id, key: keys[column] })))
    // Those that need no attention follow by name, whatever their number.
    .filter(({ key }) => key !== undefined && (key !== 0 || column !== 'attention' || !isReversed));
  let rank = 0;
  const compare = compareKeys(isReversed);
  const sorted = keyed.toSorted((a, b) => compare(a.key, b.key));
  return {
    ids: sorted.map(({ id }) => id),
    ranks: sorted.map(({ key }, i) => (i > 0 && key !== sorted[i - 1]!.key ? ++rank : rank)),
  };
}

const toSorts = ({ id, label }: CustomerColumn) => [
  { value: id, label: `${label} ↑` },
  { value: `-${id}` === FIRST ? '' : `-${id}`, label: `${label} ↓` },
];

type Key = SortedFacts['keys'][string];

const compareKeys = (isReversed: boolean) => (a: Key, b: Key) => {
  if (a === b) return 0;
  if (a === undefined || b === undefined) return a === undefined ? 1 : -1;
  return a < b === isReversed ? 1 : -1;
};
