import { randomBytes } from 'node:crypto';
import type { z } from 'zod';
import { recordAudit, byService, change } from '../audit/audit.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError, found, placeError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { firstIdOf, isFreshId, newId } from '../../core/ids.js';
import { MINUTE_MS } from '../../core/time.js';
import type { MemberActor } from '../identity/session/authority.js';
import { lockOrganization } from '../identity/organizations/queries.js';
import { createSecretBox, type SecretBox } from '../../core/secret-box.js';
import { isChat, maskUrl } from './chat.js';
import { whyNoReceiver } from './guard.js';
import { writeMessages } from './outbox.js';
import {
  deleteEndpoint as deleteRow,
  findEndpoint,
  findSecret,
  insertEndpoint,
  listEndpoints,
  listStaleSecrets,
  replaceSecrets,
  resendAllFailed,
  resendOne,
  updateEndpoint as updateRow,
  type EndpointRow,
} from './queries.js';
import type { WebhookSchemas } from './schema.js';

export type EndpointDeps = Pick<Context, 'db' | 'clock' | 'config'>;

export const MAX_ENDPOINTS = 20;
export const MAX_RESENT = 1_000;

export type EndpointInput = z.output<WebhookSchemas['webhookInputSchema']>;

const boxOf = ({ config }: Pick<EndpointDeps, 'config'>): SecretBox =>
  createSecretBox(config.secretKeys, 'webhook secret');

/** Standard Webhooks requires 24 to 64 random bytes. */
export const generateWebhookSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;

/** The same form was submitted before. Nothing is changed. */
export class EndpointExists extends AppError {
  readonly endpointId: string;
  constructor(endpointId: string) {
    super('invalid_request', 'This endpoint has already been created.');
    this.endpointId = endpointId;
  }
}

/**
 * A repeated call with the same id does not create a second endpoint.
 * @returns `secret` null for a chat, because chats cannot verify messages
 * @throws EndpointExists
 */
export async function createEndpoint(
  deps: EndpointDeps,
  actor: MemberActor,
  { id, ...input }: EndpointInput & { id?: string | undefined },
): Promise<{ endpoint: EndpointRow; secret: string | null }> {
  const now = new Date(deps.clock.now());
  if (id !== undefined && !isFreshId(id, now.getTime()))
    throw placeError('invalid_request', '/id', 'is not fresh');
  refuseUnlessReceiver(deps, input.url);
  const { orgId } = actor;
  return change(deps, actor.by, async (tx) => {
    await lockOrganization(tx, { id: orgId });
    const existing = await listEndpoints(tx, orgId);
    if (existing.some((endpoint) => endpoint.id === id)) throw new EndpointExists(id!);
    if (existing.length >= MAX_ENDPOINTS)
      throw new AppError('invalid_request', `An Organization can have at most ${MAX_ENDPOINTS} endpoints.`);
    const newEndpointId = id ?? newId(now.getTime());
    const secret = isChat(input.format) ? null : generateWebhookSecret();
    const sealed = boxOf(deps).seal(newEndpointId, secret ?? input.url);
    const declared = withShownUrl(input);
    await insertEndpoint(tx, { ...declared, orgId, id: newEndpointId, secret: sealed, createdAt: now });
    await audit(tx, actor, now, 'webhook.created', newEndpointId, shownOf(declared));
    return { endpoint: await requireEndpoint(tx, orgId, newEndpointId), secret };
  });
}

/** A new URL, or enabling a disabled endpoint, clears its record of failures. */
export async function updateEndpoint(
  deps: EndpointDeps,
  actor: MemberActor,
  id: string,
  input: EndpointInput,
): Promise<EndpointRow> {
  return changeEndpoint(deps, actor, id, async (tx, before, now) => {
    if (input.format !== before.format)
      throw placeError('invalid_request', '/format', 'cannot be changed; create another endpoint');
    const isNewUrl = input.url !== before.url;
    if (isNewUrl) refuseUnlessReceiver(deps, input.url);
    const declared = isNewUrl ? withShownUrl(input) : input;
    if (!isNewUrl && isSame(before, input)) return before;
    const isNew = isNewUrl || (input.isEnabled && !before.isEnabled);
    await updateRow(tx, actor.orgId, id, {
      ...declared,
      ...(isNew ? { disabledReason: null, failingSince: null } : {}),
      ...(isNewUrl && isChat(input.format) ? { secret: boxOf(deps).seal(id, input.url) } : {}),
    });
    await audit(tx, actor, now, 'webhook.updated', id, {
      ...shownOf(declared),
      before: shownOf(before),
      after: shownOf(declared),
    });
    return requireEndpoint(tx, actor.orgId, id);
  });
}

