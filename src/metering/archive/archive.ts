import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { recordAudit, byService, change } from '../../accounts/audit/audit.js';
import type { Clock } from '../../core/time.js';
import type { Orm } from '../../core/db/client.js';
import { compareDecimals } from '../../core/decimal.js';
import { exact, toJson } from '../../core/http/json.js';
import { OTHER } from '../entitlements/dimensions.js';
import { findDrift } from '../reconciliation/drift.js';
import type { EventPosition } from '../events/event-queries.js';
import {
  addTo,
  ArchiveError,
  baseNameOf,
  hourName,
  pricedName,
  readArchive,
  toLine,
  writePieces,
  writeWhole,
  type Chunk,
  type ProductSums,
} from './file.js';
import {
  deleteEvents,
  findArchive,
  listArchivedSums,
  listCombinations,
  listEntryDays,
  listEventsOf,
  listHours,
  listOpenMonths,
  listOrganizations,
  listProductSlugs,
  listTotals,
  moveState,
  raiseDeleted,
  replaceArchive,
  sumEntries,
  sumEvents,
  type ArchivedSum,
  type ArchiveRow,
  type MetricSum,
  type Month,
  type Sum,
} from './queries.js';

export interface ArchiveDeps {
  orm: Orm;
  clock: Clock;
  dir: string;
  /** Per statement. */
  chunkSize: number;
  /** Pause after each statement, as a multiple of its duration. */
  rest: number;
  signal: AbortSignal;
  /** Each event is reported three times: written, read back and deleted. */
  onEvents: (count: number) => void;
}

type OpenMonth = Month & { slug: string; events: number };

const ORGANIZATIONS = 1_000;

export async function* eachOrganization(orm: Orm, orgId: string | undefined) {
  for (let after = '', page; (page = await listOrganizations(orm, orgId, after, ORGANIZATIONS)).length > 0;) {
    yield* page;
    after = page.at(-1)!.slug;
  }
}

export async function* eachOpenMonth(orm: Orm, before: string, orgId: string | undefined) {
  for await (const { id, slug } of eachOrganization(orm, orgId))
    for (const month of await listOpenMonths(orm, id, before)) yield { ...month, slug };
}

/**
 * Resumes an interrupted run: progress is recorded only once the file is on disk, and each deletion commits together
 * with its count.
 * @throws ArchiveError, after which nothing more is deleted
 */
export async function archiveMonth(deps: ArchiveDeps, month: OpenMonth): Promise<void> {
  const { orm, clock } = deps;
  const onEvents = (count: number) => {
    throwIfInterrupted(deps);
    deps.onEvents(count);
  };
  const recorded = await findArchive(orm, month);
  let archive = recorded ?? (await write(deps, month));
  let chunks;
  try {
    chunks = await readBack({ ...deps, onEvents }, archive);
  } catch (error) {
    // While all events are still in the database, a lost or damaged file can be written again.
    if (!(error instanceof ArchiveError) || !recorded || archive.state === 'deleting') throw error;
    archive = await write(deps, month);
    chunks = await readBack({ ...deps, onEvents }, archive);
  }
  if (archive.state !== 'deleting') await requireSubjects(orm, archive, chunks);
  if (archive.state === 'written') await moveState(orm, month, 'verified');
  if (archive.state !== 'deleting') await moveState(orm, month, 'deleting');
  for (const chunk of chunks) await runPaced(deps, chunk.events, () => deleteChunk(deps, month, chunk));
  await sumLedger(deps, month);
  await change({ db: { orm }, clock }, byService, async (tx) => {
    const at = new Date(clock.now());
    await moveState(tx, month, 'archived', at);
    const { period, livemode } = month;
    const { file, sha256, events } = archive;
    await recordAudit(tx, month.orgId, {
      at,
      action: 'usage.archived',
      actor: 'system',
      target: period.slice(0, 7),
      details: { livemode, events, file, sha256 },
    });
  });
}

