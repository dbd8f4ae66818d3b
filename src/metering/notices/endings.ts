import { sql, type SQL } from 'drizzle-orm';
import { byService, change } from '../../accounts/audit/audit.js';
import { plainName } from '../../accounts/mail/outbox.js';
import { managingRoles } from '../../accounts/organizations/table.js';
import { queueForBothModes, queueWebhook } from '../../accounts/webhooks/outbox.js';
import type { DataOf, WebhookType } from '../../accounts/webhooks/types.js';
import type { GroupTables, Tx } from '../../core/db/client.js';
import { selectFromAll, type ReportedDatabase } from '../../core/db/shards.js';
import { timeJson } from '../../core/db/sql.js';
import { BATCH, FIRST, walk } from '../../core/db/walk.js';
import { formatDay } from '../../core/pages/format.js';
import { DAY_MS } from '../../core/time.js';
import { mailRoles, type NoticeDeps } from './notices.js';
import { keyNotices } from './table.js';

/** Per Organization; the next run reports further ones. */
const MAX_ENDS = 100;
const FIRST_NOTICE_MS = 7 * DAY_MS;

interface Ending<T extends WebhookType> {
  data: DataOf<T>;
  /** Prevents a second message for the same ending. */
  onceKey: string;
}

interface Endings extends Record<string, unknown> {
  orgId: string;
  orgName: string;
  keys: Ending<'api_key.expiring'>[] | null;
  entitlements: Ending<'entitlement.ending'>[] | null;
}

/**
 * 7 days and 1 day before a key that has not been rotated expires, or an entitlement ends. Each key is also mailed
 * once: rotated keys are meant to expire.
 */
export const createEndingMessages = (deps: NoticeDeps): (() => Promise<void>) =>
  walk<Endings, string>(
    FIRST,
    (after) => listEndings(deps.db, after, new Date(deps.clock.now())),
    ({ orgId }) => orgId,
    (row) => ((row.keys ?? row.entitlements) ? reportEndings(deps, row) : Promise.resolve()),
  );

function reportEndings(deps: NoticeDeps, { orgId, orgName, keys, entitlements }: Endings): Promise<void> {
  const at = new Date(deps.clock.now());
  return change(deps, byService, async (tx) => {
    for (const { data, onceKey } of keys ?? []) {
      const { livemode } = data.apiKey;
      await queueWebhook(tx, { orgId, livemode, type: 'api_key.expiring', data, onceKey, at });
    }
    for (const { data, onceKey } of entitlements ?? [])
      await queueForBothModes(tx, { orgId, type: 'entitlement.ending', data, onceKey, at });
    if (keys) await mailKeys(tx, deps, { orgId, orgName }, keys, at);
  });
}

async function mailKeys(
  tx: Tx,
  deps: NoticeDeps,
  { orgId, orgName }: Pick<Endings, 'orgId' | 'orgName'>,
  keys: NonNullable<Endings['keys']>,
  at: Date,
): Promise<void> {
  const recorded = await tx
    .insert(keyNotices)
    .values(keys.map(({ data }) => ({ orgId, apiKeyId: data.apiKey.id, at })))
    .onConflictDoNothing()
    .returning({ id: keyNotices.apiKeyId });
  const ours = keys.filter(({ data }) => recorded.some((row) => row.id === data.apiKey.id));
  if (ours.length === 0) return;
  const organization = plainName(orgName);
  const lines = ours.map(
    ({ data: { apiKey } }) =>
      `${plainName(apiKey.name)} (${apiKey.prefix}…) expires on ${formatDay(new Date(apiKey.expiresAt!))}`,
  );
  await mailRoles(tx, deps, orgId, managingRoles, {
    kind: 'key_notice',
    subject: `${ours.length === 1 ? 'An API key expires' : 'API keys expire'} within 7 days (${organization})`,
    text: (origin) => [
      `API keys of ${organization} expiring soon:`,
      lines.join('\n'),
      `Calls with these keys fail after that. Replace them in time:  ${origin}/dashboard/api-keys`,
    ],
    at,
  });
}

/** By id, with unreported endings. */
function listEndings(db: ReportedDatabase, after: string, now: Date): Promise<Endings[]> {
  const [from, until] = [now, new Date(now.getTime() + FIRST_NOTICE_MS)].map((time) => time.toISOString());
  const range = (column: SQL) => sql`${column} > ${from}::timestamptz and ${column} <= ${until}::timestamptz`;
  const daysBefore = (column: SQL) =>
    sql`(case when ${column} <= ${from}::timestamptz + interval '1 day' then 1 else 7 end)`;
  return selectFromAll<Endings>(
    db,
    (t) => sql`with part as materialized (
      select id as org_id, name from ${t('organizations')} where id > ${after}::uuid and ${t.owns(sql`id`)} order by id limit ${BATCH}
    )
    select o.org_id as "orgId", o.name as "orgName", (
      select json_agg(json_build_object('onceKey', k.once_key, 'data', json_build_object('daysBefore', k.days_before, 'apiKey',
        json_build_object('id', k.id, 'name', k.name, 'prefix', k.prefix, 'scopes', k.scopes, 'livemode', k.livemode,
          'expiresAt', ${sql.raw(timeJson('k.expires_at'))}))))
      from (
        select k.*, d.days_before, x.once_key
        from ${t('api_keys')} k
        cross join lateral (select ${daysBefore(sql`k.expires_at`)} as days_before) d
        cross join lateral (select concat_ws(' ', 'api_key.expiring', k.id, k.expires_at, d.days_before) as once_key) x
        where k.org_id = o.org_id and k.revoked_at is null and k.service_key_id is null and ${range(sql`k.expires_at`)}
          and not exists (select from ${t('api_keys')} s where s.org_id = o.org_id and s.rotated_from_id = k.id)
          and (not exists (select from ${t('key_notices')} n where n.org_id = o.org_id and n.api_key_id = k.id)
            or ${isListening(t, 'api_key.expiring', sql`and w.livemode = k.livemode`)}
            and not exists (select from ${t('webhook_messages')} m where m.org_id = o.org_id and m.once_key = x.once_key))
        order by k.expires_at limit ${MAX_ENDS}
      ) k
    ) as keys, (
      select json_agg(json_build_object('onceKey', e.once_key, 'data', json_build_object('daysBefore', e.days_before,
        'productSlug', e.slug, 'kind', e.kind, 'endsAt', ${sql.raw(timeJson('e.ends_at'))})))
      from (
        select e.*, p.slug, d.days_before, x.once_key
        from ${t('entitlements')} e
        join ${t('products')} p on p.id = e.product_id and p.archived_at is null
        cross join lateral (select ${daysBefore(sql`e.ends_at`)} as days_before) d
        cross join lateral (select concat_ws(' ', 'entitlement.ending', e.product_id, e.ends_at, d.days_before) as once_key) x
        where e.org_id = o.org_id and ${range(sql`e.ends_at`)} and ${isListening(t, 'entitlement.ending', sql``)}
          and not exists (
            select from ${t('webhook_messages')} m
            where m.org_id = o.org_id and m.once_key in (x.once_key || ' true', x.once_key || ' false')
          )
        order by e.ends_at limit ${MAX_ENDS}
      ) e
    ) as entitlements
    from part o order by o.org_id`,
    ({ orgId }) => [orgId],
    BATCH,
  );
}

const isListening = (t: GroupTables, type: WebhookType, more: SQL): SQL => sql`exists (
  select from ${t('webhook_endpoints')} w
  where w.org_id = o.org_id and w.is_enabled and ${type} = any (w.types) ${more})`;
