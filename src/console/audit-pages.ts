import type { Router } from 'express';
import { decodeCursor, encodeCursor } from '../core/ids.js';
import {
  findUsers,
  listOperatorActions,
  listOperatorRows,
  type OperatorRow,
} from '../accounts/audit/queries.js';
import { listOperators } from '../accounts/identity/operators/operators.js';
import type { Orm } from '../core/db/client.js';
import { nameTargets, titleOf, type Wording } from '../accounts/audit/wording.js';
import { isUuid } from '../core/http/request.js';
import { cutPage } from '../core/http/page.js';
import { toAddress, toPager } from '../core/pages/address.js';
import { renderPage, pageRouter } from '../core/pages/layout.js';
import { readAuditForm, readAuditView } from '../dashboard/audit-log/pages.js';
import { listConsoleSections, type ConsoleSection } from '../dashboard/frame.js';
import { nameOperators, toEntryView, withoutLinks, type Actor } from '../dashboard/audit-log/view.js';
import {
  addressOf,
  CONSOLE,
  linkToTabs,
  PAGE_SIZE,
  PEOPLE,
  readCustomer,
  renderCustomer,
  type ConsoleDeps,
} from './page.js';

const PATH = `${CONSOLE}/audit-log`;
const MAX_CHOICES = 200;
/** The filter's value; an empty one leaves out sign-ins. */
const EVERYTHING = 'all';
const signIns = ['user.signed_in', 'user.signed_out'];

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
    const { cursor, action, actor, from, to } = filter ?? {};
    const asked = { action, actor, from, to };
    const before = cursor === undefined ? undefined : decodeCursor(cursor);
    const operators = await listOperators(orm, MAX_CHOICES);
    const shownActions =
      action === EVERYTHING ? {} : action === undefined ? { without: signIns } : { action };
    const actors = actor === undefined ? undefined : await listActors(orm, actor);
    const range = { before, limit: PAGE_SIZE + 1 };
    const rows = filter ? await listOperatorRows(orm, { ...shownActions, actors, from, to }, range) : [];
    const { page: shown, nextCursor } = cutPage(rows, PAGE_SIZE, ({ id }) => encodeCursor(id));
    const entries = await toEntries(deps, shown);
    const actions = (await listOperatorActions(orm, MAX_CHOICES)).map((value) => ({
      value,
      label: titleOf(deps.wording, value),
    }));
    const people = operators.map(({ email, name }) => ({ value: email, label: `${name} (${email})` }));
    const isListed = actor === undefined || people.some(({ value }) => value === actor);
    const page = { view: 'console/audit-log', title: 'Audit log', section: 'audit-log' };
    await renderPage(deps, req, res, page, {
      form,
      path: PATH,
      actions: [
        { value: '', label: 'All but sign-ins' },
        { value: EVERYTHING, label: 'Everything' },
        ...actions,
      ],
      actors: [
        { value: '', label: 'Everyone' },
        ...people,
        ...(isListed ? [] : [{ value: actor, label: actor }]),
      ],
      isFiltered: Object.keys(form.values).length > 0,
      isReadable: filter !== undefined,
      entries,
      pager: toPager(PATH, asked, { cursor, nextCursor }),
      onlyActor: (id: string) => toAddress(PATH, { ...asked, actor: id }),
    });
  });
  return router;
}

/** Operators change things in the name of their address, but sign in as a user. */
async function listActors(orm: Orm, actor: string): Promise<string[]> {
  const users = await findUsers(orm, [], [actor]);
  return [actor, `operator:${actor}`, ...users.map(({ id }) => id)];
}

/** Actors without a user account keep their name from the log. */
async function toEntries(
  { wording, sections, ...deps }: Parameters<typeof consoleAuditPages>[0],
  rows: OperatorRow[],
) {
  const { orm } = deps.db;
  const actors = rows.map(({ actor }) => actor);
  const ids = [...new Set(actors)].filter((actor) => isUuid(actor));
  const found = await findUsers(orm, ids, [...new Set(rows.map(({ target }) => target))]);
  const people = new Map(found.flatMap((person) => [person.id, person.email].map((key) => [key, person])));
  const actorOf = await nameOperators(orm, actors, (id): Actor => {
    const person = people.get(id);
    if (person) return { ...person, note: null };
    const name = id === 'system' ? 'The service' : id;
    return { id, name, email: null, note: isUuid(id) ? 'account removed' : null };
  });
  // Every actor on these pages is an operator.
  const noteless = (actor: Actor) => ({
    ...actor,
    id: actor.email ?? actor.id,
    note: actor.note === 'operator' ? null : actor.note,
  });
  // A plan's page is in the section of plans.
  const hrefOf = ({ action, target }: OperatorRow) => {
    const noun = action.split('.', 1)[0]!;
    const person = people.get(target);
    if (person) return `${PEOPLE}/${person.id}`;
    if (noun === 'customer') return addressOf(target);
    const section = listConsoleSections(deps, sections).find(({ id }) => id === `${noun.replace('_', '-')}s`);
    return section && `${section.href}/${encodeURIComponent(target)}`;
  };
  return (await nameTargets(orm, wording, rows)).map((row) => {
    const entry = withoutLinks(toEntryView(wording, row, noteless(actorOf(row.actor))));
    const what = entry.what.map((part) => ('name' in part ? { ...part, href: hrefOf(row) } : part));
    return { ...entry, what };
  });
}
