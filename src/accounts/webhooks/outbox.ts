import { and, arrayContains, eq, inArray, isNull, ne, sql, type SQL } from 'drizzle-orm';
import type { Names, Tx } from '../../core/db/client.js';
import { groupBy } from '../../core/collections.js';
import { addRows } from '../../core/db/sql.js';
import { toJson } from '../../core/http/json.js';
import { newId } from '../../core/ids.js';
import { organizations } from '../organizations/table.js';
import { webhookDeliveries, webhookEndpoints, webhookMessages } from './table.js';
import type { AnyType, DataOf, WebhookType } from './types.js';

/** Longer than any period that is reported only once, plus the time in which an API key may correct its events. */
export const ONCE_KEPT_DAYS = 100;

export interface NewMessage<T extends AnyType> {
  orgId: string;
  livemode: boolean;
  type: T;
  data: DataOf<T>;
  at: Date;
  /** An Organization gets only one message with this key within `ONCE_KEPT_DAYS`. */
  onceKey?: string | undefined;
}

/** `tx` must make the change being reported. Writes nothing if no endpoint listens. */
export const queueWebhook = <T extends WebhookType>(tx: Tx, { livemode, ...message }: NewMessage<T>) =>
  queueForModes(tx, [message], [livemode]);

/** For subjects that live and test keys share, such as entitlements. */
export const queueForBothModes = <T extends WebhookType>(tx: Tx, message: Omit<NewMessage<T>, 'livemode'>) =>
  queueForModes(tx, [message], [true, false]);

export interface Listener {
  orgId: string;
  id: string;
  livemode: boolean;
}

/** JSON for both modes. Saves a query where the Organization is read anyway. */
export const listenersOf = (orgId: string, type: WebhookType): SQL => sql`(
  select coalesce(jsonb_agg(jsonb_build_object('orgId', org_id, 'id', id, 'livemode', livemode)), '[]') from webhook_endpoints
  where org_id = ${orgId} and is_enabled and ${type} = any (types))`;

const listenerColumns = {
  orgId: webhookEndpoints.orgId,
  id: webhookEndpoints.id,
  livemode: webhookEndpoints.livemode,
};

const isListener = (type: WebhookType) =>
  and(eq(webhookEndpoints.isEnabled, true), arrayContains(webhookEndpoints.types, [type]));

const findListeners = (tx: Tx, orgIds: readonly string[], type: WebhookType): Promise<Listener[]> =>
  tx
    .select(listenerColumns)
    .from(webhookEndpoints)
    .where(and(inArray(webhookEndpoints.orgId, [...new Set(orgIds)]), isListener(type)));

const placeOf = ({ orgId, livemode }: Pick<Listener, 'orgId' | 'livemode'>) => `${orgId} ${livemode}`;

/**
 * A few statements, however many messages there are.
 * @param messages of one type
 * @param listeners of both modes; looked up if omitted
 */
export async function queueForModes<T extends WebhookType>(
  tx: Tx,
  messages: readonly Omit<NewMessage<T>, 'livemode'>[],
  modes: readonly boolean[],
  listeners?: readonly Listener[],
): Promise<void> {
  if (messages.length === 0) return;
  const orgIds = messages.map(({ orgId }) => orgId);
  const known = groupBy(listeners ?? (await findListeners(tx, orgIds, messages[0]!.type)), placeOf);
  await writeMessages(
    tx,
    messages.flatMap(({ onceKey, ...message }) =>
      modes.map((livemode) => ({
        ...message,
        livemode,
        onceKey: onceKey && modes.length > 1 ? `${onceKey} ${livemode}` : onceKey,
        endpointIds: (known.get(placeOf({ ...message, livemode })) ?? []).map(({ id }) => id),
      })),
    ),
  );
}

export async function queueForTraders<T extends WebhookType>(
  tx: Tx,
  message: Pick<NewMessage<T>, 'type' | 'data' | 'at'>,
): Promise<void> {
  const listeners = await tx
    .select(listenerColumns)
    .from(webhookEndpoints)
    .innerJoin(organizations, eq(organizations.id, webhookEndpoints.orgId))
    .where(
      and(isListener(message.type), ne(organizations.marketAccess, 'none'), isNull(organizations.archivedAt)),
    )
    .orderBy(webhookEndpoints.orgId, webhookEndpoints.id);
  await writeMessages(
    tx,
    [...groupBy(listeners, placeOf).values()].map((own) => ({
      ...message,
      orgId: own[0]!.orgId,
      livemode: own[0]!.livemode,
      endpointIds: own.map(({ id }) => id),
    })),
  );
}

/** Returns the ids. Leaves out messages without endpoints, and those whose `onceKey` exists. */
export async function writeMessages<T extends AnyType>(
  tx: Tx,
  messages: readonly (NewMessage<T> & { endpointIds: string[] })[],
): Promise<string[]> {
  const heard = messages
    .filter(({ endpointIds }) => endpointIds.length > 0)
    .map((message) => ({ ...message, id: newId(message.at.getTime()) }));
  const written = await addRows<{ id: string }>(
    tx,
    webhookMessages,
    heard.map(({ at, endpointIds: _ids, ...row }) => ({ onceKey: null, ...row, createdAt: at })),
    { onConflict: sql`on conflict (org_id, once_key) do nothing returning id::text as id`, toText: toJson },
  );
  const ids = written.map(({ id }) => id);
  const known = new Set(ids);
  const deliveries = heard
    .filter(({ id }) => known.has(id))
    .flatMap(({ orgId, id: messageId, at: nextAttemptAt, endpointIds }) =>
      endpointIds.map((endpointId) => ({ orgId, endpointId, messageId, nextAttemptAt })),
    );
  await addRows(tx, webhookDeliveries, deliveries);
  return ids;
}

/**
 * For a high-traffic statement.
 * @param source name of an earlier CTE with org_id, livemode, type, data (jsonb) and once_key (text, may be null)
 * @param now SQL expression, a timestamptz
 */
export const queueInStatement = (t: Names, source: string, now: string): string => `webhook_message as (
  insert into ${t('webhook_messages')} (org_id, id, livemode, type, data, created_at, once_key)
  select w.org_id, ${newIdAt(now)}, w.livemode, w.type, w.data, ${now}, w.once_key
  from ${source} w
  where (select true from ${t('webhook_endpoints')} e where ${listens('e', 'w')} limit 1)
  order by w.org_id, w.once_key
  on conflict (org_id, once_key) do nothing
  returning org_id, id, livemode, type
), webhook_delivery as (
  insert into ${t('webhook_deliveries')} (org_id, endpoint_id, message_id, next_attempt_at)
  select m.org_id, e.id, m.id, ${now}
  from webhook_message m
  cross join lateral (select id from ${t('webhook_endpoints')} e where ${listens('e', 'm')} offset 0) e
)`;

const listens = (endpoint: string, message: string, type = `${message}.type`): string =>
  `${endpoint}.org_id = ${message}.org_id and ${endpoint}.livemode = ${message}.livemode and ${endpoint}.is_enabled
    and ${type} = any (${endpoint}.types)`;

/** True if the row's Organization has an endpoint of its mode that listens. */
export const isListening = (t: (table: string) => string, row: string, type: WebhookType): string =>
  `coalesce((select true from ${t('webhook_endpoints')} w where ${listens('w', row, `'${type}'`)} limit 1), false)`;

/** A UUIDv7: a random UUID with the time and the version bits. */
const newIdAt = (now: string): string =>
  `encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send((extract(epoch from ${now}) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid`;
