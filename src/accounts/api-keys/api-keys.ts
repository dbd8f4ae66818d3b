import { v7 as uuid } from 'uuid';
import { recordAudit, change, byService } from '../audit/audit.js';
import { isOfMarkets, scopes as allScopes, type Scope } from './scopes.js';
import type { Context } from '../../core/http/context.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError, found } from '../../core/errors.js';
import { isFreshId } from '../../core/ids.js';
import { fieldError } from '../../core/pages/form.js';
import { MINUTE_MS } from '../../core/time.js';
import { lockOrganization, type Organization } from '../identity/organizations/queries.js';
import type { MemberActor } from '../identity/session/authority.js';
import { queueWebhook } from '../webhooks/outbox.js';
import type { DataOf, WebhookType } from '../webhooks/types.js';
import { countKeyChanges, findKey, insertKey, updateKey, type KeyRow, type KeyState } from './queries.js';
import { generateSecret, hashSecret } from './bearer-key.js';

export type KeyDeps = Pick<Context, 'db' | 'clock' | 'config'>;

export interface KeyActor
  extends Pick<MemberActor, 'orgId' | 'by' | 'voucher'>, Partial<Pick<MemberActor, 'ip' | 'requestId'>> {
  /** Null for the system, whose keys are exempt from the hourly limit. */
  userId: string | null;
  /** Default: the member. */
  actor?: string;
}

export type NewKey = Awaited<ReturnType<typeof addKey>>;

/** The same form was submitted before. Nothing is changed. */
export class KeyExists extends AppError {
  readonly keyId: string;
  constructor(keyId: string) {
    super('invalid_request', 'This API key has already been created.');
    this.keyId = keyId;
  }
}

/**
 * A repeated call with the same id does not create a second key.
 * @throws KeyExists
 */
export async function createApiKey(
  { db, clock, config }: KeyDeps,
  actor: KeyActor,
  input: {
    id?: string | undefined;
    name: string;
    livemode: boolean;
    scopes?: Scope[] | undefined;
    expiresAt?: Date | null | undefined;
  },
) {
  const now = new Date(clock.now());
  const { id, name, livemode, scopes = ['usage:write'], expiresAt = null } = input;
  refuseStale({ id, expiresAt }, now);
  return change({ db, clock }, actor.by, async (tx) => {
    const rights = (await lockOrganization(tx, { id: actor.orgId }))!;
    if (id !== undefined && (await findKey(tx, actor.orgId, id))) throw new KeyExists(id);
    const place = scopes.findIndex((scope) => whyNotOffered(scope, config, rights) !== undefined);
    if (place >= 0)
      throw fieldError(
        `scopes/${place}`,
        `is not available: ${whyNotOffered(scopes[place]!, config, rights)}`,
      );
    const added = await addKey(tx, actor, {
      now,
      limit: config.limits.keyChangesPerHour,
      id,
      values: { name, livemode, scopes, expiresAt, rotatedFromId: null },
      audit: { action: 'api_key.created', details: { expiresAt } },
    });
    await emitMessage(tx, actor, { type: 'api_key.created', key: added.key, at: now });
    return added;
  });
}

export function refuseStale(
  { id, expiresAt }: { id?: string | undefined; expiresAt: Date | null },
  now: Date,
): void {
  if (id !== undefined && !isFreshId(id, now.getTime())) throw fieldError('id', 'is not fresh');
  if (expiresAt !== null && expiresAt <= now) throw fieldError('expiresAt', 'must be in the future');
}

type Rights = Pick<Organization, 'marketAccess' | 'mayCorrect'>;

/** Existing keys keep their scopes, even when rotated. */
function whyNotOffered(
  scope: Scope,
  { hasMarkets }: KeyDeps['config'],
  { marketAccess, mayCorrect }: Rights,
): string | undefined {
  if (scope === 'usage:correct' && !mayCorrect) return 'this Organization may not correct its usage';
  if (!isOfMarkets(scope)) return undefined;
  if (!hasMarkets) return 'this service has no markets';
  if (marketAccess === 'none') return 'this Organization has no access to markets';
  return marketAccess === 'read' && scope === 'trading:write'
    ? 'this Organization may read markets but not trade'
    : undefined;
}

export const scopesFor = (config: KeyDeps['config'], rights: Rights): Scope[] =>
  allScopes.filter((scope) => whyNotOffered(scope, config, rights) === undefined);

const MAX_SEEDED_KEYS = 10;

