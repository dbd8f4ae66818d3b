import { and, asc, desc, eq, getTableColumns, gte, inArray, lt, sql, type SQL } from 'drizzle-orm';
import type { Orm, Tx } from '../../core/db/client.js';
import { firstRow, firstValue, queryRows, matches } from '../../core/db/sql.js';
import { webhookAttempts, webhookDeliveries, webhookEndpoints, webhookMessages } from './table.js';

const {
  secret: _secret,
  previousSecret: _previous,
  nextPostAt: _nextPostAt,
  orgId: _orgId,
  ...shown
} = getTableColumns(webhookEndpoints);

const {
  orgId: _org,
  endpointId: _endpoint,
  messageId: _message,
  ...shownOfAttempt
} = getTableColumns(webhookAttempts);

export type EndpointRow = NonNullable<Awaited<ReturnType<typeof findEndpoint>>>;

const isEndpoint = (orgId: string, id: string) => matches(webhookEndpoints, { orgId, id });

/** Oldest first. An Organization has few endpoints. */
export const listEndpoints = (orm: Orm, orgId: string) =>
  orm
    .select(shown)
    .from(webhookEndpoints)
    .where(eq(webhookEndpoints.orgId, orgId))
    .orderBy(asc(webhookEndpoints.id));

export const findEndpoint = (orm: Orm, orgId: string, id: string) =>
  firstRow(orm.select(shown).from(webhookEndpoints).where(isEndpoint(orgId, id)));

export const insertEndpoint = (tx: Tx, row: typeof webhookEndpoints.$inferInsert): Promise<unknown> =>
  tx.insert(webhookEndpoints).values(row);

export const updateEndpoint = (
  tx: Tx,
  orgId: string,
  id: string,
  values: Partial<Omit<typeof webhookEndpoints.$inferInsert, 'orgId' | 'id'>>,
): Promise<unknown> => tx.update(webhookEndpoints).set(values).where(isEndpoint(orgId, id));

export const pausePosts = (orm: Orm, orgId: string, id: string, until: Date): Promise<unknown> =>
  orm.update(webhookEndpoints).set({ nextPostAt: until }).where(isEndpoint(orgId, id));

/** Encrypted. */
export const findSecret = (tx: Tx, orgId: string, id: string) =>
  firstValue(
    tx.select({ value: webhookEndpoints.secret }).from(webhookEndpoints).where(isEndpoint(orgId, id)),
  );

/** The next clean-up deletes the remaining deliveries. */
export const deleteEndpoint = (tx: Tx, orgId: string, id: string): Promise<unknown> =>
  tx.delete(webhookEndpoints).where(isEndpoint(orgId, id));

export interface DeliveryFilter {
  status?: (typeof webhookDeliveries.$inferSelect)['status'] | undefined;
  type?: string | undefined;
}

export type DeliveryRow = Awaited<ReturnType<typeof listDeliveries>>[number];

function selectDeliveries(orm: Orm) {
  const last = orm
    .select({ at: webhookAttempts.at, statusCode: webhookAttempts.statusCode, error: webhookAttempts.error })
    .from(webhookAttempts)
    .where(
      matches(webhookAttempts, {
        orgId: webhookDeliveries.orgId,
        endpointId: webhookDeliveries.endpointId,
        messageId: webhookDeliveries.messageId,
      }),
    )
    .orderBy(desc(webhookAttempts.attempt))
    .limit(1)
    .as('last');
  return orm
    .select({
      messageId: webhookDeliveries.messageId,
      type: webhookMessages.type,
      livemode: webhookMessages.livemode,
      createdAt: webhookMessages.createdAt,
      status: webhookDeliveries.status,
      attempts: webhookDeliveries.attempts,
      nextAttemptAt: webhookDeliveries.nextAttemptAt,
      lastAttemptAt: last.at,
      statusCode: last.statusCode,
      error: last.error,
    })
    .from(webhookDeliveries)
    .innerJoin(
      webhookMessages,
      matches(webhookMessages, { orgId: webhookDeliveries.orgId, id: webhookDeliveries.messageId }),
    )
    .leftJoinLateral(last, sql`true`);
}

const isOf = (orgId: string, endpointId: string) => matches(webhookDeliveries, { orgId, endpointId });

/** Newest first; message ids sort by time. */
export const listDeliveries = (
  orm: Orm,
  { orgId, endpointId }: { orgId: string; endpointId: string },
  { status, type, before, limit }: DeliveryFilter & { before?: string | undefined; limit: number },
) =>
  selectDeliveries(orm)
    .where(
      and(
        isOf(orgId, endpointId),
        status === undefined ? undefined : eq(webhookDeliveries.status, status),
        type === undefined ? undefined : eq(webhookMessages.type, type),
        before === undefined ? undefined : lt(webhookDeliveries.messageId, before),
      ),
    )
    .orderBy(desc(webhookDeliveries.messageId))
    .limit(limit);

