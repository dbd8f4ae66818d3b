import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import type { Router } from 'express';
import { z } from 'zod';
import { nameField, parseInput, text } from '../core/http/validate.js';
import { toAddress, type Query } from '../core/pages/address.js';
import { addForm, fieldError, parseQueryForm, readQuery, tryQuery } from '../core/pages/form.js';
import { formatDecimal } from '../core/pages/format.js';
import type { Context } from '../core/http/context.js';
import { renderPage, pageRouter } from '../core/pages/layout.js';
import { inChunks, shareRun } from '../core/steps.js';
import { MINUTE_MS } from '../core/time.js';
import { filledIn } from '../accounts/identity/account/schema.js';
import { say, type Wording } from '../accounts/audit/wording.js';
import { countMembers } from '../accounts/identity/members/queries.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { fillInSlug, slugSchema, stripeCustomerField } from '../accounts/identity/operator/schema.js';
import { getLockedOrganization, putOrganization } from '../accounts/identity/organizations/organizations.js';
import { lockOrganization, type Organization } from '../accounts/identity/organizations/queries.js';
import { marketAccesses } from '../accounts/organizations/table.js';
import { inviteAsOperator } from '../accounts/identity/members/invitations.js';
import { confirmDanger, requireConfirmation } from '../accounts/identity/session/operator.js';
import { personOf } from '../accounts/identity/session/session.js';
import { readLatestChanges } from '../dashboard/audit-log/view.js';
import {
  findCustomer,
  findIds,
  listFailures,
  listCustomers,
  ownSignals,
  type Customer,
  type CustomerFilter,
  type Signal,
} from './customer-queries.js';
import type {
  CustomerColumn,
  CustomerFacts,
  CustomerSummary,
  Moment,
  SortedFacts,
  Tile,
} from './customer-summary.js';
import { addressOf, CONSOLE, linkToTabs, readCustomer, renderCustomer, type ConsoleDeps } from './page.js';
import { inviteSchema, showInvitation, withEmail } from './people-pages.js';

/** Per page. */
const LISTED = 25;

const querySchema = z.object({
  search: text(254).optional(),
  page: z
    .string()
    .regex(/^[1-9]\d{0,3}$/, 'must be a whole number from 1 to 9999')
    .default('1')
    .transform(Number),
});

const marketAccess = z.enum(marketAccesses, 'must be one of the options').optional();
const newSchema = z.object({
  slug: slugSchema,
  name: nameField,
  marketAccess,
  email: inviteSchema.shape.email.optional(),
});
const settingsSchema = z.strictObject({
  name: nameField,
  requireSecondFactor: z.literal('yes').optional(),
  requireSingleSignOn: z.literal('yes').optional(),
  mayCorrect: z.literal('yes').optional(),
  marketAccess,
  stripeCustomerId: stripeCustomerField.optional(),
});
export const archiveSchema = z.strictObject({ archived: z.enum(['yes', 'no'], 'must be yes or no') });

interface CustomerDeps extends ConsoleDeps, Pick<Context, 'log' | 'metrics'> {
  wording: Wording;
  summaries: readonly CustomerSummary[];
}

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

