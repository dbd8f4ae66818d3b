import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { nameField, parseInput, text } from '../core/http/validate.js';
import { toAddress, toPager } from '../core/pages/address.js';
import {
  postForm,
  addForm,
  fieldError,
  newForm,
  type FormState,
  parseQueryForm,
  readQuery,
  tryQuery,
} from '../core/pages/form.js';
import { renderPage, pageRouter } from '../core/pages/layout.js';
import { shareRun } from '../core/steps.js';
import { MINUTE_MS } from '../core/time.js';
import { filledIn } from '../accounts/identity/account/schema.js';
import type { Wording } from '../accounts/audit/wording.js';
import { countMembers } from '../accounts/identity/members/queries.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { fillInSlug, slugSchema, stripeCustomerField } from '../accounts/identity/operator/schema.js';
import { getLockedOrganization, putOrganization } from '../accounts/identity/organizations/organizations.js';
import { lockOrganization, type Organization } from '../accounts/identity/organizations/queries.js';
import { marketAccesses, type MarketAccess } from '../accounts/organizations/table.js';
import { confirmDanger, requireConfirmation } from '../accounts/identity/session/operator.js';
import { readLatestChanges, withoutLinks } from '../dashboard/audit-log/view.js';
import {
  findCustomer,
  listCustomers,
  ownSignals,
  states,
  type Customer,
  type Signal,
} from './customer-queries.js';
import type { CustomerFacts, CustomerSummary } from './customer-summary.js';
import { readOperatorChanges } from './audit-pages.js';
import { addressOf, CONSOLE, PAGE_SIZE, readCustomer, renderCustomer, type ConsoleDeps } from './page.js';

const querySchema = z.object({
  search: text(254).optional(),
  state: z.enum(states, 'must be one of the options').default('current'),
  cursor: slugSchema.optional(),
});

const marketAccess = z.enum(marketAccesses, 'must be one of the options').optional();
const newSchema = z.strictObject({ slug: slugSchema, name: nameField, marketAccess });
const settingsSchema = z.strictObject({
  name: nameField,
  requireSecondFactor: z.literal('yes').optional(),
  requireSingleSignOn: z.literal('yes').optional(),
  mayCorrect: z.literal('yes').optional(),
  marketAccess,
  stripeCustomerId: stripeCustomerField.optional(),
});
export const archiveSchema = z.strictObject({ archived: z.enum(['yes', 'no'], 'must be yes or no') });

interface CustomerDeps extends ConsoleDeps {
  wording: Wording;
  summaries: readonly CustomerSummary[];
}

export function customerPages(deps: CustomerDeps): Router {
  const router = pageRouter();
  addList(router, deps);
  addSettings(router, deps);
  addArchive(router, deps);
  return router;
}

function addList(router: Router, deps: CustomerDeps): void {
  const { db, clock, config, summaries, wording } = deps;
  const signals = [...summaries.flatMap((summary) => summary.signals), ...ownSignals];
  const schema = querySchema.extend({
    signal: z
      .enum(
        signals.map(({ id }) => id),
        'must be one of the options',
      )
      .optional(),
  });
  const readAttention = createAttention(deps, signals);
  const { hasMarkets } = config;
  const first = config.firstMarketAccess;

  router.get('/', async (req, res) => {
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      const { search, cursor, signal, state } = parseQueryForm(schema, query);
      const filter = {
        state,
        search: search?.trim() || undefined,
        signal: signals.find(({ id }) => id === signal),
      };
      const range = { after: cursor, limit: PAGE_SIZE };
      const { customers, nextCursor } = await listCustomers(db, clock.now(), filter, range);
      const shown = {
        search: filter.search,
        signal,
        state: query.state as string | undefined,
      };
      const views = await toCustomerViews(deps, customers);
      return { customers: views, pager: toPager(CONSOLE, shown, { cursor, nextCursor }) };
    });
    const page = { view: 'console/customers', title: 'Customers', section: 'customers' };
    const isFirst = Object.keys(query).length === 0 && result?.customers.length;
    await renderPage(deps, req, res, page, {
      news: isFirst && {
        attention: await readAttention(),
        changes: await readOperatorChanges(db.orm, wording, LATEST_CHANGES),
      },
      form: { ...form, values: { state: 'current', ...form.values } },
      customers: result?.customers,
      signals,
      summaries,
      pager: result?.pager,
      isFiltered: Object.keys(query).some((field) => field !== 'cursor'),
    });
  });

  const showNew = (req: Request, res: Response, form: FormState) =>
    renderPage(
      deps,
      req,
      res,
      { view: 'console/new-customer', title: 'New customer', section: 'customers' },
      { form, hasMarkets },
    );

  router.get('/new-customer', (req, res) => showNew(req, res, newForm({ marketAccess: first })));

  postForm(router, '/new-customer', {
    async act(req, res, fields) {
      fillInSlug(fields, 'slug', 'name');
      const { slug, name, marketAccess = first } = parseInput(newSchema, filledIn(fields));
      await changeAsOperator(deps, req, res, async (tx, source) => {
        if (await lockOrganization(tx, { slug })) throw fieldError('slug', 'is taken by another customer');
        await putOrganization(tx, slug, { name: name.trim(), marketAccess }, source);
      });
      res.redirect(303, toAddress(addressOf(slug), { done: 'created' }));
    },
    show: showNew,
  });
}

