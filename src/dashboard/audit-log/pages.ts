import type { Request, Response, Router } from 'express';
import { decodeCursor, encodeCursor } from '../../core/ids.js';
import { readFilter, type AuditFilter } from '../../accounts/audit/filter.js';
import { listAuditRows, listDistinct, searchAuditRows } from '../../accounts/audit/queries.js';
import { verifyRange } from '../../accounts/audit/verify.js';
import { nameTargets, titleOf, type Wording } from '../../accounts/audit/wording.js';
import type { Orm } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { beginProblem } from '../../core/http/problem.js';
import { cutPage } from '../../core/http/page.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import { newForm, readQuery, toFormState, type FormFields, type FormState } from '../../core/pages/form.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { requireRole, sessionOf } from '../../accounts/identity/session/session.js';
import { managingRoles } from '../../accounts/organizations/table.js';
import { csvColumns, nameOperators, readActors, toCsvCells, toEntryView, type Actor } from './view.js';

const PAGE_SIZE = 50;
const CSV_BATCH = 500;
/** Per page of a search by object. */
const SCAN = 5_000;
/** Further values can be selected through their links in the list. */
const MAX_CHOICES = 200;
const PATH = '/dashboard/audit-log';

interface AuditPageDeps extends Pick<Context, 'db' | 'clock' | 'log'> {
  wording: Wording;
}

export function auditPages(deps: AuditPageDeps): Router {
  const router = pageRouter();
  const mayRead = requireRole(...managingRoles);

  router.get('/audit-log', mayRead, async (req, res) => {
    const { filter, form } = readAuditForm(req, res);
    const view = await readAuditView(deps, sessionOf(res).orgId, PATH, filter, form.values);
    const page = { view: 'accounts/audit-log/list', title: 'Audit log', section: 'audit-log' };
    const exportHref = toAddress(`${PATH}.csv`, view.query);
    const chain =
      filter && !view.isFiltered && !filter.cursor
        ? await readChain(deps, req, sessionOf(res).orgId)
        : undefined;
    await renderPage(deps, req, res, page, { form, exportHref, chain, ...view });
  });

  router.get('/audit-log.csv', mayRead, async (req, res) => {
    const { orgId, orgSlug } = sessionOf(res);
    const { cursor: _, ...filter } = readFilter(readQuery(req));
    const day = new Date(deps.clock.now()).toISOString().slice(0, 10);
    await sendCsv(deps.log, req, res, {
      filename: `audit-log-${orgSlug}-${day}.csv`,
      columns: csvColumns,
      pieces: readPieces(deps, orgId, filter),
    });
  });

  return router;
}

/** When the page opens. Each request for older entries checks `CHECKED_MORE`. */
const CHECKED = 500;
const CHECKED_MORE = 2_000;

/** The newest entries, or older ones up to `upTo`. */
async function readChain({ db }: AuditPageDeps, { query }: Request, orgId: string) {
  const upTo =
    typeof query.upTo === 'string' && /^[1-9]\d{0,14}$/.test(query.upTo) ? Number(query.upTo) : undefined;
  const limit = upTo === undefined ? CHECKED : CHECKED_MORE;
  const check = await verifyRange(db.orm, orgId, { upTo, limit });
  if (!check) return undefined;
  const { first, last, end } = check;
  return {
    ...check,
    isWhole: first === 1 && last === end,
    olderHref: first > 1 ? toAddress(PATH, { upTo: first - 1 }) : undefined,
    olderCount: Math.min(first - 1, CHECKED_MORE),
  };
}

type Query = ReturnType<typeof readFilter>;

export function readAuditForm(req: Request, res: Response): { filter: Query | undefined; form: FormState } {
  const values: FormFields = {};
  const query = readQuery(req);
  for (const name of ['organization', 'action', 'actor', 'object', 'from', 'to']) {
    const value = query[name];
    if (typeof value === 'string' && value !== '') values[name] = value;
  }
  try {
    return { filter: readFilter(query), form: newForm(values) };
  } catch (error) {
    if (!(error instanceof AppError) || error.errors?.some(({ pointer }) => !(pointer.slice(1) in values)))
      throw error;
    beginProblem(res, error);
    return { filter: undefined, form: toFormState(values, error) };
  }
}