/** For demo data: does not check permissions. */
export function addMembersKey(
  tx: Tx,
  member: { orgId: string; userId: string },
  { name, livemode, scopes, now }: { name: string; livemode: boolean; scopes: string[]; now: Date },
) {
  return addKey(
    tx,
    { ...member, by: byService },
    {
      now,
      limit: MAX_SEEDED_KEYS,
      values: { name, livemode, scopes, expiresAt: null, rotatedFromId: null },
      audit: { action: 'api_key.created', details: { expiresAt: null } },
    },
  );
}

/** The end of the grace period or the key's own expiry, whichever comes first. */
export function endOfGrace({ expiresAt }: { expiresAt: Date | null }, at: Date, graceMinutes: number): Date {
  const end = new Date(at.getTime() + graceMinutes * MINUTE_MS);
  return expiresAt !== null && expiresAt <= end ? expiresAt : end;
}

export async function rotateApiKey(
  { db, clock, config }: KeyDeps,
  actor: KeyActor,
  id: string,
  graceMinutes: number,
) {
  const now = new Date(clock.now());
  return change({ db, clock }, actor.by, async (tx) => {
    await lockOrganization(tx, { id: actor.orgId });
    const old = await requireKey(tx, actor.orgId, id);
    refuseUnlessActive(old, now);
    const { name, livemode, scopes, expiresAt } = old;
    const added = await addKey(tx, actor, {
      now,
      limit: config.limits.keyChangesPerHour,
      values: { name, livemode, scopes, expiresAt, rotatedFromId: id },
      audit: { action: 'api_key.rotated', details: { expiresAt, graceMinutes, previousId: id } },
    });
    const endsAt = endOfGrace(old, now, graceMinutes);
    if (endsAt !== expiresAt) await updateKey(tx, actor.orgId, id, { expiresAt: endsAt });
    const previous = { ...old, expiresAt: endsAt, successorId: added.key.id };
    const more = { previous: toMessage(previous) };
    await emitMessage(tx, actor, { type: 'api_key.rotated', key: added.key, more, at: now });
    return { ...added, previous };
  });
}

export async function revokeApiKey({ db, clock }: KeyDeps, actor: KeyActor, id: string): Promise<KeyRow> {
  const now = new Date(clock.now());
  return change({ db, clock }, actor.by, async (tx) => {
    await lockOrganization(tx, { id: actor.orgId });
    const key = await requireKey(tx, actor.orgId, id);
    if (key.revokedAt !== null) return key;
    await updateKey(tx, actor.orgId, id, { revokedAt: now });
    const { name, prefix, scopes, livemode } = key;
    const details = { name, prefix, scopes, livemode, state: stateOf(key, now.getTime()) };
    await audit(tx, actor, { at: now, action: 'api_key.revoked', target: id, details });
    const more = { revokedAt: now.toISOString() };
    await emitMessage(tx, actor, { type: 'api_key.revoked', key, more, at: now });
    return { ...key, revokedAt: now };
  });
}

export async function renameApiKey({ db, clock }: KeyDeps, actor: KeyActor, id: string, name: string) {
  await change({ db, clock }, actor.by, async (tx) => {
    await lockOrganization(tx, { id: actor.orgId });
    const key = await requireKey(tx, actor.orgId, id);
    if (key.name === name) return;
    await updateKey(tx, actor.orgId, id, { name });
    const { prefix, livemode } = key;
    const details = { name, prefix, livemode, before: { name: key.name }, after: { name } };
    await audit(tx, actor, { at: new Date(clock.now()), action: 'api_key.renamed', target: id, details });
  });
}

export const requireKey = async (orm: Orm, orgId: string, id: string): Promise<KeyRow> =>
  found(await findKey(orm, orgId, id), 'There is no such API key.');

interface Addition {
  now: Date;
  limit: number;
  id?: string | undefined;
  values: Pick<KeyRow, 'name' | 'livemode' | 'scopes' | 'expiresAt' | 'rotatedFromId'>;
  audit: { action: string; details: Record<string, unknown> };
}