const LATEST_CHANGES = 10;
/** Beside each flag. */
const NAMED = 3;

/** For a minute: the caps alone read all of the month's totals. */
function createAttention(deps: CustomerDeps, signals: readonly Signal[]) {
  let found: { atMs: number; flags: Awaited<ReturnType<typeof readFlags>> } | undefined;
  const { run } = shareRun(
    async () => (found = { atMs: deps.clock.now(), flags: await readFlags(deps, signals) }),
  );
  return async () => {
    const isFresh = found && Math.abs(deps.clock.now() - found.atMs) < MINUTE_MS;
    return (isFresh ? found! : await run()).flags;
  };
}

async function readFlags({ db, clock }: CustomerDeps, signals: readonly Signal[]) {
  const found: { label: string; href: string; named: object[]; hasMore: boolean }[] = [];
  for (const signal of signals.filter(({ isNarrow }) => !isNarrow)) {
    const range = { after: undefined, limit: NAMED };
    const { customers, nextCursor } = await listCustomers(
      db,
      clock.now(),
      { signal, state: 'current' },
      range,
    );
    if (customers.length > 0)
      found.push({
        label: signal.label,
        href: toAddress(CONSOLE, { signal: signal.id }),
        named: customers.map(({ slug, name }) => ({ name, href: addressOf(slug) + signal.path })),
        hasMore: nextCursor !== undefined,
      });
  }
  return found;
}

const notices = {
  created: 'Customer created. Grant an entitlement and invite an owner next.',
  saved: 'Saved. It takes effect on the next request.',
  archived: 'Archived. Its API keys and pages stop working, starting with the next request.',
  restored: 'Restored. Everything is as it was.',
};

function addSettings(router: Router, deps: CustomerDeps): void {
  const { db, clock, config, wording, summaries } = deps;

  addForm(router, '/customers/:slug', {
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
      res.redirect(303, toAddress(addressOf(slug), { done: 'saved' }));
    },
    async show(req, res, form) {
      const customer = await readCustomer(deps, req);
      const found = (await findCustomer(db.orm, clock.now(), customer.slug))!;
      const [summary] = await toCustomerViews(deps, [found]);
      const memberCount = await countMembers(db.orm, customer.id);
      const panels: { view: string; data: object }[] = [];
      for (const { panel } of summaries)
        if (panel) panels.push({ view: panel.view, data: await panel.read(deps, customer.id) });
      const changes = await readLatestChanges(db.orm, wording, customer.id);
      const { name, requireSecondFactor, requireSingleSignOn, mayCorrect, marketAccess, stripeCustomerId } =
        customer;
      const given = {
        name,
        requireSecondFactor: requireSecondFactor ? 'yes' : '',
        requireSingleSignOn: requireSingleSignOn ? 'yes' : '',
        mayCorrect: mayCorrect ? 'yes' : '',
        marketAccess,
        stripeCustomerId: stripeCustomerId ?? '',
      };
      const page = { view: 'console/customer', tab: 'overview', title: 'Overview', notices };
      await renderCustomer(deps, req, res, page, customer, {
        form: Object.keys(form.values).length > 0 ? form : { ...form, values: given },
        summary,
        panels,
        changes: changes.map(withoutLinks),
        hasMarkets: config.hasMarkets,
        hasSingleSignOn: config.singleSignOn !== undefined || requireSingleSignOn,
        memberCount,
      });
    },
  });
}

/** Lowers the sign-in requirements, widens what the customer may do, or changes who pays for its usage. */
const isDangerous = (
  current: Organization,
  wanted: {
    requireSecondFactor: boolean;
    requireSingleSignOn: boolean;
    marketAccess: MarketAccess | undefined;
    mayCorrect: boolean;
    stripeCustomerId: string | null | undefined;
  },
): boolean =>
  (current.requireSecondFactor && !wanted.requireSecondFactor) ||
  (current.requireSingleSignOn && !wanted.requireSingleSignOn) ||
  (wanted.mayCorrect && !current.mayCorrect) ||
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
      await renderCustomer(deps, req, res, { view: 'console/archive', tab: 'overview', title }, customer, {
        form,
      });
    },
  });
}

async function toCustomerViews({ db, clock, summaries }: CustomerDeps, customers: Customer[]) {
  const ids = customers.map(({ id }) => id);
  const read: { summary: CustomerSummary; facts: Map<string, CustomerFacts> }[] = [];
  for (const summary of summaries)
    read.push({ summary, facts: await summary.read(db.orm, clock.now(), ids) });
  return customers.map((customer) => {
    const parts = read.map(({ summary, facts }) => ({ ...summary, ...facts.get(customer.id)! }));
    return {
      ...customer,
      href: addressOf(customer.slug),
      parts,
      flags: parts.flatMap(({ flags }) => flags),
    };
  });
}