export async function readAuditView(
  { db: { orm }, wording }: Pick<AuditPageDeps, 'db' | 'wording'>,
  orgId: string,
  path: string,
  filter: Query | undefined,
  values: FormFields,
) {
  const { cursor, ...query } = filter ?? {};
  const before = cursor === undefined ? undefined : decodeCursor(cursor);
  const found = filter ? await readRows(orm, orgId, query, { before, limit: PAGE_SIZE + 1 }) : noRows;
  const { page, nextCursor: next } = cutPage(found.rows, PAGE_SIZE, ({ id }) => encodeCursor(id));
  const searchedTo = next === undefined ? found.searchedTo : undefined;
  const nextCursor = searchedTo ? encodeCursor(searchedTo.id) : next;
  const actions = await listDistinct(orm, orgId, 'action', MAX_CHOICES);
  const actors = await listDistinct(orm, orgId, 'actor', MAX_CHOICES);
  const inLog = new Set([...actors, ...page.map(({ actor }) => actor)]);
  const actorOf = await nameOperators(orm, inLog, await readActors(orm, orgId, inLog));
  const isFiltered = Object.keys(values).length > 0;
  return {
    entries: (await nameTargets(orm, wording, page)).map((row) =>
      toEntryView(wording, row, actorOf(row.actor)),
    ),
    pager: toPager(path, query, { cursor, nextCursor }),
    actions: toChoices('Everything', [...actions, values.action ?? []].flat(), (action) =>
      titleOf(wording, action),
    ),
    actors: toChoices('Everyone', [...actors, values.actor ?? []].flat(), (actor) =>
      inLog.has(actor) ? toLabel(actorOf(actor)) : actor,
    ),
    isFiltered,
    isReadable: filter !== undefined,
    searchedTo: searchedTo?.at,
    path,
    query,
    onlyActor: (actor: string) => toAddress(path, { ...query, actor }),
    onlyObject: (object: string) => toAddress(path, { object }),
  };
}

const noRows = { rows: [], searchedTo: undefined };

async function readRows(
  orm: Orm,
  orgId: string,
  { object, ...filter }: AuditFilter,
  range: { before: string | undefined; limit: number },
) {
  if (object === undefined)
    return { rows: await listAuditRows(orm, orgId, filter, range), searchedTo: undefined };
  return searchAuditRows(orm, orgId, { ...filter, object }, { ...range, scan: SCAN });
}

function toLabel({ name, email, note }: Actor): string {
  const more = [email, note].filter((text) => text !== null).join(', ');
  return more === '' ? name : `${name} (${more})`;
}

/** Sorted by label. The selected value is included even if no entry has it. */
function toChoices(all: string, values: string[], label: (value: string) => string) {
  const options = [...new Set(values)].map((value) => ({ value, label: label(value) }));
  return [{ value: '', label: all }, ...options.sort((a, b) => a.label.localeCompare(b.label, 'en'))];
}

/** Newest first. Rows are never deleted, so no batch can skip or repeat rows. */
async function* readPieces(
  { db: { orm }, wording }: Pick<AuditPageDeps, 'db' | 'wording'>,
  orgId: string,
  filter: AuditFilter,
) {
  for (let before: string | undefined; ;) {
    const { rows, searchedTo } = await readRows(orm, orgId, filter, { before, limit: CSV_BATCH });
    const actors = rows.map(({ actor }) => actor);
    const actorOf = await readActors(orm, orgId, actors);
    yield rows.map((row) => toCsvCells(wording, row, actorOf(row.actor)));
    const last = rows.length < CSV_BATCH ? searchedTo : rows.at(-1);
    if (!last) return;
    before = last.id;
  }
}