type EndpointSettings = Pick<EndpointRow, keyof EndpointInput>;

/** A chat's URL contains its credential, so pages, responses and the audit log mask it. */
const withShownUrl = (input: EndpointInput): EndpointInput =>
  isChat(input.format) ? { ...input, url: maskUrl(input.url) } : input;

const isSame = (a: EndpointSettings, b: EndpointSettings): boolean =>
  a.url === b.url &&
  a.livemode === b.livemode &&
  a.isEnabled === b.isEnabled &&
  a.types.length === b.types.length &&
  b.types.every((type) => a.types.includes(type));

export const deleteEndpoint = (deps: EndpointDeps, actor: MemberActor, id: string): Promise<EndpointRow> =>
  changeEndpoint(deps, actor, id, async (tx, endpoint, now) => {
    await deleteRow(tx, actor.orgId, id);
    await audit(tx, actor, now, 'webhook.deleted', id, shownOf(endpoint));
    return endpoint;
  });

/** The previous secret keeps signing until its grace period ends; an even older one stops immediately. */
export function rotateSecret(deps: EndpointDeps, actor: MemberActor, id: string, graceMinutes: number) {
  return changeEndpoint(deps, actor, id, async (tx, { url, format }, now) => {
    if (isChat(format))
      throw new AppError('invalid_request', 'This endpoint has no secret. Change its URL instead.');
    const secret = generateWebhookSecret();
    await updateRow(tx, actor.orgId, id, {
      secret: boxOf(deps).seal(id, secret),
      previousSecret: graceMinutes === 0 ? null : (await findSecret(tx, actor.orgId, id))!,
      previousSecretEndsAt: graceMinutes === 0 ? null : new Date(now.getTime() + graceMinutes * MINUTE_MS),
    });
    await audit(tx, actor, now, 'webhook.secret_rotated', id, { url, graceMinutes });
    return { endpoint: await requireEndpoint(tx, actor.orgId, id), secret };
  });
}

export function testEndpoint(deps: EndpointDeps, actor: MemberActor, id: string): Promise<string> {
  const { orgId } = actor;
  return changeEndpoint(deps, actor, id, async (tx, endpoint, at) => {
    const { livemode, url } = requireEnabled(endpoint);
    const [messageId] = await writeMessages(tx, [
      { orgId, livemode, type: 'webhook.test', data: { endpointId: id }, at, endpointIds: [id] },
    ]);
    await audit(tx, actor, at, 'webhook.tested', id, { url, messageId });
    return messageId!;
  });
}

/** The message keeps its `webhook-id`. */
export async function resendDelivery(deps: EndpointDeps, actor: MemberActor, id: string, messageId: string) {
  await changeEndpoint(deps, actor, id, async (tx, endpoint, now) => {
    const { url } = requireEnabled(endpoint);
    const resent = await resendOne(tx, { orgId: actor.orgId, endpointId: id, messageId }, now);
    if (resent === 0) throw noDelivery();
    await audit(tx, actor, now, 'webhook.resent', id, { url, messageId });
  });
}

/** Oldest first. Returns the number of deliveries. */
export async function resendFailed(deps: EndpointDeps, actor: MemberActor, id: string, since: Date) {
  return changeEndpoint(deps, actor, id, async (tx, endpoint, now) => {
    const { url } = requireEnabled(endpoint);
    const where = { orgId: actor.orgId, endpointId: id };
    const resent = await resendAllFailed(tx, where, {
      fromId: firstIdOf(since.getTime()),
      limit: MAX_RESENT,
      now,
    });
    if (resent > 0) await audit(tx, actor, now, 'webhook.resent', id, { url, since, resent });
    return resent;
  });
}

