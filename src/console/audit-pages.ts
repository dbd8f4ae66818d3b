import type { Router } from 'express';
import { decodeCursor, encodeCursor } from '../core/ids.js';
import {
  findUsers,
  listOperatorActions,
  listOperatorRows,
  type OperatorRow,
} from '../accounts/audit/queries.js';
import { nameTargets, titleOf, type Wording } from '../accounts/audit/wording.js';
import { isUuid } from '../core/http/request.js';
import { cutPage } from '../core/http/page.js';
import { toPager } from '../core/pages/address.js';
import { renderPage, pageRouter } from '../core/pages/layout.js';
import { readAuditForm, readAuditView } from '../dashboard/audit-log/pages.js';
import type { ConsoleSection } from '../dashboard/frame.js';
import { nameOperators, toEntryView, withoutLinks, type Actor } from '../dashboard/audit-log/view.js';
import {
  addressOf,
  CONSOLE,
  linkToTabs,
  PAGE_SIZE,
  readCustomer,
  renderCustomer,
  type ConsoleDeps,
} from './page.js';

const PATH = `${CONSOLE}/audit-log`;
const MAX_ACTIONS = 200;

export function consoleAuditPages(
  deps: ConsoleDeps & { wording: Wording; sections: readonly ConsoleSection[] },
): Router {
  const { orm } = deps.db;
  const router = pageRouter();

  router.get('/customers/:slug/audit-log', async (req, res) => {
    const customer = await readCustomer(deps, req);
    const { filter, form } = readAuditForm(req, res);
    const path = `${addressOf(customer.slug)}/audit-log`;
    const view = await readAuditView(deps, customer.id, path, filter, form.values);
    const page = { view: 'accounts/audit-log/log', tab: 'audit-log', title: 'Audit log' };
    const entries = view.entries.map(linkToTabs(deps, customer));
    await renderCustomer(deps, req, res, page, customer, { form, ...view, entries });
  });

  router.get('/audit-log', async (req, res) => {
    const { filter, form } = readAuditForm(req, res);
    const { cursor, actor: _, ...asked } = filter ?? {};
    const before = cursor === undefined ? undefined : decodeCursor(cursor);
    const rows = filter ? await listOperatorRows(orm, asked, { before, limit: PAGE_SIZE + 1 }) : [];
    const { page: shown, nextCursor } = cutPage(rows, PAGE_SIZE, ({ id }) => encodeCursor(id));
    const entries = await toEntries(deps, shown);
    const actions = (await listOperatorActions(orm, MAX_ACTIONS)).map((value) => ({
      value,
      label: titleOf(deps.wording, value),
    }));
    const page = { view: 'console/audit-log', title: 'Audit log', section: 'audit-log' };
    await renderPage(deps, req, res, page, {
      form,
      path: PATH,
      actions: [{ value: '', label: 'Everything' }, ...actions],
      actors: undefined,
      isFiltered: Object.keys(form.values).length > 0,
      isReadable: filter !== undefined,
      entries,
      pager: toPager(PATH, asked, { cursor, nextCursor }),
      onlyActor: undefined,
    });
  });
  return router;
}

/** Actors without a user account keep their name from the log. */
async function toEntries(
  { db: { orm }, wording, sections }: Parameters<typeof consoleAuditPages>[0],
  rows: OperatorRow[],
) {
  const actors = rows.map(({ actor }) => actor);
  const ids = [...new Set(actors)].filter((actor) => isUuid(actor));
  const people = new Map((await findUsers(orm, ids)).map((person) => [person.id, person]));
  const actorOf = await nameOperators(orm, actors, (id): Actor => {
    const person = people.get(id);
    if (person) return { ...person, note: null };
    const name = id === 'system' ? 'The service' : id;
    return { id, name, email: null, note: isUuid(id) ? 'account removed' : null };
  });
  // Every actor on these pages is an operator.
  const noteless = (actor: Actor) => (actor.note === 'operator' ? { ...actor, note: null } : actor);
  // A plan's page is in the section of plans.
  const hrefOf = ({ action, target }: OperatorRow) => {
    const section = sections.find(({ id }) => id === `${action.split('.', 1)[0]}s`);
    return section && `${section.href}/${encodeURIComponent(target)}`;
  };
  return (await nameTargets(orm, wording, rows)).map((row) => {
    const entry = withoutLinks(toEntryView(wording, row, noteless(actorOf(row.actor))));
    const what = entry.what.map((part) =>
      'name' in part && part.name === (row.name ?? row.target) ? { ...part, href: hrefOf(row) } : part,
    );
    return { ...entry, what };
  });
}
