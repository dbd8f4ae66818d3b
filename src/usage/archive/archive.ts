import { setTimeout } from 'node:timers/promises';
import { recordAudit } from '../../audit/audit.js';
import { byService, change } from '../../audit/change.js';
import type { Clock } from '../../core/clock.js';
import type { Orm } from '../../core/db/client.js';
import { exact, toJson } from '../../core/http/json.js';
import type { EventPosition } from '../event-queries.js';
import { findDifference, readBack } from './check.js';
import { addTo, ArchiveError, baseNameOf, toLine, writePieces, writeWhole, type Chunk } from './file.js';
import {
  deleteEvents,
  findArchive,
  listEventsOf,
  listOpenMonths,
  listOrganizations,
  listProductSlugs,
  listTotals,
  moveState,
  raiseDeleted,
  replaceArchive,
  type ArchiveRow,
  type MetricSum,
  type Month,
  type Sum,
} from './queries.js';

export interface ArchiveDeps {
  orm: Orm;
  clock: Clock;
  /** Where the files are. */
  dir: string;
  /** So many events are read or deleted in one statement. */
  chunkSize: number;
  /** After each statement on events, a pause of so many times as long as it took. */
  rest: number;
  signal: AbortSignal;
  /** Events that were written, read back or deleted: each counts three times. */
  onEvents: (count: number) => void;
}

type OpenMonth = Month & { slug: string; events: number };

const ORGANIZATIONS = 1_000;

/** Every Organization, in the order of their slugs. */
export async function* eachOrganization(
  orm: Orm,
  orgId: string | undefined,
): AsyncGenerator<{ id: string; slug: string }> {
  for (let after = '', page; (page = await listOrganizations(orm, after, ORGANIZATIONS)).length > 0;) {
    for (const organization of page) if (orgId === undefined || organization.id === orgId) yield organization;
    after = page.at(-1)!.slug;
  }
}

/** The months before `before` that are not archived to their end, Organization by Organization. */
export async function* eachOpenMonth(
  orm: Orm,
  before: string,
  orgId: string | undefined,
): AsyncGenerator<OpenMonth> {
  for await (const { id, slug } of eachOrganization(orm, orgId))
    for (const month of await listOpenMonths(orm, id, before)) yield { ...month, slug };
}

/**
 * Moves the events of a month into a file. It goes on where an earlier run was ended, at whatever moment: what is recorded is
 * recorded after it is on the disk, and each deletion is committed together with how much has been deleted.
 * @throws ArchiveError; nothing more is deleted then
 */
export async function archiveMonth(deps: ArchiveDeps, month: OpenMonth): Promise<void> {
  const { orm, clock } = deps;
  const onEvents = (count: number) => {
    requireGoing(deps);
    deps.onEvents(count);
  };
  const recorded = await findArchive(orm, month);
  let archive = recorded ?? (await write(deps, month));
  let reading;
  try {
    reading = await readBack({ ...deps, onEvents }, archive);
  } catch (error) {
    // As long as all events are here, a file that is lost or damaged is written again.
    if (!(error instanceof ArchiveError) || !recorded || archive.state === 'deleting') throw error;
    archive = await write(deps, month);
    reading = await readBack({ ...deps, onEvents }, archive);
  }
  if (archive.state === 'written') await moveState(orm, month, 'verified');
  if (archive.state !== 'deleting') await moveState(orm, month, 'deleting');
  for (const chunk of reading.chunks) await paced(deps, chunk.events, () => deleteChunk(deps, month, chunk));
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
  const slugs = new Map(
    (await listProductSlugs(orm, [...new Set(sums.map(({ productId }) => productId))])).map((product) => [
      product.id,
      product.slug,
    ]),
  );
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

/** The lines of a month, product by product in the order of time. @param sums filled with what the lines add up to */
async function* readPieces(deps: ArchiveDeps, month: OpenMonth, sums: MetricSum[]): AsyncGenerator<string> {
  const { orm, chunkSize } = deps;
  const productIds = new Set((await listTotals(orm, month)).map(({ productId }) => productId));
  for (const productId of productIds) {
    const totals = new Map<string, Sum>();
    let after: EventPosition | undefined;
    do {
      const events = await paced(deps, chunkSize, () =>
        listEventsOf(orm, month, productId, after, chunkSize),
      );
      for (const { metric, quantity } of events) addTo(totals, metric, quantity);
      if (events.length > 0) yield events.map((event) => toLine({ ...event, productId })).join('');
      after = events.length < chunkSize ? undefined : events.at(-1);
    } while (after);
    for (const [metric, sum] of totals) sums.push({ productId, metric, ...sum });
  }
}

/** In one commit: exactly the events that were read from the file, or none. */
function deleteChunk({ orm, clock }: ArchiveDeps, month: OpenMonth, chunk: Chunk): Promise<void> {
  const { productId, first, last, sums } = chunk;
  return change({ db: { orm }, clock }, byService, async (tx) => {
    const gone = await deleteEvents(tx, month, productId, first, last);
    if (findDifference(new Map(gone.map((sum) => [sum.metric, sum])), sums) !== undefined)
      throw new ArchiveError(
        `The events from ${first.occurredAt} to ${last.occurredAt} are not those of the file; none of them was deleted.`,
      );
    for (const sum of gone) await raiseDeleted(tx, month, { productId, ...sum });
  });
}

/** The run was told to end; the next one goes on. */
export class InterruptedError extends Error {
  override name = 'InterruptedError';
}

function requireGoing({ signal }: ArchiveDeps): void {
  if (signal.aborted)
    throw new InterruptedError('interrupted; started again with the same folder, it goes on.');
}

/** A statement, and the rest after it that leaves the database to others. @throws InterruptedError before it */
async function paced<T>(deps: ArchiveDeps, events: number, work: () => Promise<T>): Promise<T> {
  requireGoing(deps);
  const { rest, onEvents } = deps;
  const startedAt = performance.now();
  const result = await work();
  onEvents(events);
  if (rest > 0) await setTimeout((performance.now() - startedAt) * rest);
  return result;
}
