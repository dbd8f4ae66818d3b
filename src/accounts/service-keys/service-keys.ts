import { v7 as uuid } from 'uuid';
import type { Orm, Tx } from '../../core/db/client.js';
import { AppError, found } from '../../core/errors.js';
import { generateSecret, hashSecret } from '../api-keys/bearer-key.js';
import { endOfGrace, refuseStale, refuseUnlessActive, stateOf } from '../api-keys/api-keys.js';
import { recordOperatorAudit } from '../audit/audit.js';
import type { Source } from '../identity/source.js';
import { endServiceKey, findServiceKey, insertServiceKey, type ServiceKey } from './queries.js';

export type NewServiceKey = Awaited<ReturnType<typeof add>>;

/** The first 12 characters would be the same for all. */
const PREFIX_LENGTH = 16;

export async function createServiceKey(
  tx: Tx,
  input: Omit<Values, 'id' | 'rotatedFromId'> & {
    /** For a form, so that submitting it twice creates one key. */
    id?: string;
  },
  source: Source,
) {
  const { id = uuid() } = input;
  refuseStale(input, source.at);
  if (await findServiceKey(tx, id))
    throw new AppError(
      'invalid_request',
      'This form has already created a service key, and its secret was shown once.',
    );
  return add(tx, { ...input, id, rotatedFromId: null }, 'service_key.created', {}, source);
}

export async function rotateServiceKey(tx: Tx, id: string, graceMinutes: number, source: Source) {
  const old = await getServiceKey(tx, id);
  refuseUnlessActive(old, source.at, 'service key');
  const { name, livemode, scopes, expiresAt } = old;
  const values = { id: uuid(), name, livemode, scopes, expiresAt, rotatedFromId: id };
  const details = { graceMinutes, previousId: id };
  const added = await add(tx, values, 'service_key.rotated', details, source);
  const end = { expiresAt: endOfGrace(old, source.at, graceMinutes) };
  await endServiceKey(tx, id, end);
  return { ...added, previous: { ...old, ...end, successorId: added.key.id } };
}

export async function revokeServiceKey(tx: Tx, id: string, source: Source): Promise<ServiceKey> {
  const key = await getServiceKey(tx, id);
  if (key.revokedAt !== null) return key;
  await endServiceKey(tx, id, { revokedAt: source.at });
  const { name, prefix, scopes, livemode } = key;
  const details = { name, prefix, scopes, livemode, state: stateOf(key, source.at.getTime()) };
  await recordOperatorAudit(tx, { ...source, action: 'service_key.revoked', target: id, details });
  return { ...key, revokedAt: source.at };
}

export const getServiceKey = async (orm: Orm, id: string): Promise<ServiceKey> =>
  found(await findServiceKey(orm, id), 'There is no such service key.');

type Values = Pick<ServiceKey, 'id' | 'name' | 'livemode' | 'scopes' | 'expiresAt' | 'rotatedFromId'>;

async function add(tx: Tx, values: Values, action: string, more: Record<string, unknown>, source: Source) {
  const secret = generateSecret(values.livemode, 'service');
  const shown = { ...values, prefix: secret.slice(0, PREFIX_LENGTH), createdAt: source.at };
  await insertServiceKey(tx, { ...shown, hashedSecret: hashSecret(secret) });
  const { name, prefix, livemode, scopes, expiresAt } = shown;
  const details = { name, prefix, livemode, scopes, expiresAt, ...more };
  await recordOperatorAudit(tx, { ...source, action, target: values.id, details });
  return { key: { ...shown, lastUsedAt: null, revokedAt: null, successorId: null }, secret };
}

export function toServiceKeyJson(key: ServiceKey, nowMs: number) {
  const { rotatedFromId: _old, successorId: _new, ...shown } = key;
  return { ...shown, state: stateOf(key, nowMs) };
}
