import { sql } from 'drizzle-orm';
import type { Router } from 'express';
import { selectFromAll } from '../core/db/shards.js';
import { toPattern } from '../core/db/sql.js';
import { findSearchEnd, listUsers } from '../accounts/identity/users/queries.js';
import { listServiceKeys } from '../accounts/service-keys/queries.js';
import { pageRouter } from '../core/pages/layout.js';
import { listConsoleSections, type ConsoleSection } from '../dashboard/frame.js';
import { findPages, MAX_HITS, showSearch, type FindForOperator } from '../dashboard/search/search.js';
import { listCustomers } from './customer-queries.js';
import { addressOf, CONSOLE, PEOPLE, type ConsoleDeps } from './page.js';

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
  const all: FindForOperator[] = [
    (query) => Promise.resolve([findPages(query, [...listConsoleSections(deps, sections), ...actions])]),
    createCustomerFinder(deps),
    createKeyFinder(deps),
    createServiceKeyFinder(deps),
    ...finders,
  ];
  const router = pageRouter();
  const find = async (query: string) => (await Promise.all(all.map((one) => one(query)))).flat();
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
    const keys = await selectFromAll<{
      id: string;
      prefix: string;
      name: string;
      customer: string;
      slug: string;
    }>(
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
