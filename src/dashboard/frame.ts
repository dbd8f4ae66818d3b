import type { Orm } from '../core/db/client.js';
import type { Context } from '../core/http/context.js';
import type { ReadFrame } from '../core/pages/layout.js';
import { listOrganizationsOf } from '../accounts/identity/organizations/queries.js';
import type { SessionPerson, SessionPrincipal } from '../accounts/identity/session/session.js';
import { isManager } from '../accounts/organizations/table.js';

export interface Section {
  id: string;
  href: string;
  label: string;
  /** Synonyms for the search. */
  words?: string;
  /** A gap precedes the section. */
  beginsGroup?: true;
  /** Default: every member. */
  isShownTo?: (me: SessionPrincipal) => boolean;
  /** Default: every Organization. */
  isOffered?: (orm: Orm, orgId: string) => Promise<boolean>;
}

const firstSections: Section[] = [
  { id: 'overview', href: '/dashboard', label: 'Overview' },
  { id: 'api-keys', href: '/dashboard/api-keys', label: 'API keys', words: 'secret token' },
  {
    id: 'webhooks',
    href: '/dashboard/webhooks',
    label: 'Webhooks',
    words: 'endpoints',
    isShownTo: ({ role }) => isManager(role),
  },
];

const lastSections: Section[] = [
  { id: 'members', href: '/dashboard/members', label: 'Members', words: 'people roles', beginsGroup: true },
  {
    id: 'audit-log',
    href: '/dashboard/audit-log',
    label: 'Audit log',
    words: 'history changes',
    isShownTo: ({ role }) => isManager(role),
  },
];

const MAX_CHOICES = 100;

/** An operator without an Organization has the console's menu on the account pages, too. */
export function createFrame(
  { db }: Pick<Context, 'db'>,
  products: readonly { sections: Section[]; consoleSections: ConsoleSection[] }[],
): ReadFrame {
  const sections = products.flatMap((product) => product.sections);
  const readConsole = createConsoleFrame(
    { db },
    products.flatMap((product) => product.consoleSections),
  );
  return async (res, section) => {
    const me = res.locals.session as SessionPrincipal | undefined;
    const person = (res.locals.person as SessionPerson | undefined) ?? me;
    if (!me && person?.isOperator) return readConsole(res, section);
    const shown = me && !me.isArchived ? await listSections(db.orm, sections, me) : [];
    const organizations = person ? await listOrganizationsOf(db.orm, person.userId, MAX_CHOICES + 1) : [];
    return {
      me,
      person,
      organizations: organizations.slice(0, MAX_CHOICES),
      hasMoreOrganizations: organizations.length > MAX_CHOICES,
      place: 'Dashboard',
      home: '/dashboard',
      navigation: shown.map((each) => ({ ...each, isCurrent: each.id === section })),
    };
  };
}

/** Products' sections are between the dashboard's own. */
export async function listSections(orm: Orm, sections: readonly Section[], me: SessionPrincipal) {
  const shown = [...firstSections, ...sections, ...lastSections].filter(
    ({ isShownTo }) => !isShownTo || isShownTo(me),
  );
  const offered = await Promise.all(
    shown.map(async ({ isOffered }) => (await isOffered?.(orm, me.orgId)) ?? true),
  );
  return shown.filter((_, i) => offered[i]);
}

export type ConsoleSection = Pick<Section, 'id' | 'href' | 'label' | 'words'>;

const firstConsoleSections: ConsoleSection[] = [
  { id: 'customers', href: '/console', label: 'Customers', words: 'organizations alerts statement' },
];
const lastConsoleSections: ConsoleSection[] = [
  { id: 'service-keys', href: '/console/service-keys', label: 'Service keys', words: 'rotate revoke' },
  { id: 'operators', href: '/console/operators', label: 'Operators' },
  { id: 'people', href: '/console/people', label: 'People' },
  { id: 'audit-log', href: '/console/audit-log', label: 'Audit log' },
];
const shardSection = { id: 'shards', href: '/console/shards', label: 'Shard groups' };

/** Independent of the operator's own Organizations. */
export function createConsoleFrame(
  context: Pick<Context, 'db'>,
  sections: readonly ConsoleSection[],
): ReadFrame {
  const all = listConsoleSections(context, sections);
  return (res, section) =>
    Promise.resolve({
      me: undefined,
      person: res.locals.person as SessionPerson,
      organizations: [],
      hasMoreOrganizations: false,
      place: 'Console',
      home: '/console',
      navigation: all.map((each) => ({ ...each, isCurrent: each.id === section })),
    });
}

export const listConsoleSections = ({ db }: Pick<Context, 'db'>, sections: readonly ConsoleSection[]) => [
  ...firstConsoleSections,
  ...sections,
  ...lastConsoleSections,
  ...(db.shards.groups.length > 1 ? [shardSection] : []),
];
