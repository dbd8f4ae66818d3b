import { and, eq, sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { hashSecret } from '../../../../src/accounts/api-keys/bearer-key.js';
import type { Database } from '../../../../src/core/db/client.js';
import { apiKeyDirectory, apiKeys } from '../../../../src/accounts/api-keys/table.js';
import { entitlements, products } from '../../../../src/metering/entitlements/table.js';
import { createKey, createOrganization, type TestKey } from '../../../support/fixtures.js';
import { createProduct } from '../../support/products.js';
import type { TestService } from '../../../support/service.js';
import type { Model, ModelEntitlement, ModelKey, ModelProduct } from './model.js';

/** The service and the database rows of one run, numbered as in the model. */
export interface System {
  service: TestService;
  db: Database;
  orgIds: string[];
  products: { id: string; slug: string }[];
  keys: TestKey[];
}

export const toUnits = (thousandths: number) => String(thousandths / 1000);

export async function createSystem(service: TestService, db: Database, model: Model): Promise<System> {
  const system: System = { service, db, orgIds: [], products: [], keys: [] };
  for (let i = 0; i < model.events.length; i++) system.orgIds.push((await createOrganization(db)).id);
  for (const { metric, unitCap } of model.products) {
    const cap = unitCap === null ? null : toUnits(unitCap);
    system.products.push(await createProduct(db, { usageMetric: metric, unitCap: cap }));
  }
  return system;
}

export async function addKey(system: System, key: ModelKey): Promise<void> {
  const { livemode, scopes, expiresAt } = key;
  const values = { livemode, scopes, ...(expiresAt === null ? {} : { expiresAt: new Date(expiresAt) }) };
  system.keys.push(await createKey(system.db, system.orgIds[key.org]!, values));
}

const keyRow = ({ orgId, id }: TestKey) => and(eq(apiKeys.orgId, orgId), eq(apiKeys.id, id));

export async function revokeKey({ db, keys }: System, key: number, now: number): Promise<void> {
  await db.orm
    .update(apiKeys)
    .set({ revokedAt: new Date(now) })
    .where(keyRow(keys[key]!));
}

/** Rotates a key as the service does: creates the successor and moves the old key's expiry in one transaction. */
export async function rotateKey(system: System, key: number, oldExpiresAt: number): Promise<void> {
  const old = system.keys[key]!;
  const secret = old.secret.slice(0, 9) + uuid().replaceAll('-', '');
  const id = uuid();
  await system.db.orm.transaction(async (tx) => {
    const [row] = await tx.select().from(apiKeys).where(keyRow(old));
    const hashedSecret = hashSecret(secret);
    await tx.insert(apiKeyDirectory).values({ hashedSecret, orgId: old.orgId });
    await tx.insert(apiKeys).values({ ...row!, id, hashedSecret, rotatedFromId: old.id });
    await tx
      .update(apiKeys)
      .set({ expiresAt: new Date(oldExpiresAt) })
      .where(keyRow(old));
  });
  system.keys.push({ id, orgId: old.orgId, secret });
}

export async function putEntitlement(
  { db, orgIds, products: known }: System,
  org: number,
  product: number,
  { kind, startsAt, endsAt, ownCap }: ModelEntitlement,
): Promise<void> {
  const values = {
    kind,
    startsAt: new Date(startsAt),
    endsAt: endsAt === null ? null : new Date(endsAt),
    hasOwnCap: ownCap !== undefined,
    unitCap: ownCap == null ? null : toUnits(ownCap),
  };
  const now = new Date();
  await db.orm
    .insert(entitlements)
    .values({ orgId: orgIds[org]!, productId: known[product]!.id, ...values, createdAt: now, updatedAt: now })
    .onConflictDoUpdate({ target: [entitlements.orgId, entitlements.productId], set: values });
}

export async function deleteEntitlement(
  { db, orgIds, products: known }: System,
  org: number,
  product: number,
) {
  await db.orm
    .delete(entitlements)
    .where(and(eq(entitlements.orgId, orgIds[org]!), eq(entitlements.productId, known[product]!.id)));
}

export async function changeProduct({ db, products: known }: System, product: number, to: ModelProduct) {
  const unitCap = to.unitCap === null ? null : toUnits(to.unitCap);
  await db.orm
    .update(products)
    .set({ usageMetric: to.metric, unitCap })
    .where(eq(products.id, known[product]!.id));
}

/**
 * Reads every total of the run's Organizations as `<org> <product> <metric> <mode> <month>: <quantity> in <events>`.
 */
export async function readTotals({ db, orgIds, products: known }: System): Promise<string[]> {
  const ids = sql.join(
    orgIds.map((id) => sql`${id}::uuid`),
    sql`, `,
  );
  const result = await db.orm.execute(sql`
    select org_id::text as org, product_id::text as product, metric, livemode, period::text as month,
      trim_scale(quantity)::text as quantity, events::int as events
    from usage_totals where org_id in (${ids})`);
  const { rows } = result as {
    rows: {
      org: string;
      product: string;
      metric: string;
      livemode: boolean;
      month: string;
      quantity: string;
      events: number;
    }[];
  };
  return rows
    .map((r) => {
      const product = known.findIndex(({ id }) => id === r.product);
      return `${orgIds.indexOf(r.org)} ${product} ${r.metric} ${r.livemode ? 'live' : 'test'} ${r.month}: ${r.quantity} in ${r.events}`;
    })
    .sort();
}