/** Notifies the Organization's other endpoints. Does nothing if the endpoint is already disabled. */
export async function disableEndpoint(
  deps: Pick<Context, 'db' | 'clock' | 'log'>,
  { orgId, id, reason }: { orgId: string; id: string; reason: 'gone' | 'failing' },
): Promise<void> {
  const at = new Date(deps.clock.now());
  const isDisabled = await change(deps, byService, async (tx) => {
    await lockOrganization(tx, { id: orgId });
    const endpoints = await listEndpoints(tx, orgId);
    const endpoint = endpoints.find((one) => one.id === id && one.isEnabled);
    if (!endpoint) return false;
    const { url, livemode } = endpoint;
    await updateRow(tx, orgId, id, { isEnabled: false, disabledReason: reason });
    const others = endpoints.filter((one) => one.isEnabled && one.id !== id);
    await writeMessages(tx, [
      {
        orgId,
        livemode,
        type: 'webhook.disabled',
        data: { endpointId: id, url, reason, disabledAt: at.toISOString() },
        at,
        endpointIds: others.map((one) => one.id),
      },
    ]);
    await recordAudit(tx, orgId, {
      at,
      action: 'webhook.disabled',
      actor: 'system',
      target: id,
      details: { url, reason },
    });
    return true;
  });
  if (isDisabled) deps.log.warn({ orgId, endpointId: id, reason }, 'a webhook endpoint was disabled');
}

export async function resealWebhookSecrets(deps: EndpointDeps): Promise<void> {
  const { orm } = deps.db;
  const box = boxOf(deps);
  for (let isDone = false; !isDone;) {
    const rows = await listStaleSecrets(orm, box.currentPrefix, RESEALED);
    for (const row of rows) {
      const reseal = (secret: string) => box.seal(row.id, box.open(row.id, secret));
      const previous = row.previous === null ? null : reseal(row.previous);
      await replaceSecrets(orm, row, { secret: reseal(row.secret), previous });
    }
    isDone = rows.length < RESEALED;
  }
}

const RESEALED = 100;

export const requireEndpoint = async (orm: Orm, orgId: string, id: string): Promise<EndpointRow> =>
  found(await findEndpoint(orm, orgId, id), 'There is no such endpoint.');

export const noDelivery = () => new AppError('not_found', 'There is no such delivery.');

const changeEndpoint = <T>(
  deps: EndpointDeps,
  { orgId, by }: MemberActor,
  id: string,
  work: (tx: Tx, endpoint: EndpointRow, now: Date) => Promise<T>,
): Promise<T> =>
  change(deps, by, async (tx) => {
    await lockOrganization(tx, { id: orgId });
    return work(tx, await requireEndpoint(tx, orgId, id), new Date(deps.clock.now()));
  });

function requireEnabled(endpoint: EndpointRow): EndpointRow {
  if (!endpoint.isEnabled)
    throw new AppError('invalid_request', 'This endpoint is disabled. Enable it first.');
  return endpoint;
}

export const whyRefused = (
  { production, webhooksAllowPrivate: allowsPrivate }: EndpointDeps['config'],
  url: string,
): string | undefined => whyNoReceiver(url, { production, allowsPrivate });

function refuseUnlessReceiver({ config }: EndpointDeps, url: string): void {
  const problem = whyRefused(config, url);
  if (problem !== undefined) throw placeError('invalid_request', '/url', problem);
}

const shownOf = ({ format, url, types, livemode, isEnabled }: EndpointSettings) => ({
  ...(isChat(format) ? { format } : {}),
  url,
  types,
  livemode,
  isEnabled,
});

const audit = (
  tx: Tx,
  { orgId, userId, ip, requestId }: MemberActor,
  at: Date,
  action: string,
  target: string,
  details: Record<string, unknown>,
): Promise<void> => recordAudit(tx, orgId, { at, action, actor: userId, target, details, ip, requestId });
