import { v7 as uuid } from 'uuid';
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import { recordAudit, recordAudits } from '../../accounts/audit/audit.js';
import type { Put, Source } from '../../accounts/identity/source.js';
import { queueWebhook } from '../../accounts/webhooks/outbox.js';
import { groupBy } from '../../core/collections.js';
import type { Tx } from '../../core/db/client.js';
import { AppError, found } from '../../core/errors.js';
import { exact } from '../../core/http/json.js';
import type { Metrics } from '../../core/metrics.js';
import { fieldError } from '../../core/pages/form.js';
import { HOUR_MS } from '../../core/time.js';
import { getProduct } from '../entitlements/products.js';
import {
  clearOverdraft,
  forgiveEntry,
  overdraftOf,
  putIn,
  takeOut,
  voidEntry,
  type Account,
} from './account.js';
import { toGrant, type CreditGrant } from './credits.js';
import type { grantSchema } from './schema.js';
import { modeOf, reportBalance } from './watch.js';
import {
  burn,
  findGrant,
  insertGrant,
  listProductIds,
  lockAccount,
  lockAccounts,
  setVoided,
  toHeldGrant,
  writeAccount,
  writeAccounts,
  type AccountId,
  type ChangedAccount,
} from './queries.js';

/** Open and scheduled, per Organization and mode. */
export const MAX_OPEN = 64;
/** Includes grants that expired in the last 8 days, because late events may still burn them. */
export const MAX_KEPT = 256;
/** As sent; absent fields take their defaults. */
export interface GrantInput extends Omit<z.output<typeof grantSchema>, 'amount' | 'livemode'> {
  amount: string;
  /** Slug of the plan that makes the grant. */
  plan?: string | undefined;
}

/** Pays off overdrafts first. Repeating the same request changes nothing. */
export async function putGrant(
  tx: Tx,
  id: AccountId,
  grantKey: string,
  input: GrantInput,
  source: Source,
  /** Differs from `source` in the demo, which makes past grants at once. */
  author: Source = source,
): Promise<Put<CreditGrant>> {
  const { at } = source;
  const locked = await lockAccount(tx, id);
  const request = toRequest(input);
  const known = await findGrant(tx, id, grantKey);
  if (known) {
    if (!isDeepStrictEqual(known.request, request))
      throw new AppError(
        'idempotency_conflict',
        `The credit grant ${grantKey} was made with another body. A grant is never edited.`,
      );
    return { isNew: false, resource: toGrant(known, await burn(tx, locked, at), at) };
  }
  const { startsAt, expiresAt } = toTimes(input, at);
  const productIds = await toProductIds(tx, input.productSlugs);
  const settled = await burn(tx, locked, at);
  requireRoom(settled.account, at);
  await insertGrant(tx, {
    ...id,
    id: uuid(),
    startsAt,
    expiresAt,
    createdAt: author.at,
    priority: input.priority ?? 50,
    rolloverPercent: input.rollover?.percent ?? null,
    rolloverDays: input.rollover ? daysOf(input.rollover.for) : null,
    grantKey,
    amount: input.amount,
    productIds,
    reason: input.reason,
    actor: author.actor,
    request,
  });
  const row = (await findGrant(tx, id, grantKey))!;
  const paid = await burn(tx, putIn(settled.account, toHeldGrant(row)), at);
  await writeAccount(tx, id, paid.account, [...settled.entries, ...paid.entries]);
  const resource = toGrant(row, paid, at);
  const { livemode } = id;
  await queueWebhook(tx, { ...id, type: 'credits.granted', data: termsJson(resource), at });
  await reportBalance(tx, id, at);
  await recordAudit(tx, id.orgId, {
    ...author,
    action: 'credits.granted',
    target: grantKey,
    details: { livemode, after: request },
  });
  return { isNew: true, resource };
}

/** Call this after the commit. */
export function countGrant({ creditsGranted }: Metrics, { isNew, resource }: Put<CreditGrant>): void {
  if (isNew) creditsGranted.inc({ mode: modeOf(resource.livemode) }, Number(resource.amount));
}

/** Forfeits the remaining credits. Voiding again changes nothing. */
export async function voidGrant(
  tx: Tx,
  id: AccountId,
  grantKey: string,
  reason: string,
  source: Source,
): Promise<CreditGrant> {
  const { at } = source;
  const { account, entries } = await burn(tx, await lockAccount(tx, id), at);
  const row = found(await findGrant(tx, id, grantKey), `There is no credit grant ${grantKey}.`);
  const grant = toGrant(row, { account, entries }, at);
  if (grant.status === 'voided') return grant;
  if (grant.status === 'spent' || grant.status === 'expired')
    throw new AppError(
      'grant_closed',
      `The credit grant ${grantKey} ${grant.status === 'spent' ? 'is spent' : 'has expired'}.`,
    );
  await setVoided(tx, [{ orgId: id.orgId, id: grant.id }], id.livemode, { reason, at });
  const forfeited = voidEntry(grant.id, grant.remaining, at);
  await writeAccount(tx, id, takeOut(account, grant.id), [...entries, forfeited]);
  await recordAudit(tx, id.orgId, {
    ...source,
    action: 'credits.voided',
    target: grantKey,
    details: { livemode: id.livemode, forfeited: grant.remaining, reason },
  });
  return {
    ...grant,
    remaining: '0',
    status: 'voided',
    voidedAt: at.toISOString(),
    voidReason: reason,
  };
}

