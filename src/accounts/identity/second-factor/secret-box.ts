import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import type { Database } from '../../../core/db/client.js';
import { listStaleSecrets, replaceSecret } from './queries.js';

/** Encrypts secrets for a table, with keys that are not in the database. */
export interface SecretBox {
  /** As it is stored: bound to its owner, so that a row copied to another one's opens nothing. */
  seal(ownerId: string, secret: string): string;
  /** @throws Error if no key of the configuration opens it, or it was changed */
  open(ownerId: string, stored: string): string;
  /** True if the newest key sealed it. */
  isCurrent(stored: string): boolean;
  /** What every current one begins with. */
  readonly currentPrefix: string;
}

const IV_BYTES = 12;

const TAG_BYTES = 16;

/** As apps take it, from before secrets were encrypted. */
const plain = /^[A-Z2-7]+$/;

/** AES-256-GCM: `v1.<name of the key>.<iv, tag and ciphertext, base64url>`. @param keys newest first; the others only open */
export function createSecretBox(
  keys: readonly string[],
  purpose: 'totp secret' | 'webhook secret' = 'totp secret',
): SecretBox {
  const derived = new Map(keys.map((key) => [nameOf(key), derive(key, `gauge ${purpose}`, 32)]));
  const newest = nameOf(keys[0]!);
  const currentPrefix = `v1.${newest}.`;
  return {
    currentPrefix,
    seal(ownerId, secret) {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv('aes-256-gcm', derived.get(newest)!, iv).setAAD(Buffer.from(ownerId));
      const sealed = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()]);
      return currentPrefix + Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url');
    },
    open(ownerId, stored) {
      if (plain.test(stored)) return stored;
      const [, name = '', text = ''] = stored.split('.');
      const key = derived.get(name);
      if (!key) throw new Error('SECRET_KEYS lacks the key that a secret was encrypted with.');
      const bytes = Buffer.from(text, 'base64url');
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES))
        .setAAD(Buffer.from(ownerId))
        .setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
      return (
        decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
      );
    },
    isCurrent: (stored) => stored.startsWith(currentPrefix),
  };
}

/** Keys of the configuration are random texts, so no slow function is needed (RFC 5869). */
const derive = (key: string, purpose: string, bytes: number): Buffer =>
  Buffer.from(hkdfSync('sha256', key, '', purpose, bytes));

const nameOf = (key: string): string => derive(key, 'gauge key name', 4).toString('hex');

const BATCH = 100;

/**
 * Encrypts anew what is stored in clear, from earlier versions, or under an older key: after it has run the older key
 * is needed no more. Rows that are replaced meanwhile are left alone.
 */
export async function resealSecrets({ orm }: Pick<Database, 'orm'>, secrets: SecretBox): Promise<number> {
  let resealed = 0;
  for (let after: string | undefined; ;) {
    const rows = await listStaleSecrets(orm, secrets.currentPrefix, after, BATCH);
    for (const { userId, secret: from } of rows) {
      const to = secrets.seal(userId, secrets.open(userId, from));
      if (await replaceSecret(orm, { userId, from, to })) resealed++;
    }
    if (rows.length < BATCH) return resealed;
    after = rows.at(-1)!.userId;
  }
}
