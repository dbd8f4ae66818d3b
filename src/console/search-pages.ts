import { sql } from 'drizzle-orm';
import type { Router } from 'express';
import { selectFromAll } from '../core/db/shards.js';
import { toPattern } from '../core/db/sql.js';
import { findSearchEnd, listUsers } from '../accounts/identity/users/queries.js';
import { listServiceKeys } from '../accounts/service-keys/queries.js';
import { toAddress } from '../core/pages/address.js';
import { beginsWord } from '../core/reference/search.js';
import { pageRouter } from '../core/pages/layout.js';
import { listConsoleSections, type ConsoleSection } from '../dashboard/frame.js';
import { findPages, MAX_HITS, showSearch, type FindForOperator } from '../dashboard/search/search.js';
import { listCustomers, ownSignals } from './customer-queries.js';
import { addressOf, CONSOLE, listTabs, PEOPLE, type ConsoleDeps, type CustomerTab } from './page.js';

/** Every key begins with `org_live_` or `org_test_`. */
const MIN_PREFIX = 10;
/** The newest service keys. */
const MAX_SCANNED = 200;

interface SearchDeps extends ConsoleDeps {
  sections: readonly ConsoleSection[];
  finders: readonly FindForOperator[];
}

export function consoleSearchPages({ sections, finders, ...deps }: SearchDeps): Router {
  const actions = [
    { href: `${CONSOLE}/new-customer`, label: 'New customer', words: 'create add invite organization owner' },
    { href: `${CONSOLE}/service-keys/new`, label: 'New service key', words: 'create add secret token' },
    { href: `${CONSOLE}/operators/invite`, label: 'Invite an operator', words: 'add colleague' },
    { href: '/dashboard', label: 'Dashboard' },
    { href: '/docs/reference/operator', label: 'Operator reference', words: 'documentation api' },
  ];
  const signals = [...deps.summaries.flatMap((summary) => summary.signals), ...ownSignals];
  const pages = [
    ...listConsoleSections(deps, sections),
    ...actions,
    ...[...listActions(deps), ...listTabs(deps).filter(({ words }) => words)].map((place) => ({
      ...place,
      href: CONSOLE,
      note: 'choose the customer',
    })),
    ...signals.map(({ id, label }) => ({
      href: toAddress(CONSOLE, { signal: id }),
      label: `Customers: ${label}`,
    })),
  ];
  const all: FindForOperator[] = [
    (query) => Promise.resolve([findPages(query, pages)]),
    createCustomerFinder(deps),
    createCustomerPageFinder(deps),
    createInvitationFinder(deps),
    createKeyFinder(deps),
    createServiceKeyFinder(deps),
    ...finders,
  ];
  const router = pageRouter();
  // An address names a person first.
  const find = async (query: string) =>
    (await Promise.all(all.map((one) => one(query))))
      .flat()
      .toSorted((a, b) =>
        query.includes('@') ? Number(b.label === 'People') - Number(a.label === 'People') : 0,
      );
  router.get('/search', (req, res) => showSearch(deps, req, res, `${CONSOLE}/search`, find, actions));
  return router;
}

function createServiceKeyFinder({ db }: ConsoleDeps): FindForOperator {
  return async (query) => {
    const keys = await listServiceKeys(db.orm, { limit: MAX_SCANNED, after: undefined });
    const pages = keys.map(({ id, name, prefix }) => ({
      href: `${CONSOLE}/service-keys/${id}`,
      label: name,
      words: prefix.toLowerCase(),
    }));
    return [{ ...findPages(query, pages), label: 'Service keys' }];
  };
}