/** Forfeits what is left of those that have not ended. Their keys are free again. */
export async function forfeitGrants(
  tx: Tx,
  livemode: boolean,
  grants: readonly { orgId: string; id: string; grantKey: string }[],
  reason: string,
  source: Source,
): Promise<void> {
  if (grants.length === 0) return;
  const { at } = source;
  const byOrganization = groupBy(grants, ({ orgId }) => orgId);
  const voided: ((typeof grants)[number] & { forfeited: string })[] = [];
  const changed: ChangedAccount[] = [];
  for (const [orgId, locked] of await lockAccounts(tx, [...byOrganization.keys()], livemode)) {
    const own = new Map(byOrganization.get(orgId)!.map((grant) => [grant.id, grant]));
    const isRunning = locked.grants.some(({ id, startsMs }) => own.has(id) && startsMs <= at.getTime());
    const { account, entries } = isRunning ? await burn(tx, locked, at) : { account: locked, entries: [] };
    const held = account.grants.filter(
      ({ id, rest, endsMs }) => own.has(id) && rest !== '0' && endsMs > at.getTime(),
    );
    voided.push(...held.map(({ id, rest }) => ({ ...own.get(id)!, forfeited: rest })));
    changed.push({
      orgId,
      livemode,
      account: held.reduce((left, { id }) => takeOut(left, id), account),
      entries: [...entries, ...held.map(({ id, rest }) => voidEntry(id, rest, at))],
    });
  }
  await setVoided(tx, voided, livemode, { reason, at, isKeyFree: true });
  await writeAccounts(tx, changed);
  await recordAudits(
    tx,
    voided.map(({ orgId, grantKey, forfeited }) => ({
      ...source,
      orgId,
      action: 'credits.voided',
      target: grantKey,
      details: { livemode, forfeited, reason },
    })),
  );
}

/** Returns the amount. */
export async function forgiveOverdraft(
  tx: Tx,
  id: AccountId,
  productSlug: string,
  reason: string,
  source: Source,
): Promise<string> {
  const { at } = source;
  const { id: productId } = await getProduct(tx, productSlug);
  const { account, entries } = await burn(tx, await lockAccount(tx, id), at);
  const overdraft = overdraftOf(account, productId);
  if (overdraft === '0') return overdraft;
  const forgiven = forgiveEntry(productId, overdraft, at);
  await writeAccount(tx, id, clearOverdraft(account, productId), [...entries, forgiven]);
  await recordAudit(tx, id.orgId, {
    ...source,
    action: 'credits.forgiven',
    target: productSlug,
    details: { livemode: id.livemode, forgiven: overdraft, reason },
  });
  return overdraft;
}

/** `toJson` writes decimals as numbers with all digits. */
export const termsJson = ({ rolloverPercent, rolloverDays, ...grant }: CreditGrant) => ({
  grantKey: grant.grantKey,
  livemode: grant.livemode,
  amount: exact(grant.amount),
  priority: grant.priority,
  startsAt: grant.startsAt,
  expiresAt: grant.expiresAt,
  productSlugs: grant.productSlugs,
  rollover: rolloverPercent === null ? null : { percent: rolloverPercent, for: `P${rolloverDays}D` },
});

/** Leaves out defaults, so that equivalent requests compare equal. */
function toRequest({ startsAt, expiresAt, productSlugs, ...sent }: GrantInput): Record<string, unknown> {
  const fields = {
    ...sent,
    startsAt: startsAt && new Date(startsAt).toISOString(),
    expiresAt: expiresAt && new Date(expiresAt).toISOString(),
    productSlugs: productSlugs?.toSorted(),
    priority: sent.priority === 50 ? undefined : sent.priority,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null));
}

function toTimes({ startsAt, expiresAt, plan }: GrantInput, at: Date) {
  const mayBeLate = plan !== undefined;
  const start = startsAt === undefined ? at : new Date(startsAt);
  if (start < at && !mayBeLate) throw fieldError('startsAt', `must not be before now, ${at.toISOString()}`);
  const end = expiresAt == null ? null : new Date(Math.ceil(Date.parse(expiresAt) / HOUR_MS) * HOUR_MS);
  if (end && end <= at && !mayBeLate) throw fieldError('expiresAt', 'must not be in the past');
  if (end && end <= start)
    throw fieldError('expiresAt', `must be later than the start, ${start.toISOString()}`);
  return { startsAt: start, expiresAt: end };
}

async function toProductIds(tx: Tx, slugs: string[] | null | undefined): Promise<string[] | null> {
  if (slugs == null) return null;
  const known = await listProductIds(tx, slugs);
  const errors = slugs.flatMap((slug, index) => {
    const place = { index, pointer: `/productSlugs/${index}`, code: 'unknown_product' as const };
    return known.has(slug) ? [] : [{ ...place, detail: `There is no product "${slug}".` }];
  });
  if (errors.length > 0)
    throw new AppError('unknown_product', `Nothing was granted. ${errors[0]!.detail}`, { errors });
  return [...known.values()].toSorted();
}

function requireRoom({ grants }: Account, at: Date): void {
  const open = grants.filter(({ rest, endsMs }) => rest !== '0' && endsMs > at.getTime()).length;
  if (open >= MAX_OPEN)
    throw new AppError(
      'too_many_grants',
      `The Organization has ${MAX_OPEN} grants that are open or scheduled.`,
    );
  if (grants.length >= MAX_KEPT)
    throw new AppError(
      'too_many_grants',
      `The Organization has ${MAX_KEPT} grants with those that expired in the last 8 days.`,
    );
}

const daysOf = (duration: string): number => Number(duration.slice(1, -1));