function addList(router: Router, deps: CustomerDeps, readAll: ReturnType<typeof createReader>['read']): void {
  const { db, clock, summaries } = deps;
  const signals = [...summaries.flatMap((summary) => summary.signals), ...ownSignals];
  const columns: CustomerColumn[] = [
    { id: 'name', label: 'Customer' },
    ...summaries.flatMap((summary) => summary.columns),
  ];
  const oneOf = <T extends string>(values: readonly T[]) => z.enum(values, 'must be one of the options');
  const schema = querySchema.extend({
    signal: oneOf([...signals, ...otherStates].map(({ id }) => id)).optional(),
    sort: oneOf(columns.flatMap(({ id }) => [id, `-${id}`])).default('name'),
  });

  router.get('/', async (req, res) => {
    const query = readQuery(req);
    const isSorted = query.sort !== undefined && !['name', '-name'].includes(String(query.sort));
    const isOfProduct = summaries.some((one) => one.signals.some(({ id }) => id === query.signal));
    const all = await readAll(isSorted || isOfProduct);
    const facts = all?.facts ?? [];
    const { form, result } = await tryQuery(res, query, async () => {
      const { search, page, signal: id, sort } = parseQueryForm(schema, query);
      const signal = signals.find((one) => one.id === id);
      const column = sort.replace('-', '');
      const filter = {
        state: otherStates.find((state) => state.id === id)?.id ?? 'current',
        search: search?.trim() || undefined,
        ids: signal && (await listSignalled(deps, facts, signal)),
      };
      const { customers, hasMore } = await listCustomers(db.orm, clock.now(), filter, {
        offset: (page - 1) * LISTED,
        limit: LISTED,
        isReversed: sort === '-name',
        ranks: column === 'name' ? undefined : toRanks(facts, column, sort !== column),
      });
      const shown = { search: filter.search, signal: id };
      const to = (asked: Query) =>
        toAddress(CONSOLE, { ...shown, sort: sort === 'name' ? undefined : sort, ...asked });
      return {
        customers: await toCustomerViews(deps, customers, facts),
        headers: columns.map(({ id: own, label, isNumber, isLargestFirst }) => ({
          label,
          isNumber,
          order: own !== column ? undefined : sort === own ? 'ascending' : 'descending',
          href: to({ sort: (own === column ? sort === own : isLargestFirst) ? `-${own}` : own }),
        })),
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
      cells: summaries.map(({ view }) => view),
      tiles:
        all &&
        toTiles(summaries, all).map(({ query: asked, ...tile }) => ({
          ...tile,
          href: toAddress(CONSOLE, asked),
        })),
      readAt: all && new Date(all.atMs),
      isFiltered: ['search', 'signal'].some((name) => name in query),
    });
  });
}

/** The customer, its plan and its owner's invitation are one transaction. */
function addNew(router: Router, deps: CustomerDeps, forget: () => void): void {
  const { hasMarkets, mail } = deps.config;
  const parts = deps.summaries.flatMap(({ newCustomer }) => newCustomer ?? []);

  addForm(router, '/new-customer', {
    async act(req, res, fields) {
      fillInSlug(fields, 'slug', 'name');
      const { slug, name, email, marketAccess = 'none' } = parseInput(newSchema, filledIn(withEmail(fields)));
      const { customer, invitation, ends } = await changeAsOperator(deps, req, res, async (tx, source) => {
        if (await lockOrganization(tx, { slug })) throw fieldError('slug', 'is taken by another customer');
        if (email !== undefined) await confirmDanger(tx, res, source);
        const { resource } = await putOrganization(tx, slug, { name: name.trim(), marketAccess }, source);
        const ends = [];
        for (const part of parts) ends.push(await part.begin(tx, slug, fields, source));
        const owner = email === undefined ? undefined : { email, role: 'owner' as const, days: 7 };
        const invited =
          owner && (await inviteAsOperator(tx, resource.id, owner, personOf(res).userId, source, mail));
        return { customer: resource, ends, invitation: owner && invited && { ...owner, ...invited } };
      });
      for (const end of ends) end(deps.metrics);
      forget();
      if (invitation) await showInvitation(deps, req, res, customer, invitation);
      else res.redirect(303, toAddress(addressOf(slug), { done: 'created' }));
    },
    async show(req, res, form) {
      const isNew = Object.keys(form.values).length === 0;
      const data: { view: string; data: object }[] = [];
      for (const part of parts) data.push({ view: part.view, data: await part.read(deps.db.orm) });
      const page = { view: 'console/new-customer', title: 'New customer', section: 'customers' };
      await renderPage(deps, req, res, page, {
        // The choice with the least risk.
        form: isNew ? { ...form, values: { marketAccess: 'none' } } : form,
        parts: data,
        hasMarkets,
        hasMail: mail !== undefined,
      });
    },
    codes: new Set(parts.flatMap(({ codes }) => codes)),
  });
}

interface AllFacts {
  atMs: number;
  /** By product, then by customer. The page puts newer facts of the customers that it lists here. */
  facts: Map<string, SortedFacts>[];
  failing: number;
}

/** A larger installation's page shows older figures, or none. */
const PATIENCE_MS = 500;
/** In one statement. */
const READ_CUSTOMERS = 1000;

/** Reads every customer's facts when they are older than a minute, and waits for them only if a page needs them. */
function createReader(deps: CustomerDeps) {
  let latest: AllFacts | undefined;
  const { run } = shareRun(async () => (latest = await readAllFacts(deps)));
  const refresh = () =>
    run().catch((error: unknown) => {
      deps.log.warn({ err: error }, 'the figures of all customers could not be read');
      return latest;
    });
  const read = async (isNeeded: boolean): Promise<AllFacts | undefined> => {
    if (latest && Math.abs(deps.clock.now() - latest.atMs) < MINUTE_MS) return latest;
    if (isNeeded && !latest) return run();
    return Promise.race([refresh(), setTimeout(PATIENCE_MS, undefined, { ref: false }).then(() => latest)]);
  };
  return { read, forget: () => (latest = undefined) };
}

async function readAllFacts({ db, clock, summaries }: CustomerDeps): Promise<AllFacts> {
  const atMs = clock.now();
  const ids = await findIds(db, sql`true`);
  const facts = summaries.map(() => new Map<string, SortedFacts>());
  for (const some of inChunks(ids, READ_CUSTOMERS))
    for (const [i, summary] of summaries.entries())
      for (const [id, { keys, signals }] of await summary.read(db, atMs, some, false))
        facts[i]!.set(id, { keys, signals });
  const webhooks = ownSignals.find(({ id }) => id === 'webhooks')!;
  const failing = await findIds(db, webhooks.condition!(atMs));
  return { atMs, facts, failing: failing.length };
}

const toTiles = (summaries: readonly CustomerSummary[], { facts, failing }: AllFacts): Tile[] => [
  { label: 'Customers', value: formatDecimal(facts[0]?.size ?? 0), query: {} },
  ...summaries.flatMap((summary, i) => summary.tiles([...facts[i]!.values()])),
  { label: 'Failing webhooks', value: formatDecimal(failing), query: { signal: 'webhooks' } },
];

const listSignalled = (
  { db, clock }: CustomerDeps,
  facts: AllFacts['facts'],
  { id, condition }: Signal,
): Promise<string[]> | string[] =>
  condition
    ? findIds(db, condition(clock.now()))
    : facts.flatMap((own) =>
        [...own].flatMap(([orgId, { signals }]) => (signals.includes(id) ? [orgId] : [])),
      );

/** Equal keys have the same rank. */
function toRanks(facts: AllFacts['facts'], column: string, isReversed: boolean) {
  const keyed = facts
    .flatMap((own) => [...own].map(([id, { keys }]) => ({ id, key: keys[column]! })))
    .filter(({ key }) => key !== undefined);
  const compare = ({ key: a }: { key: number | string }, { key: b }: { key: number | string }) =>
    a === b ? 0 : a < b === isReversed ? 1 : -1;
  let rank = 0;
  const sorted = keyed.toSorted(compare);
  return {
    ids: sorted.map(({ id }) => id),
    ranks: sorted.map(({ key }, i) => (i > 0 && key !== sorted[i - 1]!.key ? ++rank : rank)),
  };
}

const notices = {
  created: 'Customer created.',
  archived: 'Archived. Its API keys and pages stop working, starting with the next request.',
  restored: 'Restored. Everything is as it was.',
};

function addOverview(router: Router, deps: CustomerDeps): void {
  const { db, clock, summaries } = deps;

  router.get('/customers/:slug', async (req, res) => {
    const customer = await readCustomer(deps, req);
    const found = (await findCustomer(db.orm, clock.now(), customer.slug))!;
    const [summary] = await toCustomerViews(deps, [found]);
    const panels: { view: string; data: object }[] = [];
    for (const { panel } of summaries)
      if (panel) panels.push({ view: panel.view, data: await panel.read(deps, customer.id) });
    const page = { view: 'console/customer', tab: 'overview', title: 'Overview', notices };
    await renderCustomer(deps, req, res, page, customer, {
      summary,
      headers: summaries.map(({ header }) => header),
      panels,
      changes: await readTimeline(deps, customer),
      memberCount: await countMembers(db.orm, customer.id),
    });
  });
}

function addSettings(router: Router, deps: CustomerDeps): void {
  const { config } = deps;

  addForm(router, '/customers/:slug/settings', {
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const { name, marketAccess, stripeCustomerId, ...checked } = parseInput(
        settingsSchema,
        filledIn(fields),
      );
      const input = {
        name: name.trim(),
        requireSecondFactor: checked.requireSecondFactor === 'yes',
        requireSingleSignOn: checked.requireSingleSignOn === 'yes',
        mayCorrect: checked.mayCorrect === 'yes',
        marketAccess,
        // A form opened before an upgrade may lack this field.
        stripeCustomerId: 'stripeCustomerId' in fields ? (stripeCustomerId ?? null) : undefined,
      };
      await changeAsOperator(deps, req, res, async (tx, source) => {
        const current = await getLockedOrganization(tx, slug);
        if (input.requireSingleSignOn && !current.requireSingleSignOn && !config.singleSignOn)
          throw fieldError('requireSingleSignOn', 'needs OIDC_ISSUER, which this service does not have');
        if (isDangerous(current, input)) await confirmDanger(tx, res, source);
        await putOrganization(tx, slug, input, source);
      });
      res.redirect(303, toAddress(`${addressOf(slug)}/settings`, { done: 'saved' }));
    },
    async show(req, res, form) {
      const customer = await readCustomer(deps, req);
      const given = {
        name: customer.name,
        requireSecondFactor: customer.requireSecondFactor ? 'yes' : '',
        requireSingleSignOn: customer.requireSingleSignOn ? 'yes' : '',
        mayCorrect: customer.mayCorrect ? 'yes' : '',
        marketAccess: customer.marketAccess,
        stripeCustomerId: customer.stripeCustomerId ?? '',
      };
      const page = {
        view: 'console/customer-settings',
        tab: 'settings',
        title: 'Settings',
        notices: { saved: 'Saved. It takes effect on the next request.' },
      };
      await renderCustomer(deps, req, res, page, customer, {
        form: Object.keys(form.values).length > 0 ? form : { ...form, values: given },
        hasMarkets: config.hasMarkets,
        hasSingleSignOn: config.singleSignOn !== undefined || customer.requireSingleSignOn,
      });
    },
  });
}

