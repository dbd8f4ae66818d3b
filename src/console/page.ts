import type { Request, Response } from 'express';
import type { z } from 'zod';
import { AppError } from '../core/errors.js';
import { fromCursor } from '../core/http/page.js';
import { text } from '../core/http/validate.js';
import { renderPage } from '../core/pages/layout.js';
import { slugSchema } from '../accounts/identity/operator/schema.js';
import { getOrganization } from '../accounts/identity/organizations/organizations.js';
import type { Organization } from '../accounts/identity/organizations/queries.js';
import type { Context } from '../core/http/context.js';

export type ConsoleDeps = Pick<Context, 'db' | 'clock' | 'config'>;

export const CONSOLE = '/console';
export const PEOPLE = `${CONSOLE}/people`;
export const PAGE_SIZE = 50;

export const addressOf = (slug: string): string => `${CONSOLE}/customers/${slug}`;

/** @throws AppError not_found */
export function readSlug(req: Request, thing: string): string {
  const slug = slugSchema.safeParse(req.params.slug);
  if (!slug.success) throw new AppError('not_found', `There is no such ${thing}.`);
  return slug.data;
}

/** @throws AppError not_found */
export const readCustomer = (deps: ConsoleDeps, req: Request): Promise<Organization> =>
  getOrganization(deps.db.orm, readSlug(req, 'Organization'));

const tabs = [
  { id: 'overview', path: '', label: 'Overview' },
  { id: 'people', path: '/people', label: 'People' },
  { id: 'entitlements', path: '/entitlements', label: 'Entitlements' },
  { id: 'keys', path: '/keys', label: 'API keys' },
  { id: 'usage', path: '/usage', label: 'Usage' },
  { id: 'trading', path: '/trading', label: 'Trading', isOfMarkets: true },
  { id: 'audit-log', path: '/audit-log', label: 'Audit log' },
] as const;

export interface CustomerPage {
  /** Template below `views/console`. */
  view: string;
  tab: (typeof tabs)[number]['id'];
  title: string;
  notices?: Record<string, string>;
}

export function renderCustomer(
  deps: ConsoleDeps,
  req: Request,
  res: Response,
  { view, tab, title, notices = {} }: CustomerPage,
  customer: Organization,
  data: object,
): Promise<void> {
  const base = addressOf(customer.slug);
  const shown = tabs.filter((one) => deps.config.hasMarkets || !('isOfMarkets' in one));
  const page = {
    view: `console/${view}`,
    title: `${title}: ${customer.name}`,
    section: 'customers',
    notices,
  };
  return renderPage(deps, req, res, page, {
    ...data,
    customer,
    base,
    tabs: shown.map(({ id, path, label }) => ({ href: base + path, label, isCurrent: id === tab })),
  });
}

/** @throws AppError not_found */
export function decodeKey(
  cursor: string | undefined,
  schema: z.ZodType<string> = text(254),
): string | undefined {
  if (cursor === undefined) return undefined;
  const key = schema.safeParse(fromCursor(cursor));
  if (key.success) return key.data;
  throw new AppError('not_found', 'This page of the list does not exist. Start again with the first one.');
}
