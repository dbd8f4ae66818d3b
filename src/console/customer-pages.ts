import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { nameField, parseInput, text } from '../core/http/validate.js';
import { toAddress, toPager } from '../core/pages/address.js';
import {
  addForm,
  fieldError,
  formRoute,
  newForm,
  type FormState,
  parseQueryForm,
  readQuery,
  tryQuery,
} from '../core/pages/form.js';
import { formatShare } from '../core/pages/format.js';
import { renderPage, pageRouter } from '../core/pages/layout.js';
import { filledIn } from '../accounts/identity/account/schema.js';
import { countMembers } from '../accounts/identity/members/queries.js';
import { changeAsOperator } from '../accounts/identity/operator/http.js';
import { slugSchema } from '../accounts/identity/operator/schema.js';
import { getLockedOrganization, putOrganization } from '../accounts/identity/organizations/organizations.js';
import { lockOrganization, type Organization } from '../accounts/identity/organizations/queries.js';
import { marketAccesses, type MarketAccess } from '../accounts/organizations/table.js';
import { confirmDanger, requireConfirmation } from '../accounts/identity/session/operator.js';
import {
  findCustomer,
  listCustomers,
  signals,
  states,
  type Customer,
  type ProductUse,
} from './customer-queries.js';
import { addressOf, CONSOLE, PAGE_SIZE, readCustomer, renderCustomer, type ConsoleDeps } from './page.js';

const querySchema = z.object({
  search: text(254).optional(),
  signal: z.enum(signals, 'must be one of the choices').optional(),
  state: z.enum(states, 'must be one of the choices').default('current'),
  cursor: slugSchema.optional(),
});

const marketAccess = z.enum(marketAccesses, 'must be one of the choices').optional();
const newSchema = z.strictObject({ slug: slugSchema, name: nameField, marketAccess });
const settingsSchema = z.strictObject({
  name: nameField,
  requireSecondFactor: z.literal('yes').optional(),
  marketAccess,
});
export const archiveSchema = z.strictObject({ archived: z.enum(['yes', 'no'], 'must be yes or no') });

/** `/console`: the customers and their settings. */
export function customerPages(deps: ConsoleDeps): Router {
  const router = pageRouter();
  addList(router, deps);
  addSettings(router, deps);
  addArchive(router, deps);
  return router;
}

function addList(router: Router, deps: ConsoleDeps): void {
  const { db, clock, config } = deps;
  const { hasMarkets } = config;
  const first = config.firstMarketAccess;

  router.get('/', async (req, res) => {
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      const { search, cursor, ...rest } = parseQueryForm(querySchema, query);
      const filter = { ...rest, search: search?.trim() || undefined };
      const range = { after: cursor, limit: PAGE_SIZE };
      const { customers, nextCursor } = await listCustomers(db, clock.now(), filter, range);
      const shown = {
        search: filter.search,
        signal: filter.signal,
        state: query.state as string | undefined,
      };
      return { customers, pager: toPager(CONSOLE, shown, { cursor, nextCursor }) };
    });
    const page = { view: 'console/customers', title: 'Customers', section: 'customers' };
    await renderPage(deps, req, res, page, {
      form: { ...form, values: { state: 'current', ...form.values } },
      customers: result?.customers.map(toCustomerView),
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

  router.post(
    '/new-customer',
    formRoute({
      async act(req, res, fields) {
        const { slug, name, marketAccess = first } = parseInput(newSchema, filledIn(fields));
        await changeAsOperator(deps, req, res, async (tx, source) => {
          if (await lockOrganization(tx, { slug })) throw fieldError('slug', 'is taken by another customer');
          await putOrganization(tx, slug, { name: name.trim(), marketAccess }, source);
        });
        res.redirect(303, toAddress(addressOf(slug), { done: 'created' }));
      },
      show: showNew,
    }),
  );
}

const notices = {
  created: 'Customer created. Grant an entitlement and invite an owner next.',
  saved: 'Saved. It takes effect on the next request.',
  archived: 'Archived. Its API keys and pages stop working from the next request on.',
  restored: 'Restored. Everything is as it was.',
};

function addSettings(router: Router, deps: ConsoleDeps): void {
  const { db, clock, config } = deps;

  const show = async (req: Request, res: Response, form: FormState) => {
    const customer = await readCustomer(deps, req);
    const found = (await findCustomer(db.orm, clock.now(), customer.slug))!;
    const memberCount = await countMembers(db.orm, customer.id);
    const { name, requireSecondFactor, marketAccess } = customer;
    const given = { name, requireSecondFactor: requireSecondFactor ? 'yes' : '', marketAccess };
    const page = { view: 'customer', tab: 'overview', title: 'Overview', notices } as const;
    await renderCustomer(deps, req, res, page, customer, {
      form: Object.keys(form.values).length > 0 ? form : { ...form, values: given },
      summary: toCustomerView(found),
      hasMarkets: config.hasMarkets,
      memberCount,
    });
  };

  addForm(router, '/customers/:slug', {
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const { name, requireSecondFactor, marketAccess } = parseInput(settingsSchema, filledIn(fields));
      const input = {
        name: name.trim(),
        requireSecondFactor: requireSecondFactor === 'yes',
        marketAccess,
      };
      await changeAsOperator(deps, req, res, async (tx, source) => {
        if (isLoosened(await getLockedOrganization(tx, slug), input)) await confirmDanger(tx, res, source);
        await putOrganization(tx, slug, input, source);
      });
      res.redirect(303, toAddress(addressOf(slug), { done: 'saved' }));
    },
    show,
  });
}

/** True if members need fewer proofs than before, or may do more. */
const isLoosened = (
  current: Organization,
  wanted: { requireSecondFactor: boolean; marketAccess: MarketAccess | undefined },
): boolean =>
  (current.requireSecondFactor && !wanted.requireSecondFactor) ||
  marketAccesses.indexOf(wanted.marketAccess ?? 'none') > marketAccesses.indexOf(current.marketAccess);

function addArchive(router: Router, deps: ConsoleDeps): void {
  const confirmed = requireConfirmation(deps.clock);

  const show = async (req: Request, res: Response, form: FormState) => {
    const customer = await readCustomer(deps, req);
    const title = customer.archivedAt === null ? 'Archive' : 'Restore';
    await renderCustomer(deps, req, res, { view: 'archive', tab: 'overview', title }, customer, { form });
  };

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
    show,
  });
}

const NEAR = 0.8;

const toCustomerView = ({ uses, productCount, ...customer }: Customer) => {
  const views = uses.map(toUseView);
  return {
    ...customer,
    href: addressOf(customer.slug),
    uses: views,
    moreUses: productCount - uses.length,
    // The views are sorted by share, highest first.
    isOver: (views[0]?.share ?? 0) >= 1,
    isNear: (views[0]?.share ?? 0) >= NEAR,
  };
};

function toUseView({ used, cap, ...product }: ProductUse) {
  if (cap === null) return { ...product, used, cap, share: undefined, percent: undefined };
  const share = Number(cap) > 0 ? Number(used) / Number(cap) : 1;
  return { ...product, used, cap, share, percent: formatShare(used, cap) };
}