/** By the beginning of a secret. */
function createKeyFinder({ db }: ConsoleDeps): FindForOperator {
  return async (query) => {
    if (query.length < MIN_PREFIX) return [];
    const keys = await selectFromAll<Record<'id' | 'prefix' | 'name' | 'customer' | 'slug', string>>(
      db,
      (t) => sql`select k.id::text, k.prefix, k.name, o.name as customer, o.slug from ${t('api_keys')} k
        join ${t('organizations')} o on o.id = k.org_id
        where k.prefix like ${toPattern(query)} and k.service_key_id is null order by k.prefix, k.id limit ${MAX_HITS}`,
      ({ prefix, id }) => [prefix, id],
      MAX_HITS,
    );
    const hits = keys.map(({ prefix, name, customer, slug }) => ({
      href: `${addressOf(slug)}/keys`,
      name,
      note: `${prefix}… of ${customer}`,
    }));
    return [{ label: 'API keys', hits }];
  };
}

/** Open ones, by the beginning of the address. */
function createInvitationFinder({ db, clock }: ConsoleDeps): FindForOperator {
  return async (query) => {
    const invited = await selectFromAll<{ email: string; customer: string; slug: string }>(
      db,
      (t) => sql`select i.email, o.name as customer, o.slug from ${t('invitations')} i
        join ${t('organizations')} o on o.id = i.org_id
        where lower(i.email) like ${toPattern(query.toLowerCase())} and i.accepted_at is null and i.revoked_at is null
          and i.expires_at > ${new Date(clock.now()).toISOString()}::timestamptz order by i.email, o.slug limit ${MAX_HITS}`,
      ({ email, slug }) => [email, slug],
      MAX_HITS,
    );
    const hits = invited.map(({ email, customer, slug }) => ({
      href: `${addressOf(slug)}/people`,
      name: email,
      note: `invited to ${customer}`,
    }));
    return [{ label: 'People', hits }];
  };
}

type Place = Pick<CustomerTab, 'label' | 'path' | 'words'>;

const listActions = ({ summaries }: ConsoleDeps): Place[] => [
  ...summaries.flatMap(({ actions = [] }) => actions),
  { label: 'Invite a member', path: '/invite' },
];

/** Words of a tab or an action, and a part of a customer's name, in any order: `grant credits northwind`. */
function createCustomerPageFinder(deps: ConsoleDeps): FindForOperator {
  const places = [...listTabs(deps).slice(1), ...listActions(deps)];
  const has = ({ label, words = '' }: Place, word: string) =>
    beginsWord(`${label} ${words}`.toLowerCase(), word);
  return async (query) => {
    const words = query
      .toLowerCase()
      .split(/\s+/)
      .filter((word) => !['to', 'for', 'of', ''].includes(word));
    const [asked, others] = [true, false].map((isPlace) =>
      words.filter((word) => places.some((place) => has(place, word)) === isPlace),
    );
    const found = places.filter((place) => asked!.every((word) => has(place, word)));
    if (asked!.length === 0 || others!.length === 0 || found.length === 0) return [];
    const filter = { search: others!.join(' '), state: 'current' } as const;
    const { customers } = await listCustomers(deps.db.orm, deps.clock.now(), filter, { limit: MAX_HITS });
    const hits = customers.flatMap(({ slug, name }) =>
      found.map(({ label, path }) => ({ href: addressOf(slug) + path, name: `${name}: ${label}` })),
    );
    return [{ label: 'Pages and actions', hits: hits.slice(0, MAX_HITS) }];
  };
}

function createCustomerFinder({ db, clock }: ConsoleDeps): FindForOperator {
  return async (query) => {
    const [{ customers }, people] = await Promise.all([
      listCustomers(db.orm, clock.now(), { search: query, state: 'all' }, { limit: MAX_HITS }),
      findSearchEnd(db.orm, undefined).then((until) =>
        listUsers(db.orm, { after: undefined, limit: MAX_HITS }, { search: query, until }),
      ),
    ]);
    return [
      {
        label: 'Customers',
        hits: customers.map(({ slug, name, isArchived }) => ({
          href: addressOf(slug),
          name,
          note: `${slug}${isArchived ? ', archived' : ''}`,
        })),
      },
      {
        label: 'People',
        hits: people.map(({ id, name, email }) => ({ href: `${PEOPLE}/${id}`, name, note: email })),
      },
    ];
  };
}
