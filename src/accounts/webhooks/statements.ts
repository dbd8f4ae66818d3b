import type { Names, Template } from '../../core/db/client.js';
import { CHAT_GROUP } from './chat.js';

/** Cursor that sorts before every endpoint. */
export const START = '00000000-0000-0000-0000-000000000000 00000000-0000-0000-0000-000000000000';

/** Per statement. The next one continues after the last. */
const ENDPOINTS = 100;

/**
 * One index lookup per endpoint, however many rows it has.
 * @param after two SQL parameters: the endpoint after which to begin
 */
const endpointsOf = (table: string, condition: string, after: string): string => {
  const next = (last: string) =>
    `select org_id, endpoint_id from ${table} where ${condition} and (org_id, endpoint_id) > (${last}) order by 1, 2 limit 1`;
  return `endpoint (org_id, endpoint_id, place) as (
  (select x.*, 1 from (${next(after)}) x)
  union all
  select x.*, e.place + 1 from endpoint e cross join lateral (${next('e.org_id, e.endpoint_id')}) x where e.place < ${ENDPOINTS}
)`;
};

const waitingOf = (t: Names) =>
  endpointsOf(t('webhook_deliveries'), `status = 'waiting'`, '$1::uuid, $2::uuid');

/** Null after the last endpoint. */
const cursor = `case when (select count(*) from endpoint) = ${ENDPOINTS} then
  (select org_id || ' ' || endpoint_id from endpoint order by place desc limit 1) end`;

/**
 * Leases due deliveries, for each endpoint at most as many as it has room for, so that a backlog at one does not delay
 * the others. A chat gets its next post only after a pause.
 * $1 org, $2 endpoint to continue after · $3 now · $4 end of the lease · $5 end of a chat's pause · $6 default room
 * $7 endpoints with a different room, $8 their room · $9 limit
 */
export const claim: Template = {
  name: 'webhooks_claim',
  text: (t) => `
${t.withRecursive} ${waitingOf(t)}, chat as materialized (
  select w.org_id, w.id from endpoint e${t.held}
  join ${t('webhook_endpoints')} w on w.org_id = e.org_id and w.id = e.endpoint_id
  where w.format <> 'standard' and (w.next_post_at is null or w.next_post_at <= $3::timestamptz)
  order by 1, 2
  for update of w skip locked
), due as materialized (
  select d.* from (
    select e.org_id, e.endpoint_id,
      case when w.format = 'standard' then coalesce(own.room, $6::int) else ${CHAT_GROUP} * sign(coalesce(own.room, $6::int))::int end as room
    from endpoint e${t.held}
    left join unnest($7::uuid[], $8::int[]) as own (endpoint_id, room) on own.endpoint_id = e.endpoint_id
    join ${t('webhook_endpoints')} w on w.org_id = e.org_id and w.id = e.endpoint_id and w.is_enabled
    where w.format = 'standard' or exists (select from chat c where c.org_id = w.org_id and c.id = w.id)
    order by e.place
  ) e
  cross join lateral (
    select d.org_id, d.endpoint_id, d.message_id from ${t('webhook_deliveries')} d
    where d.org_id = e.org_id and d.endpoint_id = e.endpoint_id and d.status = 'waiting' and d.next_attempt_at <= $3::timestamptz
    order by d.next_attempt_at
    limit e.room
    for update skip locked
  ) d
  limit $9::int
), claimed as (
  update ${t('webhook_deliveries')} d set attempts = d.attempts + 1, next_attempt_at = $4::timestamptz
  from due where d.org_id = due.org_id and d.endpoint_id = due.endpoint_id and d.message_id = due.message_id
  returning d.org_id, d.endpoint_id, d.message_id, d.attempts, d.failures
), paused as (
  update ${t('webhook_endpoints')} w set next_post_at = $5::timestamptz
  from chat c where w.org_id = c.org_id and w.id = c.id
    and exists (select from due where due.org_id = w.org_id and due.endpoint_id = w.id)
)
select ${cursor} as cursor, null as "orgId", null as "endpointId", null as "messageId", null as attempt, null as failures, null as type,
  null as data, null as "createdAt", null as format, null as url, null as secret, null as "previousSecret"
union all
select null, c.org_id::text, c.endpoint_id::text, c.message_id::text, c.attempts::text, c.failures::text, m.type, m.data::text,
  extract(epoch from m.created_at)::text, e.format, e.url, e.secret,
  case when e.previous_secret_ends_at > $3::timestamptz then e.previous_secret end
from claimed c
join ${t('webhook_messages')} m on m.org_id = c.org_id and m.id = c.message_id
join ${t('webhook_endpoints')} e on e.org_id = c.org_id and e.id = c.endpoint_id`,
};

/**
 * Returns endpoints that have been failing for too long. If the delivery was leased again or resent in the meantime,
 * only a success counts. Idempotent.
 * Per attempt: $1 org, $2 endpoint, $3 message, $4 attempt, $5 at, $6 duration in ms, $7 status code or null,
 * $8 error or null, $9 answer or null, $10 new status, $11 next attempt at, $12 failures before this attempt
 * $13 endpoints that have been failing since this time or earlier are returned · $14 is a test, per attempt
 */