const TIMELINE = 12;

const icons = ['api-keys', 'credits', 'entitlements', 'members', 'plans', 'usage', 'webhooks'];
/** @param noun of an action, or the name of a tab */
const iconOf = (noun: string): string =>
  icons.find((icon) => [noun, `${noun}s`.replace('_', '-')].includes(icon)) ?? 'audit-log';

async function readTimeline(deps: CustomerDeps, customer: Organization) {
  const { wording, summaries } = deps;
  const { orm } = deps.db;
  const orgId = customer.id;
  const changes = await readLatestChanges(orm, wording, orgId, { limit: TIMELINE });
  const failures = await listFailures(orm, orgId, TIMELINE);
  const moments: Moment[] = failures.map(({ url, since }) => ({
    at: new Date(since),
    path: '/webhooks',
    what: say`The webhook endpoint ${{ name: url }} began to fail`,
  }));
  for (const summary of summaries)
    moments.push(...((await summary.listMoments?.(orm, orgId, TIMELINE)) ?? []));
  const entries = moments.map(({ path, what, ...moment }) => ({
    ...moment,
    icon: iconOf(path === '/events' ? 'usage' : path.slice(1)),
    what: what.map((part) => ('name' in part ? { ...part, href: addressOf(customer.slug) + path } : part)),
  }));
  const linked = changes.map(linkToTabs(deps, customer));
  return [...linked.map((entry) => ({ ...entry, icon: iconOf(entry.action.split('.', 1)[0]!) })), ...entries]
    .toSorted((a, b) => b.at.getTime() - a.at.getTime())
    .slice(0, TIMELINE);
}

