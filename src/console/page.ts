import type { Request, Response } from 'express';
import type { z } from 'zod';
import { AppError } from '../core/errors.js';
import { fromCursor } from '../core/http/page.js';
import { text } from '../core/http/validate.js';
import { renderPage, type Page } from '../core/pages/layout.js';
import { slugSchema } from '../accounts/identity/operator/schema.js';
import { findOrganization, type Organization } from '../accounts/identity/organizations/queries.js';
import { say, type Wording } from '../accounts/audit/wording.js';
import type { Orm } from '../core/db/client.js';
import type { Context } from '../core/http/context.js';
import { withoutLinks, type EntryView } from '../dashboard/audit-log/view.js';
import { toCustomerViews, type FactsDeps } from './customer-facts.js';
import { findCustomer, readKeys, readPeople, readWebhooks } from './customer-queries.js';

export interface ConsoleDeps extends FactsDeps, Pick<Context, 'config'> {
  tabs: readonly CustomerTab[];
}

export interface CustomerDeps extends ConsoleDeps, Pick<Context, 'metrics'> {
  wording: Wording;
}

export interface CustomerTab {
  id: string;
  /** Among the tabs. */
  place: number;
  /** Relative to the customer's page. */
  path: string;
  label: string;
  /** Synonyms for the search. */
  words?: string;
  /** The overview shows this beside the label. */
  read?(orm: Orm, customer: Organization, nowMs: number): Promise<TabState>;
}

export interface TabState {
  state: string;
  note?: string;
  at?: Date;
  tone?: 'bad' | 'warn';
}

export const CONSOLE = '/console';
export const PEOPLE = `${CONSOLE}/people`;
export const PAGE_SIZE = 50;

export const addressOf = (slug: string): string => `${CONSOLE}/customers/${slug}`;

export function readSlug(req: Request, thing: string): string {
  const slug = slugSchema.safeParse(req.params.slug);
  if (!slug.success) throw new AppError('not_found', `There is no such ${thing}.`);
  return slug.data;
}

export async function readCustomer({ db }: ConsoleDeps, req: Request): Promise<Organization> {
  const slug = readSlug(req, 'customer');
  const customer = await findOrganization(db.orm, { slug });
  if (!customer) throw new AppError('not_found', `There is no customer “${slug}”.`);
  return customer;
}

const ownTabs: CustomerTab[] = [
  { id: 'overview', place: 1, path: '', label: 'Overview' },
  { id: 'people', place: 2, path: '/people', label: 'People', read: readPeople },
  { id: 'keys', place: 4, path: '/keys', label: 'API keys', read: readKeys },
  { id: 'portal', place: 6.5, path: '/portal', label: 'Portal' },
  { id: 'webhooks', place: 7, path: '/webhooks', label: 'Webhooks', read: readWebhooks },
  { id: 'audit-log', place: 8, path: '/audit-log', label: 'Audit log' },
  { id: 'settings', place: 9, path: '/settings', label: 'Settings' },
];

const aliases: Record<string, string> = { api_key: 'keys', member: 'people', invitation: 'people' };

export const inOperatorsWords = (text: string): string =>
  text.replace(/\b(the|this) Organization\b/, '$1 customer').replace(/^Organization\b/, 'Customer');

export const listTabs = ({ tabs }: Pick<ConsoleDeps, 'tabs'>): CustomerTab[] =>
  [...ownTabs, ...tabs].sort((a, b) => a.place - b.place);

/** In the operator's words, with links to the customer's tabs instead of its dashboard. */
export function linkToTabs(deps: ConsoleDeps, { slug }: Organization) {
  const tabs = listTabs(deps);
  return (entry: EntryView): EntryView => {
    const noun = entry.action.split('.', 1)[0]!;
    const tab = tabs.find(({ id }) => [noun, `${noun}s`, aliases[noun]].includes(id));
    const base = addressOf(slug);
    // The pages of endpoints and events have the same addresses in both places.
    const link = (href: string | undefined) =>
      href &&
      tab &&
      (/^(webhook|usage)\./.test(entry.action) ? href.replace(/^\/dashboard/, base) : base + tab.path);
    const what = entry.what.map((part) =>
      'name' in part ? { ...part, href: link(part.href) } : { text: inOperatorsWords(part.text) },
    );
    const isView = entry.action === 'customer.viewed';
    return { ...withoutLinks(entry), what: isView ? say`Viewed the portal as the customer` : what };
  };
}

export async function renderCustomer(
  deps: ConsoleDeps,
  req: Request,
  res: Response,
  { tab, title, ...page }: Page & { tab: string },
  customer: Organization,
  data: object,
): Promise<void> {
  const base = addressOf(customer.slug);
  const { db, clock, log, summaries } = deps;
  const isOverview = tab === 'overview';
  const found = (await findCustomer(db.orm, clock.now(), customer.slug))!;
  // Other tabs also open while a shard group is away.
  const [summary] = await toCustomerViews(deps, [found], { withTrends: isOverview }).catch(
    (error: unknown) => {
      if (isOverview) throw error;
      log.warn({ err: error, organization: customer.slug }, 'the figures of a customer could not be read');
      return [];
    },
  );
  const shown = { ...page, head: 'console/head', title: `${title}: ${customer.name}`, section: 'customers' };
  await renderPage(deps, req, res, shown, {
    ...data,
    customer,
    base,
    summary,
    isOverview,
    headers: summaries.map(({ header }) => header),
    mainActions: summaries.flatMap(({ actions = [] }) => actions),
    tabs: listTabs(deps).map(({ id, path, label }) => ({ href: base + path, label, isCurrent: id === tab })),
  });
}

export function decodeKey(cursor: string | undefined, schema: z.ZodType<string> = text(254)) {
  if (cursor === undefined) return undefined;
  const key = schema.safeParse(fromCursor(cursor));
  if (key.success) return key.data;
  throw new AppError('not_found', 'This page of the list does not exist. Start again with the first one.');
}
