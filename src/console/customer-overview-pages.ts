import type { Router } from 'express';
import { z } from 'zod';
import { toAddress, type Query } from '../core/pages/address.js';
import { parseQueryForm, readQuery, type FormFields } from '../core/pages/form.js';
import { say } from '../accounts/audit/wording.js';
import type { Organization } from '../accounts/identity/organizations/queries.js';
import { readLatestChanges } from '../dashboard/audit-log/view.js';
import { listFailures } from './customer-queries.js';
import type { Moment } from './customer-summary.js';
import { addressOf, linkToTabs, listTabs, readCustomer, renderCustomer, type CustomerDeps } from './page.js';

const notices = {
  created: 'Customer created.',
  archived: 'Archived. Its API keys and pages stop working, starting with the next request.',
  restored: 'Restored. Everything is as it was.',
};

export function addOverview(router: Router, deps: CustomerDeps): void {
  const { summaries } = deps;

  router.get('/customers/:slug', async (req, res) => {
    const customer = await readCustomer(deps, req);
    const [panels, states, timeline] = await Promise.all([
      Promise.all(
        summaries.flatMap(({ panel }) =>
          panel ? panel.read(deps, customer.id).then((data) => ({ ...panel, data })) : [],
        ),
      ),
      Promise.all(
        listTabs(deps).map(async (tab) => ({
          ...tab,
          ...(await tab.read?.(deps.db.orm, customer, deps.clock.now())),
        })),
      ),
      readTimeline(deps, customer, readQuery(req)),
    ]);
    const page = { view: 'console/customer', tab: 'overview', title: 'Overview', notices };
    await renderCustomer(deps, req, res, page, customer, { panels, states, timeline });
  });
}

/** Entries at first, then twice as many each time. */
const lengths = [12, 24, 48, 96, 192];

const timelineSchema = z.object({
  kind: z.enum(['usage', 'credits', 'keys', 'webhooks', 'people', 'all']).optional(),
  entries: z
    .enum(lengths.map(String), `must be one of ${lengths.join(', ')}`)
    .default('12')
    .transform(Number),
});

const kinds: { id: z.output<typeof timelineSchema>['kind']; label: string; nouns?: string[] }[] = [
  { id: undefined, label: 'Highlights' },
  { id: 'usage', label: 'Usage', nouns: ['usage', 'usage_alert', 'entitlement', 'entitlements'] },
  { id: 'credits', label: 'Credits', nouns: ['credits', 'plan'] },
  { id: 'keys', label: 'API keys', nouns: ['api_key'] },
  { id: 'webhooks', label: 'Webhooks', nouns: ['webhook', 'webhooks'] },
  { id: 'people', label: 'People', nouns: ['member', 'invitation', 'customer'] },
  { id: 'all', label: 'Everything' },
];

/** Highlights changed money, the plan or access, or need a decision. Grants of a plan follow from it. */
const routine = [
  'api_key.',
  'credits.granted plan:',
  'credits.voided plan:',
  'customer.viewed',
  'invitation.',
  'member.',
  'portal_session.',
  'webhook.',
];

const nounOf = (action: string): string => action.split('.', 1)[0]!;
const tabOf = (path: string): string => path.slice(1).split('?', 1)[0]!;

const icons = ['api-keys', 'credits', 'entitlements', 'members', 'plans', 'usage', 'webhooks'];
/** @param noun of an action, or the name of a tab */
const iconOf = (noun: string): string =>
  icons.find((icon) => [noun, `${noun}s`.replace('_', '-')].includes(icon)) ?? 'audit-log';

async function readTimeline(deps: CustomerDeps, customer: Organization, query: FormFields) {
  const { wording, summaries } = deps;
  const { orm } = deps.db;
  const orgId = customer.id;
  const { kind, entries: length } = parseQueryForm(timelineSchema, query);
  const nouns = kinds.find(({ id }) => id === kind)!.nouns;
  const isShown = (noun: string) => nouns?.includes(noun) ?? true;
  const others = Object.keys(wording.sentences).filter((action) => !isShown(nounOf(action)));
  const without = kind === undefined ? routine : others;
  const limit = length + 1;
  const [rows, failures, ...found] = await Promise.all([
    readLatestChanges(orm, wording, orgId, {
      limit,
      isLive: kind === undefined,
      ...(without.length > 0 && { without }),
    }),
    listFailures(orm, orgId, limit),
    ...summaries.map((summary) => summary.listMoments?.(orm, orgId, limit) ?? []),
  ]);
  const failed: Moment[] = failures.map(({ id, url, since }) => ({
    at: new Date(since),
    path: `/webhooks/${id}`,
    isWarning: true,
    what: say`The webhook endpoint ${{ name: url }} began to fail`,
  }));
  const entries = [
    ...rows
      .map(linkToTabs(deps, customer))
      .map((entry) => ({ ...entry, noun: nounOf(entry.action), icon: iconOf(nounOf(entry.action)) })),
    ...[...failed, ...found.flat()].map(({ path, what, isWarning, ...moment }) => ({
      ...moment,
      noun: tabOf(path),
      icon: isWarning ? 'warning' : iconOf(tabOf(path)),
      what: what.map((part) => ('name' in part ? { ...part, href: addressOf(customer.slug) + path } : part)),
    })),
  ]
    .filter(({ noun }) => isShown(noun))
    .toSorted((a, b) => b.at.getTime() - a.at.getTime());
  const hasMore = entries.length > length;
  const next = lengths[lengths.indexOf(length) + 1];
  const to = (shown: Query) => `${toAddress(addressOf(customer.slug), shown)}#changes`;
  return {
    changes: entries.slice(0, length),
    kinds: kinds.map(({ id, label }) => ({ label, href: to({ kind: id }), isCurrent: id === kind })),
    more: hasMore && next ? to({ kind, entries: next }) : undefined,
  };
}
