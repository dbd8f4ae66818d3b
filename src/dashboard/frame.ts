import type { Context } from '../core/http/context.js';
import type { ReadFrame } from '../core/pages/layout.js';
import { listOrganizationsOf } from '../accounts/identity/organizations/queries.js';
import type { SessionPerson, SessionPrincipal } from '../accounts/identity/session/session.js';
import { managingRoles, type Role } from '../accounts/organizations/table.js';

const sections: { id: string; href: string; label: string; roles?: readonly Role[]; isOfMarkets?: true }[] = [
  { id: 'overview', href: '/dashboard', label: 'Overview' },
  { id: 'api-keys', href: '/dashboard/api-keys', label: 'API keys' },
  { id: 'webhooks', href: '/dashboard/webhooks', label: 'Webhooks', roles: managingRoles },
  { id: 'usage', href: '/dashboard/usage', label: 'Usage' },
  { id: 'entitlements', href: '/dashboard/entitlements', label: 'Entitlements' },
  { id: 'markets', href: '/dashboard/markets', label: 'Markets', isOfMarkets: true },
  { id: 'scores', href: '/dashboard/scores', label: 'Scores', isOfMarkets: true },
  { id: 'portfolio', href: '/dashboard/portfolio', label: 'Portfolio', isOfMarkets: true },
  { id: 'members', href: '/dashboard/members', label: 'Members' },
  { id: 'audit-log', href: '/dashboard/audit-log', label: 'Audit log', roles: managingRoles },
];

const MAX_CHOICES = 100;

export function createFrame({ db, config }: Pick<Context, 'db' | 'config'>): ReadFrame {
  const shown = sections.filter(({ isOfMarkets }) => config.hasMarkets || !isOfMarkets);
  return async (res, section) => {
    const me = res.locals.session as SessionPrincipal | undefined;
    const person = (res.locals.person as SessionPerson | undefined) ?? me;
    const organizations = person ? await listOrganizationsOf(db.orm, person.userId, MAX_CHOICES + 1) : [];
    return {
      me,
      person,
      organizations: organizations.slice(0, MAX_CHOICES),
      hasMoreOrganizations: organizations.length > MAX_CHOICES,
      place: 'Dashboard',
      navigation: me && !me.isArchived ? navigationOf(shown, me, section) : [],
    };
  };
}

function navigationOf(
  shown: typeof sections,
  { role, marketAccess }: SessionPrincipal,
  current: string | undefined,
) {
  return shown
    .filter(({ roles }) => !roles || roles.includes(role))
    .filter(({ isOfMarkets }) => marketAccess !== 'none' || !isOfMarkets)
    .map(({ id, href, label }) => ({ href, label, isCurrent: id === current }));
}

const consoleSections: { id: string; href: string; label: string; isOfMarkets?: true }[] = [
  { id: 'customers', href: '/console', label: 'Customers' },
  { id: 'products', href: '/console/products', label: 'Products' },
  { id: 'usage', href: '/console/usage', label: 'Usage' },
  { id: 'trading', href: '/console/trading', label: 'Trading', isOfMarkets: true },
  { id: 'operators', href: '/console/operators', label: 'Operators' },
  { id: 'people', href: '/console/people', label: 'People' },
  { id: 'audit-log', href: '/console/audit-log', label: 'Audit log' },
];
const shardSection = { id: 'shards', href: '/console/shards', label: 'Shard groups' };

/** The console's frame, which is independent of the operator's own Organizations. */
export function createConsoleFrame({ config, db }: Pick<Context, 'config' | 'db'>): ReadFrame {
  const shown = consoleSections.filter(({ isOfMarkets }) => config.hasMarkets || !isOfMarkets);
  return (res, section) =>
    Promise.resolve({
      me: undefined,
      person: res.locals.person as SessionPerson,
      organizations: [],
      hasMoreOrganizations: false,
      place: 'Console',
      navigation: [...shown, ...(db.shards.groups.length > 1 ? [shardSection] : [])].map(
        ({ id, href, label }) => ({ href, label, isCurrent: id === section }),
      ),
    });
}
