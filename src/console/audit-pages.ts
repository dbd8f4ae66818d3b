import type { RequestHandler, Router } from 'express';
import { decodeCursor, encodeCursor } from '../core/ids.js';
import {
  findUsers,
  listOperatorActions,
  listOperatorChanges,
  listOperatorRows,
  type OperatorRow,
} from '../accounts/audit/queries.js';
import { listOperators } from '../accounts/identity/operators/operators.js';
import { listOrganizations } from '../accounts/identity/organizations/queries.js';
import type { Orm } from '../core/db/client.js';
import { nameTargets, titleOf, type Wording } from '../accounts/audit/wording.js';
import { isUuid } from '../core/http/request.js';
import { cutPage } from '../core/http/page.js';
import { toAddress, toPager } from '../core/pages/address.js';
import { toNamedOptions } from '../core/pages/format.js';
import { renderPage, pageRouter } from '../core/pages/layout.js';
import { readAuditForm, readAuditView } from '../dashboard/audit-log/pages.js';
import { listConsoleSections, type ConsoleSection } from '../dashboard/frame.js';
import {
  nameOperators,
  readActors,
  toEntryView,
  withoutLinks,
  type Actor,
} from '../dashboard/audit-log/view.js';
import {
  addressOf,
  CONSOLE,
  inOperatorsWords,
  linkToTabs,
  PAGE_SIZE,
  PEOPLE,
  readCustomer,
  renderCustomer,
  type ConsoleDeps,
} from './page.js';

const PATH = `${CONSOLE}/audit-log`;
const CHANGES_PATH = `${PATH}/customers`;
const MAX_CHOICES = 200;
/** The filter's value; an empty one leaves out sign-ins. */
const EVERYTHING = 'all';
const signIns = ['user.signed_in', 'user.signed_out'];

type AuditDeps = ConsoleDeps & { wording: Wording; sections: readonly ConsoleSection[] };

export function consoleAuditPages(deps: AuditDeps): Router {
  const router = pageRouter();

  router.get('/customers/:slug/audit-log', async (req, res) => {
    const customer = await readCustomer(deps, req);
    const { filter, form } = readAuditForm(req, res);
    const path = `${addressOf(customer.slug)}/audit-log`;
    const view = await readAuditView(deps, customer.id, path, filter, form.values);
    const page = { view: 'accounts/audit-log/log', tab: 'audit-log', title: 'Audit log' };
    const entries = view.entries.map(linkToTabs(deps, customer));
    const actions = view.actions.map((choice) => ({ ...choice, label: inOperatorsWords(choice.label) }));
    await renderCustomer(deps, req, res, page, customer, { form, ...view, entries, actions });
  });

  router.get('/audit-log', showLog(deps, PATH, readServiceLog));
  router.get('/audit-log/customers', showLog(deps, CHANGES_PATH, readChanges));
  return router;
}

const showLog =
  (deps: AuditDeps, path: string, read: typeof readServiceLog | typeof readChanges): RequestHandler =>
  async (req, res) => {
    const { orm } = deps.db;
    const { filter, form } = readAuditForm(req, res);
    const { cursor, object: _, ...asked } = filter ?? ({} as Partial<NonNullable<typeof filter>>);
    const before = cursor === undefined ? undefined : decodeCursor(cursor);
    const actors = asked.actor === undefined ? undefined : await listActors(orm, asked.actor);
    const limit = filter ? PAGE_SIZE + 1 : 0;
    const { nextCursor, ...found } = await read(deps, { ...asked, actors }, { before, limit });
    const operators = await listOperators(orm, MAX_CHOICES);
    const people = operators.map(({ email, name }) => ({ value: email, label: `${name} (${email})` }));
    const page = { view: 'console/audit-log', title: 'Audit log', section: 'audit-log' };
    await renderPage(deps, req, res, page, {
      ...found,
      form,
      path,
      logs: [
        { label: 'Service', href: PATH, isCurrent: path === PATH },
        { label: 'Customers', href: CHANGES_PATH, isCurrent: path !== PATH },
      ],
      actors: withChosen([{ value: '', label: 'Everyone' }, ...people], asked.actor),
      isFiltered: Object.keys(form.values).length > 0,
      isReadable: filter !== undefined,
      pager: toPager(path, asked, { cursor, nextCursor }),
      onlyActor: (actor: string) => toAddress(path, { ...asked, actor }),
      onlyCustomer: (organization: string) => toAddress(path, { ...asked, organization }),
    });
  };

const withChosen = (choices: { value: string; label: string }[], chosen = '') =>
  choices.some(({ value }) => value === chosen) ? choices : [...choices, { value: chosen, label: chosen }];

type Filter = Parameters<typeof listOperatorChanges>[1];
type PageRange = Parameters<typeof listOperatorChanges>[2];

async function readServiceLog(deps: AuditDeps, { action, ...asked }: Filter, range: PageRange) {
  const { orm } = deps.db;
  const shown = action === EVERYTHING ? {} : action === undefined ? { without: signIns } : { action };
  const { page, nextCursor } = toPage(await listOperatorRows(orm, { ...asked, ...shown }, range));
  const actions = [
    { value: '', label: 'All but sign-ins' },
    { value: EVERYTHING, label: 'Everything' },
    ...(await listOperatorActions(orm, MAX_CHOICES)).map((value) => ({
      value,
      label: titleOf(deps.wording, value),
    })),
  ];
  return { entries: await toEntries(deps, page), nextCursor, actions };
}

async function readChanges(deps: AuditDeps, asked: Filter, range: PageRange) {
  const { orm } = deps.db;
  const { page, nextCursor } = toPage(await listOperatorChanges(orm, asked, range));
  const actors = page.map(({ actor }) => actor);
  const actorOf = await nameOperators(orm, actors, await readActors(orm, '', []));
  const entries = (await nameTargets(orm, deps.wording, page)).map((row) => ({
    ...linkToTabs(deps, row.customer)(toEntryView(deps.wording, row, asOperator(actorOf(row.actor)))),
    customer: row.customer,
  }));
  const listed = toNamedOptions(await listOrganizations(orm, { after: undefined, limit: MAX_CHOICES }));
  const customers = withChosen([{ value: '', label: 'All customers' }, ...listed], asked.organization);
  return { entries, nextCursor, customers };
}

const toPage = <T extends { id: string }>(rows: T[]) =>
  cutPage(rows, PAGE_SIZE, ({ id }) => encodeCursor(id));

/** Operators change things in the name of their address, but sign in as a user. */
async function listActors(orm: Orm, actor: string): Promise<string[]> {
  const users = await findUsers(orm, [], [actor]);
  return [actor, `operator:${actor}`, ...users.map(({ id }) => id)];
}

/** Every actor of these logs is an operator. */
const asOperator = (actor: Actor): Actor => ({
  ...actor,
  id: actor.email ?? actor.id,
  note: actor.note === 'operator' ? null : actor.note,
});

/** Actors without a user account keep their name from the log. */
async function toEntries({ wording, sections, ...deps }: AuditDeps, rows: OperatorRow[]) {
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
    const entry = withoutLinks(toEntryView(wording, row, asOperator(actorOf(row.actor))));
    const what = entry.what.map((part) => ('name' in part ? { ...part, href: hrefOf(row) } : part));
    return { ...entry, what };
  });
}