/** Counts the deliveries of each endpoint. A delivery that waits for another attempt has failed, too. */
export const countDeliveries = (orm: Orm, orgId: string, endpointIds: string[], firstId: string) =>
  orm
    .select({
      endpointId: webhookDeliveries.endpointId,
      all: sql<number>`count(*)::int`,
      failed: sql<number>`(count(*) filter (where status <> 'delivered' and failures > 0))::int`,
    })
    .from(webhookDeliveries)
    .where(
      and(
        eq(webhookDeliveries.orgId, orgId),
        inArray(webhookDeliveries.endpointId, endpointIds),
        gte(webhookDeliveries.messageId, firstId),
      ),
    )
    .groupBy(webhookDeliveries.endpointId);

export interface DeliveryKey {
  orgId: string;
  endpointId: string;
  messageId: string;
}

export const findDelivery = (orm: Orm, { orgId, endpointId, messageId }: DeliveryKey) =>
  firstRow(
    selectDeliveries(orm).where(and(isOf(orgId, endpointId), eq(webhookDeliveries.messageId, messageId))),
  );

/** Exactly as the database formats it, which is how it is sent. */
export const readData = (orm: Orm, { orgId, messageId }: Omit<DeliveryKey, 'endpointId'>) =>
  firstValue(
    orm
      .select({ value: sql<string>`${webhookMessages.data}::text` })
      .from(webhookMessages)
      .where(matches(webhookMessages, { orgId, id: messageId })),
  );

export const listAttempts = (orm: Orm, { orgId, endpointId, messageId }: DeliveryKey, limit: number) =>
  orm
    .select(shownOfAttempt)
    .from(webhookAttempts)
    .where(matches(webhookAttempts, { orgId, endpointId, messageId }))
    .orderBy(desc(webhookAttempts.attempt))
    .limit(limit);

/** Restarts the retry schedule. */
async function resend(tx: Tx, orgId: string, endpointId: string, which: SQL | undefined, now: Date) {
  const rows = await tx
    .update(webhookDeliveries)
    .set({ status: 'waiting', nextAttemptAt: now, failures: 0 })
    .where(and(isOf(orgId, endpointId), which))
    .returning({ messageId: webhookDeliveries.messageId });
  return rows.length;
}

export const resendOne = (tx: Tx, { orgId, endpointId, messageId }: DeliveryKey, now: Date) =>
  resend(tx, orgId, endpointId, eq(webhookDeliveries.messageId, messageId), now);

export function resendAllFailed(
  tx: Tx,
  { orgId, endpointId }: Omit<DeliveryKey, 'messageId'>,
  { fromId, limit, now }: { fromId: string; limit: number; now: Date },
): Promise<number> {
  const failed = tx
    .select({ messageId: webhookDeliveries.messageId })
    .from(webhookDeliveries)
    .where(
      and(
        isOf(orgId, endpointId),
        eq(webhookDeliveries.status, 'failed'),
        gte(webhookDeliveries.messageId, fromId),
      ),
    )
    .orderBy(asc(webhookDeliveries.messageId))
    .limit(limit);
  return resend(tx, orgId, endpointId, sql`${webhookDeliveries.messageId} = any(array(${failed}))`, now);
}

export const listDisabled = (orm: Orm, orgId: string) =>
  orm
    .select({ id: webhookEndpoints.id, url: webhookEndpoints.url, reason: webhookEndpoints.disabledReason })
    .from(webhookEndpoints)
    .where(and(eq(webhookEndpoints.orgId, orgId), sql`${webhookEndpoints.disabledReason} is not null`))
    .orderBy(asc(webhookEndpoints.id));

type SealedRow = Record<'orgId' | 'id' | 'secret', string> & { previous: string | null };

/** The newest key did not seal these secrets. */
export const listStaleSecrets = (orm: Orm, currentPrefix: string, limit: number) =>
  queryRows(orm)<SealedRow>`
    select org_id as "orgId", id, secret, previous_secret as previous from webhook_endpoints
    where not starts_with(secret, ${currentPrefix}) or not starts_with(previous_secret, ${currentPrefix}) limit ${limit}`;

export async function replaceSecrets(orm: Orm, from: SealedRow, to: Pick<SealedRow, 'secret' | 'previous'>) {
  await orm
    .update(webhookEndpoints)
    .set({ secret: to.secret, previousSecret: to.previous })
    .where(
      and(
        isEndpoint(from.orgId, from.id),
        eq(webhookEndpoints.secret, from.secret),
        sql`${webhookEndpoints.previousSecret} is not distinct from ${from.previous}`,
      ),
    );
}