async function write(deps: ArchiveDeps, month: OpenMonth): Promise<ArchiveRow> {
  const { orm, clock, dir } = deps;
  const base = baseNameOf(month.slug, month);
  const sums: MetricSum[] = [];
  const { file, sha256, bytes } = await writePieces(dir, base, readPieces(deps, month, sums));
  const { orgId, period, livemode } = month;
  const events = sums.reduce((sum, { events }) => sum + events, 0);
  const archive: ArchiveRow = { orgId, period, livemode, state: 'written', file, sha256, events };
  const productIds = new Set(sums.map(({ productId }) => productId));
  const products = await listProductSlugs(orm, [...productIds]);
  const slugs = new Map(products.map(({ id, slug }) => [id, slug]));
  const manifest = {
    organization: month.slug,
    orgId,
    month: period.slice(0, 7),
    livemode,
    file: file.split('/').at(-1),
    sha256,
    bytes,
    events,
    totals: sums.map(({ productId, metric, quantity, events }) => ({
      product: slugs.get(productId) ?? null,
      productId,
      metric,
      quantity: exact(quantity),
      events,
    })),
    writtenAt: new Date(clock.now()).toISOString(),
  };
  await writeWhole(dir, base, async (put) => {
    await put(Buffer.from(`${toJson(manifest)}\n`));
    return file.replace(/\.ndjson\.gz$/, '.json');
  });
  await change({ db: { orm }, clock }, byService, (tx) =>
    replaceArchive(tx, archive, sums, new Date(clock.now())),
  );
  return archive;
}

/** By product and then time. @param sums receives the totals of the lines */
async function* readPieces(deps: ArchiveDeps, month: OpenMonth, sums: MetricSum[]): AsyncGenerator<string> {
  const { orm, chunkSize } = deps;
  const productIds = new Set((await listTotals(orm, month)).map(({ productId }) => productId));
  for (const productId of productIds) {
    const totals = new Map<string, Sum>();
    let after: EventPosition | undefined;
    do {
      const events = await runPaced(deps, chunkSize, () =>
        listEventsOf(orm, month, productId, after, chunkSize),
      );
      for (const { metric, quantity } of events) addTo(totals, metric, quantity);
      if (events.length > 0) yield events.map((event) => toLine({ ...event, productId })).join('');
      after = events.length < chunkSize ? undefined : events.at(-1);
    } while (after);
    for (const [metric, sum] of totals) sums.push({ productId, metric, ...sum });
  }
}

/**
 * If none or all of the file's events have been deleted from the database, the totals and hourly sums there must match
 * too.
 * @throws ArchiveError with the first difference
 */
export async function readBack(
  { orm, dir, chunkSize, onEvents }: Pick<ArchiveDeps, 'orm' | 'dir' | 'chunkSize' | 'onEvents'>,
  archive: ArchiveRow,
) {
  const recorded = await listArchivedSums(orm, archive);
  const deleted = recorded.reduce((sum, { deletedEvents }) => sum + deletedEvents, 0);
  const isComparable = deleted === 0 || archive.state === 'archived';
  const totals = await listTotals(orm, archive);
  const onProduct = async (product: ProductSums) => {
    if (!isComparable) return;
    if (archive.state === 'archived') await addRemaining(orm, archive, product);
    await compareProduct(orm, archive, product, totals);
  };
  const path = join(dir, archive.file);
  const { sha256, sums, chunks } = await readArchive(path, { skip: deleted, chunkSize, onProduct, onEvents });
  if (sha256 !== archive.sha256) throw new ArchiveError(`${archive.file} was changed.`);
  const read = byMetric(sums);
  requireSame(`${archive.file} does not match its recorded sums`, read, byMetric(recorded));
  if (deleted === 0)
    requireSame(`the events in ${archive.file} do not add up to the totals`, read, byMetric(totals));
  return chunks;
}

/** A file cannot be compared with the sums of its subjects within bounded memory. */
async function requireSubjects(orm: Orm, { orgId, period }: Month, chunks: Chunk[]): Promise<void> {
  const productIds = [...new Set(chunks.map(({ productId }) => productId))];
  const places = productIds.map((productId) => ({ orgId, productId, period }));
  const [drift] = await findDrift(orm, 'subjects', { places }, 1);
  if (drift)
    throw new ArchiveError(
      `The subjects of the product ${drift.product} are not the sums of its events. \`npm run reconcile\` lists the differences.`,
    );
}

/** An archived month receives new events only if a clock was wrong. */
async function addRemaining(orm: Orm, month: Month, { productId, totals, hours }: ProductSums) {
  const left = await sumEvents(orm, month, productId);
  for (const { hour, apiKeyId, metric, dimensions, quantity, events } of left) {
    addTo(totals, metric, quantity, events);
    addTo(hours, hourName(hour, apiKeyId, metric, dimensions), quantity, events);
  }
}