/** The caller must hold the Organization's lock. @throws ChangesExhausted */
async function addKey(tx: Tx, actor: KeyActor, { now, limit, id = uuid(), values, audit: entry }: Addition) {
  const { orgId, userId } = actor;
  if (userId !== null) {
    const budget = await readChangeBudget(tx, orgId, now.getTime(), limit);
    if (budget.remaining <= 0) throw new ChangesExhausted(budget);
  }
  const secret = generateSecret(values.livemode);
  const shown = { ...values, id, prefix: secret.slice(0, 12), createdAt: now, createdBy: userId };
  await insertKey(tx, { ...shown, orgId, hashedSecret: hashSecret(secret) });
  const { name, livemode, scopes } = values;
  const details = { name, prefix: shown.prefix, scopes, livemode, ...entry.details };
  await audit(tx, actor, { at: now, action: entry.action, target: id, details });
  return {
    key: { ...shown, lastUsedAt: null, revokedAt: null, successorId: null },
    secret,
    budget: await readChangeBudget(tx, orgId, now.getTime(), limit),
  };
}

export function refuseUnlessActive(key: Parameters<typeof stateOf>[0], now: Date, noun = 'API key'): void {
  const state = stateOf(key, now.getTime());
  if (state === 'grace')
    throw new AppError('key_already_rotated', `This ${noun} was already rotated. Rotate its successor.`);
  if (state !== 'active') throw new AppError('key_not_active', `This ${noun} is ${state}. Create a new one.`);
}

function audit(
  tx: Tx,
  { orgId, userId, actor = userId ?? 'system', voucher, ip, requestId }: KeyActor,
  entry: { at: Date; action: string; target: string; details: Record<string, unknown> },
): Promise<void> {
  const details = voucher === undefined ? entry.details : { ...entry.details, voucher };
  return recordAudit(tx, orgId, { ...entry, details, actor, ip, requestId });
}

async function emitMessage<T extends Extract<WebhookType, `api_key.${string}`>>(
  tx: Tx,
  { orgId }: KeyActor,
  { type, key, more, at }: { type: T; key: KeyRow; more?: Omit<DataOf<T>, 'apiKey'>; at: Date },
): Promise<void> {
  const data = { apiKey: toMessage(key), ...more } as DataOf<T>;
  await queueWebhook(tx, { orgId, livemode: key.livemode, type, data, at });
}

export const toMessage = (
  key: Pick<KeyRow, 'id' | 'name' | 'prefix' | 'scopes' | 'livemode' | 'expiresAt'>,
) => ({
  id: key.id,
  name: key.name,
  prefix: key.prefix,
  scopes: key.scopes,
  livemode: key.livemode,
  expiresAt: key.expiresAt?.toISOString() ?? null,
});

/** A key with a successor is in its grace period until the key expires. */
export function stateOf(
  key: Pick<KeyRow, 'revokedAt' | 'expiresAt' | 'successorId'>,
  nowMs: number,
): KeyState {
  if (key.revokedAt !== null) return 'revoked';
  if (key.expiresAt !== null && key.expiresAt.getTime() <= nowMs) return 'expired';
  return key.successorId === null ? 'active' : 'grace';
}

export function toApiKeyJson(key: KeyRow, nowMs: number) {
  return {
    id: key.id,
    name: key.name,
    prefix: key.prefix,
    scopes: key.scopes,
    livemode: key.livemode,
    state: stateOf(key, nowMs),
    lastUsedAt: key.lastUsedAt,
    expiresAt: key.expiresAt,
    revokedAt: key.revokedAt,
    createdAt: key.createdAt,
    createdBy: key.createdBy,
    rotatedFromId: key.rotatedFromId,
  };
}

/** The window slides. */
export const WINDOW_SECONDS = 3600;

export type ChangeBudget = Awaited<ReturnType<typeof readChangeBudget>>;

export class ChangesExhausted extends AppError {
  readonly budget: ChangeBudget;
  constructor(budget: ChangeBudget) {
    super('rate_limited', `An Organization can create or rotate at most ${budget.limit} API keys an hour.`, {
      retryAfterSeconds: budget.resetSeconds,
    });
    this.budget = budget;
  }
}

/** Counts rows, so that the limit holds across restarts and instances. */
export async function readChangeBudget(orm: Orm, orgId: string, nowMs: number, limit: number) {
  const since = new Date(nowMs - WINDOW_SECONDS * 1000);
  const { changes, oldestAt } = await countKeyChanges(orm, orgId, since, limit);
  /** Until the oldest change leaves the window. */
  const resetSeconds =
    oldestAt === null
      ? WINDOW_SECONDS
      : Math.max(1, Math.ceil((oldestAt.getTime() - since.getTime()) / 1000));
  return { limit, remaining: limit - changes, resetSeconds };
}
