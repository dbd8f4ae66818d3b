import { deepStrictEqual } from 'node:assert';
import { asc, eq } from 'drizzle-orm';
import type { Database } from '../../src/core/db/client.js';
import { newId } from '../../src/core/ids.js';
import { webhookEndpoints, webhookMessages } from '../../src/accounts/webhooks/table.js';
import { serviceTypes, type AnyType } from '../../src/accounts/webhooks/types.js';
import { webhookTypes } from '../../src/products.js';
import { createOrganization, uniqueSlug } from './fixtures.js';

const allTypes = { ...webhookTypes, ...serviceTypes };

/** Creates an Organization's endpoint for the given types, or for all types. */
export async function createListener(
  db: Database,
  orgId: string,
  values: { livemode?: boolean; types?: AnyType[]; url?: string } = {},
): Promise<void> {
  await db.orm.insert(webhookEndpoints).values({
    orgId,
    id: newId(Date.now()),
    url: 'https://example.com/',
    types: Object.keys(allTypes),
    livemode: true,
    secret: '',
    createdAt: new Date(),
    ...values,
  });
}

export interface QueuedMessage {
  type: AnyType;
  livemode: boolean;
  // oxlint-disable-next-line typescript/no-explicit-any -- each type has its own data
  data: any;
  createdAt: Date;
}

/** Reads the messages sent to an Organization, oldest first. Each must match the schema of its type exactly. */
export async function readWebhookMessages(
  db: Database,
  orgId: string,
  type?: AnyType,
): Promise<QueuedMessage[]> {
  const rows = (await db.orm
    .select()
    .from(webhookMessages)
    .where(eq(webhookMessages.orgId, orgId))
    .orderBy(asc(webhookMessages.createdAt), asc(webhookMessages.id))) as QueuedMessage[];
  for (const row of rows) deepStrictEqual(allTypes[row.type].schema.strict().parse(row.data), row.data);
  return rows.filter((row) => type === undefined || row.type === type);
}

export const readWebhookData = async (db: Database, orgId: string, type: AnyType) =>
  (await readWebhookMessages(db, orgId, type)).map(({ data }) => data);

/** Creates an Organization with an endpoint for this type in each mode. */
export async function createListeningOrganization(db: Database, type: AnyType, livemodes = [true]) {
  const organization = await createOrganization(db, { slug: uniqueSlug('org') });
  for (const livemode of livemodes) await createListener(db, organization.id, { types: [type], livemode });
  return organization;
}