async function compareProduct(
  orm: Orm,
  month: Month,
  { productId, totals, hours }: ProductSums,
  recorded: MetricSum[],
): Promise<void> {
  const own = recorded.filter((sum) => sum.productId === productId);
  const ownTotals = new Map(own.map((sum) => [sum.metric, sum]));
  requireSame(`The totals of product ${productId} are not the sums of its events`, totals, ownTotals);
  const rows = await listHours(orm, month, productId);
  requireSame(
    `The hours of product ${productId} are not the sums of its events`,
    asCounted(hours, await listCombinations(orm, month, productId)),
    new Map(rows.map((row) => [hourName(row.hour, row.apiKeyId, row.metric, row.dimensions), row])),
  );
}

/** Merges unlisted combinations of dimensions into `OTHER`, as ingestion does. */
function asCounted(hours: ReadonlyMap<string, Sum>, listed: ReadonlySet<string>): Map<string, Sum> {
  const counted = new Map<string, Sum>();
  for (const [name, { quantity, events }] of hours) {
    const [hour = '', dimensions = ''] = name.split('\n');
    const isOther = dimensions !== '' && !listed.has(dimensions);
    addTo(counted, isOther ? `${hour}\n${OTHER}` : name, quantity, events);
  }
  return counted;
}

const byMetric = (sums: (MetricSum | ArchivedSum)[]): Map<string, Sum> =>
  new Map(sums.map((sum) => [`${sum.productId} ${sum.metric}`, sum]));

function requireSame(problem: string, actual: ReadonlyMap<string, Sum>, expected: ReadonlyMap<string, Sum>) {
  const name = findDifference(actual, expected);
  if (name === undefined) return;
  const text = (sum: Sum | undefined) => (sum ? `${sum.quantity} in ${sum.events} events` : 'nothing');
  throw new ArchiveError(
    `${problem}: ${name} is ${text(actual.get(name))}, but ${text(expected.get(name))} was expected.`,
  );
}

function findDifference(actual: ReadonlyMap<string, Sum>, expected: ReadonlyMap<string, Sum>) {
  for (const name of new Set([...actual.keys(), ...expected.keys()])) {
    const [a, b] = [actual.get(name), expected.get(name)];
    if (!a || !b || a.events !== b.events || compareDecimals(a.quantity, b.quantity) !== 0) return name;
  }
  return undefined;
}

export const monthLabel = ({ period, livemode }: Month): string =>
  `${period.slice(0, 7)}, ${livemode ? 'live' : 'test'}`;

/** In one transaction; none if the events differ from the file. */
function deleteChunk({ orm, clock }: ArchiveDeps, month: OpenMonth, chunk: Chunk): Promise<void> {
  const { productId, first, last, sums } = chunk;
  return change({ db: { orm }, clock }, byService, async (tx) => {
    const gone = await deleteEvents(tx, month, productId, first, last);
    const found = new Map(gone.map((sum) => [pricedName(sum.metric, sum.creditPrice), sum]));
    if (findDifference(found, sums) !== undefined)
      throw new ArchiveError(
        `The events from ${first.occurredAt} to ${last.occurredAt} differ from the file. None of them was deleted.`,
      );
    for (const sum of gone) await raiseDeleted(tx, month, { productId, ...sum });
  });
}

/** Once the events are gone, nothing needs the entries' exact times. */
async function sumLedger(deps: ArchiveDeps, month: Month): Promise<void> {
  const { orm, clock, chunkSize } = deps;
  for (const day of await listEntryDays(orm, month)) {
    let removed;
    do
      removed = await runPaced(deps, 0, () =>
        change({ db: { orm }, clock }, byService, (tx) => sumEntries(tx, month, day, chunkSize)),
      );
    while (removed === chunkSize);
  }
}

/** The next run resumes it. */
export class InterruptedError extends Error {
  override name = 'InterruptedError';
}

function throwIfInterrupted({ signal }: ArchiveDeps): void {
  if (signal.aborted)
    throw new InterruptedError('interrupted. Run it again with the same folder to continue.');
}

/**
 * Pauses after the statement, so that other work can use the database. @throws InterruptedError instead of running it
 */
async function runPaced<T>(deps: ArchiveDeps, events: number, work: () => Promise<T>): Promise<T> {
  throwIfInterrupted(deps);
  const { rest, onEvents } = deps;
  const startedAt = performance.now();
  const result = await work();
  onEvents(events);
  if (rest > 0) await setTimeout((performance.now() - startedAt) * rest);
  return result;
}
