import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Request, Response } from 'express';
import type { SessionPerson, SessionPrincipal } from '../../identity/session/session.js';
import type { Clock } from '../clock.js';
import type { Database } from '../db/client.js';
import { createAssets } from '../http/assets.js';
import { listOrganizationsOf } from '../../identity/organizations/queries.js';
import type { Role } from '../../organizations/table.js';
import { toAddress } from './address.js';
import * as format from './format.js';
import { styleSheets } from './stylesheet.js';

export type PageDeps = { db: Database; clock: Clock };

/** The parts of the dashboard, in the order of its navigation. */
const sections: { id: string; href: string; label: string; roles?: readonly Role[] }[] = [
  { id: 'overview', href: '/dashboard', label: 'Overview' },
  { id: 'api-keys', href: '/dashboard/api-keys', label: 'API keys' },
  { id: 'usage', href: '/dashboard/usage', label: 'Usage' },
  { id: 'entitlements', href: '/dashboard/entitlements', label: 'Entitlements' },
  { id: 'markets', href: '/dashboard/markets', label: 'Markets' },
  { id: 'scores', href: '/dashboard/scores', label: 'Scores' },
  { id: 'portfolio', href: '/dashboard/portfolio', label: 'Portfolio' },
  { id: 'members', href: '/dashboard/members', label: 'Members' },
  { id: 'audit-log', href: '/dashboard/audit-log', label: 'Audit log', roles: ['owner', 'admin'] },
];

export interface Page {
  /** The template, below `views`. */
  view: string;
  title: string;
  /** Which entry of the navigation is the current one. */
  section?: string;
  /** `card`: a narrow page without navigation, for who is not signed in. */
  frame?: 'card' | 'dashboard';
  /** What the page says when a form that was carried out has led to it: by the word in `?done=`. */
  notices?: Record<string, string>;
}

/** The Organizations that the chooser in the header offers at most. */
const MAX_CHOICES = 100;

/** What templates write addresses, numbers and times with. */
const ui = { ...format, toAddress };

const require = createRequire(import.meta.url);
const folder = fileURLToPath(new URL('../../../views/assets', import.meta.url));

/** Styles and scripts of the pages. */
export const pageAssets = createAssets('/dashboard/assets', () => [
  ...readdirSync(folder)
    .sort()
    .map((name) => join(folder, name)),
  { name: 'gauge.css', files: styleSheets },
  // The package's small build is no module.
  {
    name: 'idiomorph.js',
    files: [require.resolve('idiomorph/dist/idiomorph.min.js')],
    end: 'export { Idiomorph };',
  },
]);

/**
 * Answers with a page in the dashboard's frame. `data` is the template's view object, complete: templates run no queries.
 * Beside it they see `ui` (formatting), `now`, and `me` (who is signed in, or undefined).
 */
export async function renderPage(
  { db, clock }: PageDeps,
  req: Request,
  res: Response,
  page: Page,
  data: object,
): Promise<void> {
  const me = res.locals.session as SessionPrincipal | undefined;
  const person = (res.locals.person as SessionPerson | undefined) ?? me;
  const organizations = person ? await listOrganizationsOf(db.orm, person.userId, MAX_CHOICES + 1) : [];
  res.render('layout', {
    ...data,
    ...page,
    frame: page.frame ?? 'dashboard',
    template: page.view,
    nonce: res.locals.nonce as string,
    assets: await pageAssets.base(),
    ui,
    now: new Date(clock.now()),
    me,
    person,
    organizations: organizations.slice(0, MAX_CHOICES),
    hasMoreOrganizations: organizations.length > MAX_CHOICES,
    navigation: me ? navigationOf(me.role, page.section) : [],
    notice: noticeOf(req, page.notices),
  });
}

function navigationOf(role: Role, current: string | undefined) {
  return sections
    .filter(({ roles }) => !roles || roles.includes(role))
    .map(({ id, href, label }) => ({ href, label, isCurrent: id === current }));
}

/** The word of `?done=` stands for one of the page's own texts: an address cannot make a page say anything else. */
function noticeOf({ query }: Request, notices: Record<string, string> = {}): string | undefined {
  const { done } = query;
  return typeof done === 'string' && Object.hasOwn(notices, done) ? notices[done] : undefined;
}
