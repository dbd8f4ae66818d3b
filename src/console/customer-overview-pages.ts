import type { Router } from 'express';
import { DAY_MS } from '../core/time.js';
import { say } from '../accounts/audit/wording.js';
import { countMembers } from '../accounts/identity/members/queries.js';
import type { Organization } from '../accounts/identity/organizations/queries.js';
import { readLatestChanges, type EntryView } from '../dashboard/audit-log/view.js';
import { findCustomer, listFailures } from './customer-queries.js';
import type { Moment } from './customer-summary.js';
import { addressOf, linkToTabs, readCustomer, renderCustomer } from './page.js';
import { type CustomerDeps, toCustomerViews } from './customer-facts.js';

const notices = {
  created: 'Customer created.',
  archived: 'Archived. Its API keys and pages stop working, starting with the next request.',
  restored: 'Restored. Everything is as it was.',
};

export function addOverview(router: Router, deps: CustomerDeps): void {
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

const TIMELINE = 12;

const icons = ['api-keys', 'credits', 'entitlements', 'members', 'plans', 'usage', 'webhooks'];
/** @param noun of an action, or the name of a tab */
const iconOf = (noun: string): string =>
  icons.find((icon) => [noun, `${noun}s`.replace('_', '-')].includes(icon)) ?? 'audit-log';

/** Only the latest view of a day and person. */
const isFirstOfDay = (entry: EntryView, i: number, all: EntryView[]): boolean => {
  const name = ({ action, actor, at }: EntryView) =>
    `${action} ${actor.id} ${Math.floor(at.getTime() / DAY_MS)}`;
  return entry.action !== 'customer.viewed' || all.findIndex((one) => name(one) === name(entry)) === i;
};

async function readTimeline(deps: CustomerDeps, customer: Organization) {
  const { wording, summaries } = deps;
  const { orm } = deps.db;
  const orgId = customer.id;
  const changes = (await readLatestChanges(orm, wording, orgId, { limit: 2 * TIMELINE })).filter(
    isFirstOfDay,
  );
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
