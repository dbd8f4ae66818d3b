import type { Router } from 'express';
import { listKeyDetails } from '../../accounts/api-keys/queries.js';
import { keyAddress, showPrefix } from '../../accounts/api-keys/view.js';
import { listMembers } from '../../accounts/identity/members/queries.js';
import { sessionOf, type SessionPrincipal } from '../../accounts/identity/session/session.js';
import { isManager } from '../../accounts/organizations/table.js';
import { listEndpoints } from '../../accounts/webhooks/queries.js';
import type { Context } from '../../core/http/context.js';
import { pageRouter } from '../../core/pages/layout.js';
import { listSections, type Section } from '../frame.js';
import {
  findPages,
  MAX_HITS,
  showSearch,
  type FindForMember,
  type FoundPage,
  type SearchGroup,
} from './search.js';

const PATH = '/dashboard/search';

interface SearchDeps extends Pick<Context, 'db' | 'clock'> {
  sections: readonly Section[];
  finders: readonly FindForMember[];
}

export function searchPages({ sections, finders, ...deps }: SearchDeps): Router {
  const router = pageRouter();
  const all: FindForMember[] = [
    async (query, me) => {
      return [findPages(query, [...(await listSections(deps.db.orm, sections, me)), ...listActions(me)])];
    },
    createAccountsFinder(deps),
    ...finders,
  ];
  router.get('/search', async (req, res) => {
    const me = sessionOf(res);
    const find = async (query: string) => (await Promise.all(all.map((one) => one(query, me)))).flat();
    await showSearch(deps, req, res, PATH, find, listActions(me));
  });
  return router;
}

const listActions = (me: SessionPrincipal): FoundPage[] => [
  ...(isManager(me.role)
    ? [
        { href: '/dashboard/api-keys/new', label: 'New API key', words: 'create add secret token' },
        { href: '/dashboard/api-keys', label: 'Rotate or revoke an API key', words: 'renew delete' },
        { href: '/dashboard/webhooks/new', label: 'New webhook endpoint', words: 'create add url' },
        { href: '/dashboard/members/invite', label: 'Invite a member', words: 'add person people user team' },
      ]
    : []),
  ...(me.role === 'owner'
    ? [{ href: '/dashboard/members/second-factor', label: 'Require a second factor', words: '2fa mfa' }]
    : []),
  { href: '/dashboard/account', label: 'Account', words: 'profile name mail sign-in login' },
  { href: '/dashboard/account/password', label: 'Change your password' },
  { href: '/dashboard/account/second-factor', label: 'Your second factor', words: '2fa mfa recovery codes' },
  { href: '/dashboard/account/passkeys', label: 'Passkeys', words: 'sign-in login' },
  { href: '/dashboard/account/sessions', label: 'Sessions', words: 'sign out devices logout' },
  ...(me.isOperator ? [{ href: '/console', label: 'Console', words: 'customers operator' }] : []),
  { href: '/docs', label: 'Documentation', words: 'guides reference api' },
];

/** Reads only the Organization's own rows, in index order, until a few match. */
function createAccountsFinder({ db, clock }: Pick<Context, 'db' | 'clock'>): FindForMember {
  return async (query, { orgId, role }) => {
    const filter = { search: query };
    const [keys, members, endpoints] = await Promise.all([
      listKeyDetails(db.orm, orgId, { limit: MAX_HITS, filter, now: new Date(clock.now()) }),
      listMembers(db.orm, orgId, { after: undefined, limit: MAX_HITS, search: query }),
      isManager(role) ? listEndpoints(db.orm, orgId) : [],
    ]);
    const wanted = query.toLowerCase();
    const groups: SearchGroup[] = [
      {
        label: 'API keys',
        hits: keys.map(({ id, name, prefix, revokedAt }) => ({
          href: keyAddress(id),
          name,
          note: `${showPrefix(prefix)}${revokedAt === null ? '' : ', revoked'}`,
        })),
      },
      {
        label: 'Members',
        hits: members.map(({ userId, name, email }) => ({
          href: `/dashboard/members/${userId}`,
          name,
          note: email,
        })),
      },
      {
        label: 'Webhooks',
        hits: endpoints
          .filter(({ url }) => url.toLowerCase().includes(wanted))
          .map(({ id, url }) => ({ href: `/dashboard/webhooks/${id}`, name: url })),
      },
    ];
    return groups;
  };
}