/** Lowers the sign-in requirements, widens what the customer may do, or changes who pays for its usage. */
const isDangerous = (current: Organization, wanted: Parameters<typeof putOrganization>[2]): boolean =>
  (current.requireSecondFactor && !wanted.requireSecondFactor) ||
  (current.requireSingleSignOn && !wanted.requireSingleSignOn) ||
  (wanted.mayCorrect === true && !current.mayCorrect) ||
  (wanted.stripeCustomerId !== undefined && wanted.stripeCustomerId !== current.stripeCustomerId) ||
  marketAccesses.indexOf(wanted.marketAccess ?? 'none') > marketAccesses.indexOf(current.marketAccess);

function addArchive(router: Router, deps: ConsoleDeps): void {
  const confirmed = requireConfirmation(deps.clock);

  addForm(router, '/customers/:slug/archive', {
    before: [confirmed],
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const archived = parseInput(archiveSchema, fields).archived === 'yes';
      await changeAsOperator(deps, req, res, async (tx, source) => {
        const { name } = await getLockedOrganization(tx, slug);
        await putOrganization(tx, slug, { name, archived }, source);
      });
      res.redirect(303, toAddress(addressOf(slug), { done: archived ? 'archived' : 'restored' }));
    },
    async show(req, res, form) {
      const customer = await readCustomer(deps, req);
      const title = customer.archivedAt === null ? 'Archive' : 'Restore';
      await renderCustomer(deps, req, res, { view: 'console/archive', tab: 'settings', title }, customer, {
        form,
      });
    },
  });
}

async function toCustomerViews(
  { db, clock, summaries }: CustomerDeps,
  customers: Customer[],
  older: AllFacts['facts'] = [],
) {
  const ids = customers.map(({ id }) => id);
  const facts: Map<string, CustomerFacts>[] = [];
  for (const [i, summary] of summaries.entries()) {
    const read = await summary.read(db, clock.now(), ids, true);
    for (const [id, { keys, signals }] of read) if (older[i]?.has(id)) older[i].set(id, { keys, signals });
    facts.push(read);
  }
  return customers.map((customer) => {
    const parts = facts.map((own) => own.get(customer.id)!);
    return {
      ...customer,
      href: addressOf(customer.slug),
      parts: parts.map(({ data }) => data),
      flags: parts.flatMap(({ flags }) => flags),
    };
  });
}
