import { sql } from 'drizzle-orm';
import { recordAudit, recordOperatorAudit, change, byService } from '../../accounts/audit/audit.js';
import type { Clock } from '../../core/time.js';
import type { Orm, Tx } from '../../core/db/client.js';
import type { MaintenanceDatabase } from '../../core/db/maintenance.js';
import { inSnapshot } from '../../core/db/sql.js';
import { findOrganization } from '../../accounts/identity/organizations/queries.js';
import { lockOrganizationId } from '../../accounts/organizations/table.js';
import {
  findDrift,
  findDriftingPlaces,
  findLostSettlements,
  listTables,
  repairDrift,
  sumTables,
  type DriftRow,
  type LostSettlement,
  type SumPlace,
  type SumTable,
  type Repair,
  type DriftScope,
} from './drift.js';

type ByTable<T> = Record<SumTable, T>;

export interface DriftReport extends ByTable<DriftRow[]> {
  settlements: LostSettlement[];
}

export interface RepairReport extends ByTable<number> {
  /** With repaired rows; the other numbers are of rows. */
  organizations: number;
}

/** Per table; each row's `count` is the full number. */
const MAX_ROWS = 1000;
const AUDITED_ROWS = 20;

export const hasDrift = ({ totals, hours, subjects }: Omit<DriftReport, 'settlements'>): boolean =>
  totals.length + hours.length + subjects.length > 0;

/** In one snapshot, so a concurrent ingestion never looks like drift. */
export const compare = (orm: Orm, scope: DriftScope): Promise<DriftReport> =>
  inSnapshot(orm, async (tx) => {
    const report: DriftReport = { totals: [], hours: [], subjects: [], settlements: [] };
    for (const table of await listTables(tx)) report[table] = await findDrift(tx, table, scope, MAX_ROWS);
    if (!('places' in scope)) report.settlements = await findLostSettlements(tx, scope.orgId, MAX_ROWS);
    return report;
  });

/**
 * One transaction with the audit rows; on a sharded database, one per shard group. Finding drift reads every event, so
 * it happens before the lock; under it, only the affected months are summed again. The lock allows reads and blocks
 * ingestion, and takes the tables in the order of the recording statements, so a repair never deadlocks with them and
 * no event can be committed between computing a sum and writing it.
 * @throws if rows still differ afterwards, and nothing changes, or if the lock cannot be acquired in time
 */
export async function repair(db: Repairable, clock: Clock, scope: DriftScope): Promise<RepairReport> {
  const places = await findPlaces(db.orm, scope);
  const report: RepairReport = { organizations: 0, totals: 0, hours: 0, subjects: 0 };
  if (places.length === 0) return report;
  await db.withoutIngestion([...new Set(places.map(({ orgId }) => orgId))], async (orgIds, isFrozen) => {
    const own = new Set(orgIds);
    const ownPlaces = places.filter(({ orgId }) => own.has(orgId));
    const part = await repairPlaces(db.orm, clock, ownPlaces, isFrozen);
    for (const name of ['organizations', ...sumTables] as const) report[name] += part[name];
  });
  return report;
}

type Repairable = Pick<MaintenanceDatabase, 'orm' | 'withoutIngestion'>;

const repairPlaces = (orm: Orm, clock: Clock, places: SumPlace[], isFrozen: boolean): Promise<RepairReport> =>
  change({ db: { orm }, clock }, byService, async (tx) => {
    // Blocks corrections, even on a sharded database. Sorted, as in all code that locks several Organizations.
    for (const orgId of [...new Set(places.map((place) => place.orgId))].sort())
      await lockOrganizationId(tx, orgId);
    if (!isFrozen) {
      // Every later ingestion waits behind this lock request.
      await tx.execute(sql`set local lock_timeout = '2s'`);
      await tx.execute(
        sql`lock table usage_events, usage_corrections, usage_totals, usage_hours, usage_subjects in share row exclusive mode`,
      );
    }
    const repairs: ByTable<Repair[]> = { totals: [], hours: [], subjects: [] };
    for (const table of sumTables) repairs[table] = await repairDrift(tx, table, places, AUDITED_ROWS);
    // The audit chains of several Organizations are always locked in the same order.
    const orgIds = new Set(sumTables.flatMap((table) => repairs[table].map(({ orgId }) => orgId)).sort());
    for (const orgId of orgIds) {
      const details = sumTables.map((table) => {
        const { rows = 0, changes = [] } = repairs[table].find((repair) => repair.orgId === orgId) ?? {};
        return [table, { rows, changes }];
      });
      await audit(tx, clock, orgId, Object.fromEntries(details) as Record<string, unknown>);
    }
    for (const table of sumTables) {
      const left = await findDrift(tx, table, { places }, 1);
      if (left.length > 0) throw new Error(`The ${table} still differ from the events. Nothing was changed.`);
    }
    const { totals, hours, subjects } = repairs;
    return {
      organizations: orgIds.size,
      totals: rowsIn(totals),
      hours: rowsIn(hours),
      subjects: rowsIn(subjects),
    };
  });

const rowsIn = (repairs: Repair[]): number => repairs.reduce((sum, { rows }) => sum + rows, 0);

async function audit(tx: Tx, clock: Clock, orgId: string, details: Record<string, unknown>): Promise<void> {
  const entry = { at: new Date(clock.now()), action: 'usage.totals_repaired', actor: 'system', details };
  const organization = await findOrganization(tx, { id: orgId });
  // Sums can outlive their Organization. The operator log then records the repair.
  if (organization) await recordAudit(tx, orgId, { ...entry, target: organization.slug });
  else await recordOperatorAudit(tx, { ...entry, target: orgId });
}

const findPlaces = (orm: Orm, scope: DriftScope): Promise<SumPlace[]> =>
  inSnapshot(orm, async (tx) => {
    const found: SumPlace[] = [];
    for (const table of await listTables(tx)) found.push(...(await findDriftingPlaces(tx, table, scope)));
    return [...new Map(found.map((place) => [Object.values(place).join(' '), place])).values()];
  });