export const record: Template = {
  name: 'webhooks_record',
  text: (t) => `
${t.with} o as materialized (
  select o.* from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int[], $5::timestamptz[], $6::int[], $7::int[], $8::text[], $9::text[],
    $10::text[], $11::timestamptz[], $12::int[], $14::boolean[])
    as o (org_id, endpoint_id, message_id, attempt, at, duration_ms, status_code, error, answer, status, next_attempt_at, failures, is_test)${t.held}
), attempted as (
  insert into ${t('webhook_attempts')} (org_id, endpoint_id, message_id, attempt, at, duration_ms, status_code, error, answer)
  select org_id, endpoint_id, message_id, attempt, at, duration_ms, status_code, error, answer from o
  order by 1, 2, 3, 4
  on conflict do nothing
), recorded as (
  update ${t('webhook_deliveries')} d set status = o.status, next_attempt_at = o.next_attempt_at,
    failures = o.failures + (o.status <> 'delivered')::int
  from o
  where d.org_id = o.org_id and d.endpoint_id = o.endpoint_id and d.message_id = o.message_id and d.status = 'waiting'
    and (d.attempts = o.attempt and d.failures = o.failures or o.status = 'delivered')
), seen as materialized (
  select e.org_id, e.id, s.failed_at, s.has_success
  from (
    select org_id, endpoint_id, min(at) filter (where status <> 'delivered') as failed_at, bool_or(status = 'delivered') as has_success
    from o where not is_test group by 1, 2
  ) s
  join ${t('webhook_endpoints')} e on e.org_id = s.org_id and e.id = s.endpoint_id
  where case when s.has_success then e.failing_since is not null else e.failing_since is null end
  order by 1, 2
  for update of e
), noticed as (
  update ${t('webhook_endpoints')} e set failing_since = case when not s.has_success then s.failed_at end
  from seen s where e.org_id = s.org_id and e.id = s.id
)
select distinct e.org_id::text as "orgId", e.id::text
from o join ${t('webhook_endpoints')} e on e.org_id = o.org_id and e.id = o.endpoint_id
where o.status <> 'delivered' and not o.is_test and e.is_enabled and e.failing_since <= $13::timestamptz
  and not exists (select from o s where s.endpoint_id = o.endpoint_id and s.status = 'delivered')`,
};

/**
 * Fails deliveries to disabled or deleted endpoints, and counts the others.
 * $1 org, $2 endpoint to continue after · $3 now · $4 limit per endpoint
 */
export const tend: Template = {
  name: 'webhooks_tend',
  text: (t) => `
${t.withRecursive} ${waitingOf(t)}, heard as materialized (
  select e.org_id, e.endpoint_id, w.id is not null as is_heard from endpoint e${t.held}
  left join ${t('webhook_endpoints')} w on w.org_id = e.org_id and w.id = e.endpoint_id and w.is_enabled
), lost as materialized (
  select d.* from heard e cross join lateral (
    select d.org_id, d.endpoint_id, d.message_id from ${t('webhook_deliveries')} d
    where d.org_id = e.org_id and d.endpoint_id = e.endpoint_id and d.status = 'waiting'
    order by d.next_attempt_at
    limit $4::int
    for update skip locked
  ) d where not e.is_heard
), given_up as (
  update ${t('webhook_deliveries')} d set status = 'failed' from lost l
  where d.org_id = l.org_id and d.endpoint_id = l.endpoint_id and d.message_id = l.message_id
)
select ${cursor} as cursor, (select count(*) from lost)::text as changed, sum(w.waiting)::text as waiting,
  extract(epoch from $3::timestamptz - min(w.first_at))::text as "overdueSeconds"
from heard e cross join lateral (
  select count(*) as waiting, min(next_attempt_at) as first_at from (
    select d.next_attempt_at from ${t('webhook_deliveries')} d
    where d.org_id = e.org_id and d.endpoint_id = e.endpoint_id and d.status = 'waiting'
    order by d.next_attempt_at limit $4::int
  ) d
) w where e.is_heard`,
};

/**
 * The deliveries become due immediately.
 * Per delivery: $1 org, $2 endpoint, $3 message, $4 attempt · $5 now
 */
export const giveBack: Template = {
  name: 'webhooks_give_back',
  text: (t) => `
${t.with} o as materialized (
  select o.* from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int[]) as o (org_id, endpoint_id, message_id, attempt)${t.held}
)
update ${t('webhook_deliveries')} d set next_attempt_at = $5::timestamptz
from o where d.org_id = o.org_id and d.endpoint_id = o.endpoint_id and d.message_id = o.message_id
  and d.status = 'waiting' and d.attempts = o.attempt`,
};

/** $1 org, $2 endpoint to continue after · $3 smallest message id to keep · $4 limit per endpoint */
const deleteOf = (table: 'webhook_deliveries' | 'webhook_attempts'): Template => ({
  name: `${table}_delete`,
  text: (t) => `
${t.withRecursive} ${endpointsOf(t(table), 'true', '$1::uuid, $2::uuid')}, gone as (
  delete from ${t(table)} d using endpoint e${t.held}
  where d.org_id = e.org_id and d.endpoint_id = e.endpoint_id and d.message_id = any (array(
    select o.message_id from ${t(table)} o
    where o.org_id = e.org_id and o.endpoint_id = e.endpoint_id and o.message_id < $3::uuid
    order by o.message_id limit $4::int
  ))
  returning 1
)
select ${cursor} as cursor, count(*)::text as changed from gone`,
});

export const deleteDeliveries = deleteOf('webhook_deliveries');
export const deleteAttempts = deleteOf('webhook_attempts');

/** At most $3 messages: those created up to $1, or up to $2 if they have a `once_key`. */
export const deleteMessages: Template = {
  name: 'webhooks_delete_messages',
  text: (t) => `
${t.with} old as materialized (
  select m.org_id, m.id from (select 1) one${t.held}
  join ${t('webhook_messages')} m on m.created_at <= $1::timestamptz and (m.once_key is null or m.created_at <= $2::timestamptz)
  order by m.created_at limit $3::int
), gone as (
  delete from ${t('webhook_messages')} m using old where m.org_id = old.org_id and m.id = old.id returning 1
)
select count(*)::text as deleted from gone`,
};
