import { eq, sql } from 'drizzle-orm';
import { users } from '../../organizations/table.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { serviceSwitch, tradingSwitches } from '../ledger/risk-table.js';
import type { SwitchPart, TradingSwitch } from './switches.js';

/** The three switches of an Organization with who set its own; undefined where nobody has touched one. */
export async function findSwitches(
  orm: Orm,
  orgId: string,
): Promise<{ [Owner in 'service' | 'operator' | 'own']: TradingSwitch[Owner] | undefined }> {
  const [row] = await orm
    .select({ service: serviceSwitch, own: tradingSwitches, userId: users.id, userName: users.name })
    .from(sql`(select 1) as one`)
    .leftJoin(serviceSwitch, sql`true`)
    .leftJoin(tradingSwitches, eq(tradingSwitches.orgId, orgId))
    .leftJoin(users, eq(users.id, tradingSwitches.ownBy));
  const { service, own, userId, userName } = row!;
  return {
    service: service ? toPart(service.state, service.reason, service.updatedAt) : undefined,
    operator: own ? toPart(own.operatorState, own.operatorReason, own.operatorAt) : undefined,
    own: own
      ? {
          ...toPart(own.ownState, own.ownReason, own.ownAt),
          by: userId === null || userName === null ? null : { id: userId, name: userName },
        }
      : undefined,
  };
}

const toPart = (state: SwitchPart['state'], reason: string | null, changedAt: Date | null): SwitchPart => ({
  state,
  reason,
  changedAt,
});

export async function saveSwitch(
  tx: Tx,
  orgId: string,
  owner: 'operator' | 'own',
  { state, reason, changedAt, by }: SwitchPart & { by: string | null },
): Promise<void> {
  const set =
    owner === 'own'
      ? { ownState: state, ownReason: reason, ownAt: changedAt, ownBy: by }
      : { operatorState: state, operatorReason: reason, operatorAt: changedAt };
  await tx
    .insert(tradingSwitches)
    .values({ orgId, ...set })
    .onConflictDoUpdate({ target: tradingSwitches.orgId, set });
}

/** Locked: other changes of it wait until the transaction ends. Orders read it without waiting. */
export async function findServiceSwitch(
  orm: Orm,
  { isLocked = false } = {},
): Promise<SwitchPart | undefined> {
  const query = orm.select().from(serviceSwitch);
  const [row] = await (isLocked ? query.for('no key update') : query);
  return row ? toPart(row.state, row.reason, row.updatedAt) : undefined;
}

export async function saveServiceSwitch(
  tx: Tx,
  { state, reason, changedAt }: SwitchPart & { changedAt: Date },
): Promise<void> {
  const set = { state, reason, updatedAt: changedAt };
  await tx.insert(serviceSwitch).values(set).onConflictDoUpdate({ target: serviceSwitch.id, set });
}
