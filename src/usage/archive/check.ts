import { join } from 'node:path';
import type { Orm } from '../../core/db/client.js';
import { compareDecimals } from '../../core/decimal.js';
import { addTo, ArchiveError, hourName, readArchive, type ProductSums } from './file.js';
import {
  listArchivedSums,
  listHours,
  listTotals,
  sumEvents,
  type ArchivedSum,
  type ArchiveRow,
  type MetricSum,
  type Month,
  type Sum,
} from './queries.js';

interface CheckDeps {
  orm: Orm;
  dir: string;
  chunkSize: number;
  onEvents: (count: number) => void;
}

/**
 * Reads a file back: it must be the one that was recorded, byte by byte, and hold the sums that were recorded. As long as
 * nothing of it has been deleted here, and once all of it has been, totals and hours must be those sums, too.
 * @throws ArchiveError with the first difference
 */
export async function readBack({ orm, dir, chunkSize, onEvents }: CheckDeps, archive: ArchiveRow) {
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
  const reading = await readArchive(path, { skip: deleted, chunkSize, onProduct, onEvents });
  if (reading.sha256 !== archive.sha256) throw new ArchiveError(`${archive.file} was changed.`);
  requireSame(
    `${archive.file} does not hold what was recorded of it`,
    byMetric(reading.sums),
    byMetric(recorded),
  );
  if (deleted === 0)
    requireSame(`${archive.file} does not add up to the totals`, byMetric(reading.sums), byMetric(totals));
  return { chunks: reading.chunks, recorded };
}

/** A month that is archived takes no event, unless a clock was wrong: such a one is still here, and counted. */
async function addRemaining(
  orm: Orm,
  month: Month,
  { productId, totals, hours }: ProductSums,
): Promise<void> {
  for (const { hour, apiKeyId, metric, quantity, events } of await sumEvents(orm, month, productId)) {
    addTo(totals, metric, quantity, events);
    addTo(hours, hourName(hour, apiKeyId, metric), quantity, events);
  }
}

async function compareProduct(
  orm: Orm,
  month: Month,
  { productId, totals, hours }: ProductSums,
  recorded: MetricSum[],
): Promise<void> {
  const own = recorded.filter((sum) => sum.productId === productId);
  requireSame(
    `The totals of product ${productId} are not the sums of its events`,
    totals,
    new Map(own.map((sum) => [sum.metric, sum])),
  );
  const rows = await listHours(orm, month, productId);
  requireSame(
    `The hours of product ${productId} are not the sums of its events`,
    hours,
    new Map(rows.map((row) => [hourName(row.hour, row.apiKeyId, row.metric), row])),
  );
}

const byMetric = (sums: (MetricSum | ArchivedSum)[]): Map<string, Sum> =>
  new Map(sums.map((sum) => [`${sum.productId} ${sum.metric}`, sum]));

function requireSame(
  problem: string,
  actual: ReadonlyMap<string, Sum>,
  expected: ReadonlyMap<string, Sum>,
): void {
  const name = findDifference(actual, expected);
  if (name === undefined) return;
  const text = (sum: Sum | undefined) => (sum ? `${sum.quantity} in ${sum.events} events` : 'nothing');
  throw new ArchiveError(
    `${problem}: ${name} is ${text(actual.get(name))}, and ${text(expected.get(name))} was expected.`,
  );
}

/** A name whose sums differ. */
export function findDifference(
  actual: ReadonlyMap<string, Sum>,
  expected: ReadonlyMap<string, Sum>,
): string | undefined {
  for (const name of new Set([...actual.keys(), ...expected.keys()])) {
    const [a, b] = [actual.get(name), expected.get(name)];
    if (!a || !b || a.events !== b.events || compareDecimals(a.quantity, b.quantity) !== 0) return name;
  }
  return undefined;
}

/** `2025-10, live`. */
export const nameOf = ({ period, livemode }: Month): string =>
  `${period.slice(0, 7)}, ${livemode ? 'live' : 'test'}`;
