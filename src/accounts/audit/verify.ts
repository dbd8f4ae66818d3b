import { and, asc, count, eq, gt, isNotNull, isNull, sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { formatCount } from '../../core/pages/format.js';
import { organizations } from '../organizations/table.js';
import { genesisHash, hashRow, OPERATOR_CHAIN } from './chain.js';
import { auditChains, auditLog, operatorChain, operatorLog } from './table.js';

export interface ChainReport {
  /** Slug, or `(operator)` for the operator's log. */
  organization: string;
  orgId: string;
  seq: number;
  hash: string;
  /** Rows from before the chain, which no hash protects. */
  unchained: number;
  problems: string[];
}

export type NotedHead = Omit<ChainReport, 'problems'>;

export interface VerifyOptions {
  orgId?: string | undefined;
  noted?: NotedHead[] | undefined;
  onProgress?: (done: number, total: number) => void;
  batchSize?: number;
}

const BATCH = 1_000;
/** Bounds memory, however broken the chain is. */
const MAX_PROBLEMS = 100;

/** In slug order. Reads one snapshot in batches, so writes can continue and memory does not grow with the log. */
export function verifyChains(
  orm: Orm,
  { orgId, noted = [], onProgress = () => undefined, batchSize = BATCH }: VerifyOptions = {},
): Promise<ChainReport[]> {
  const notedById = new Map(noted.map((head) => [head.orgId, head]));
  const reports: ChainReport[] = [];
  return orm.transaction(
    async (tx) => {
      const total = await countRows(tx, orgId);
      let done = 0;
      const onRows = (rows: number) => onProgress((done += rows), total);
      const verify = async (organization: Organization) => {
        const head = notedById.get(organization.id);
        notedById.delete(organization.id);
        reports.push(await verifyChain(tx, organization, head, { batchSize, onRows }));
      };
      for await (const organization of readOrganizations(tx, orgId, batchSize)) await verify(organization);
      if (orgId === undefined) await verify(await readOperator(tx));
      const problems = ['The Organization was recorded, but it and its log are missing.'];
      for (const head of notedById.values())
        if (orgId === undefined || head.orgId === orgId) reports.push({ ...head, problems });
      return reports;
    },
    { isolationLevel: 'repeatable read', accessMode: 'read only' },
  );
}

/**
 * Reads the chain's end first: rows up to it never change, so no common snapshot is needed.
 * @returns `brokenAt` is the first row whose hash does not follow from the row before it; undefined for an empty chain
 */
export async function verifyRange(
  orm: Orm,
  orgId: string,
  { upTo, limit }: { upTo: number | undefined; limit: number },
) {
  const [end] = await orm.select().from(auditChains).where(eq(auditChains.orgId, orgId));
  if (!end || end.seq === 0) return undefined;
  const last = Math.max(1, Math.min(upTo ?? end.seq, end.seq));
  const first = Math.max(1, last - limit + 1);
  // The preceding row has the hash.
  const rows = await readRows(orm, orgId, first - 2, last - Math.max(0, first - 2));
  const bySeq = new Map(rows.map((row) => [row.seq, row]));
  const range = { first, last, end: end.seq };
  let hash = first === 1 ? genesisHash(orgId) : bySeq.get(first - 1)?.hash;
  if (hash === undefined) return { ...range, brokenAt: first - 1 };
  for (let seq = first; seq <= last; seq++) {
    const row = bySeq.get(seq);
    if (!row || hashRow(hash, row) !== row.hash) return { ...range, brokenAt: seq };
    hash = row.hash;
  }
  return { ...range, brokenAt: last === end.seq && hash !== end.hash ? last : undefined };
}

type Organization = Awaited<ReturnType<typeof listOrganizations>>[number];

async function verifyChain(
  tx: Orm,
  { id: orgId, slug, end }: Organization,
  noted: NotedHead | undefined,
  { batchSize, onRows }: { batchSize: number; onRows: (rows: number) => void },
): Promise<ChainReport> {
  const problems: string[] = [];
  const report = (problem: string) => void (problems.length < MAX_PROBLEMS && problems.push(problem));
  const first = { seq: 0, hash: genesisHash(orgId) };
  let head = first;
  let notedHash: string | undefined;
  for (let after: number | undefined; ;) {
    const rows = await readRows(tx, orgId, after, batchSize);
    for (const { seq, ...row } of rows) {
      // The row after a gap cannot be checked without its predecessor's hash, but the next row's hash confirms it.
      if (seq > head.seq + 1) report(`Row ${head.seq + 1} is missing.`);
      else if (seq <= head.seq || hashRow(head.hash, { seq, ...row }) !== row.hash)
        report(`Row ${seq} does not match its hash or its number.`);
      if (seq > head.seq) head = { seq, hash: row.hash };
      if (seq === noted?.seq) notedHash = row.hash;
    }
    onRows(rows.length);
    if (rows.length < batchSize) break;
    after = rows.at(-1)!.seq;
  }
  const { seq, hash } = end ?? first;
  if (seq !== head.seq || hash !== head.hash)
    report(`The recorded end of the chain, row ${seq}, does not match the last row, ${head.seq}.`);
  const { before, late } = await countUnchained(tx, orgId);
  if (late > 0) report(`${formatCount(late, 'row')} without a number came after the chain had begun.`);
  if (noted && noted.seq > 0) {
    if (notedHash !== noted.hash) report(`Row ${noted.seq} does not match the head that was kept.`);
    if (before !== noted.unchained)
      report(`${noted.unchained} rows from before the chain were recorded, but ${before} exist.`);
  }
  return { organization: slug, orgId, ...head, unchained: before, problems };
}

/** The slug is unique: no other contains parentheses. */
async function readOperator(tx: Orm): Promise<Organization> {
  const [end] = await tx.select({ seq: operatorChain.seq, hash: operatorChain.hash }).from(operatorChain);
  return { id: OPERATOR_CHAIN, slug: '(operator)', end: end ?? null };
}

/** The operator log has no `org_id`. */
const logOf = (orgId: string) =>
  orgId === OPERATOR_CHAIN
    ? { log: operatorLog as unknown as typeof auditLog, isOwn: undefined }
    : { log: auditLog, isOwn: eq(auditLog.orgId, orgId) };

async function* readOrganizations(tx: Orm, orgId: string | undefined, batchSize: number) {
  for (let after: string | undefined; ;) {
    const batch = await listOrganizations(tx, orgId, after, batchSize);
    yield* batch;
    if (batch.length < batchSize) return;
    after = batch.at(-1)!.slug;
  }
}

function listOrganizations(tx: Orm, orgId: string | undefined, after: string | undefined, limit: number) {
  return tx
    .select({
      id: organizations.id,
      slug: organizations.slug,
      end: { seq: auditChains.seq, hash: auditChains.hash },
    })
    .from(organizations)
    .leftJoin(auditChains, eq(auditChains.orgId, organizations.id))
    .where(
      and(
        orgId === undefined ? undefined : eq(organizations.id, orgId),
        after === undefined ? undefined : gt(organizations.slug, after),
      ),
    )
    .orderBy(asc(organizations.slug))
    .limit(limit);
}

/** In `seq` order. The driver would drop digits of times below the millisecond. */
async function readRows(tx: Orm, orgId: string, after: number | undefined, limit: number) {
  const { log, isOwn } = logOf(orgId);
  const columns = {
    id: log.id,
    action: log.action,
    actor: log.actor,
    target: log.target,
    details: log.details,
    ip: log.ip,
    requestId: log.requestId,
    hash: log.hash,
  };
  const time = sql<string | null>`to_char(${log.at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')`;
  const rows = await tx
    .select({ ...columns, seq: log.seq, time })
    .from(log)
    .where(and(isOwn, isNotNull(log.seq), after === undefined ? undefined : gt(log.seq, after)))
    .orderBy(asc(log.seq))
    .limit(limit);
  return rows.map(({ time, seq, hash, ...row }) => ({
    ...row,
    orgId,
    seq: seq!,
    hash: hash ?? '',
    at: `${(time ?? 'infinity').replace(/(\.\d{3})000$/, '$1')}Z`,
  }));
}

/** `late`: with an id above that of the first chained row. */
async function countUnchained(tx: Orm, orgId: string): Promise<{ before: number; late: number }> {
  const { log, isOwn } = logOf(orgId);
  const [first] = await tx
    .select({ id: log.id })
    .from(log)
    .where(and(isOwn, isNotNull(log.seq)))
    .orderBy(asc(log.seq))
    .limit(1);
  const isLate = first ? gt(log.id, first.id) : sql`false`;
  const [found] = await tx
    .select({ all: count(), late: sql`count(*) filter (where ${isLate})`.mapWith(Number) })
    .from(log)
    .where(and(isOwn, isNull(log.seq)));
  return { before: found!.all - found!.late, late: found!.late };
}

async function countRows(tx: Orm, orgId: string | undefined): Promise<number> {
  const [row] = await tx
    .select({ rows: sql<string>`coalesce(sum(${auditChains.seq}), 0)` })
    .from(auditChains)
    .where(orgId === undefined ? undefined : eq(auditChains.orgId, orgId));
  return Number(row!.rows);
}
