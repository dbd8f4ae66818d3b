import type { Router } from 'express';
import { findSearchEnd, listUsers } from '../accounts/identity/users/queries.js';
import { pageRouter } from '../core/pages/layout.js';
import { listConsoleSections, type ConsoleSection } from '../dashboard/frame.js';
import { findPages, MAX_HITS, showSearch, type FindForOperator } from '../dashboard/search/search.js';
import { listCustomers } from './customer-queries.js';
import { addressOf, CONSOLE, PEOPLE, type ConsoleDeps } from './page.js';

interface SearchDeps extends ConsoleDeps {
  sections: readonly ConsoleSection[];
  finders: readonly FindForOperator[];
}

export function consoleSearchPages({ sections, finders, ...deps }: SearchDeps): Router {
  const pages = [
    ...listConsoleSections(deps, sections),
    { href: `${CONSOLE}/new-customer`, label: 'New customer', words: 'create organization' },
    { href: `${CONSOLE}/operators/invite`, label: 'Invite an operator' },
    { href: '/dashboard', label: 'Dashboard' },
    { href: '/docs/reference/operator', label: 'Operator reference', words: 'documentation api' },
  ];
  const all: FindForOperator[] = [
    (query) => Promise.resolve([findPages(query, pages)]),
    createCustomerFinder(deps),
    ...finders,
  ];
  const router = pageRouter();
  router.get('/search', (req, res) =>
    showSearch(deps, req, res, `${CONSOLE}/search`, async (query) =>
      (await Promise.all(all.map((find) => find(query)))).flat(),
    ),
  );
  return router;
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
