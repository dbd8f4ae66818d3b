import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

export type SecretBox = ReturnType<typeof createSecretBox>;

const IV_BYTES = 12;

const TAG_BYTES = 16;

/** Unencrypted base32 from earlier versions. */
const plain = /^[A-Z2-7]+$/;

/** Earlier versions stored text without sealing it. */
export const isSealed = (stored: string): boolean => /^v1\.[\da-f]{8}\.[\w-]+$/.test(stored);

/**
 * AES-256-GCM, as `v1.<key name>.<iv, tag and ciphertext, base64url>`.
 * @param keys newest first; older keys only decrypt
 */
export function createSecretBox(
  keys: readonly string[],
  purpose: 'totp secret' | 'webhook secret' | 'mail' | 'kept form' = 'totp secret',
) {
  const derived = new Map(keys.map((key) => [keyName(key), derive(key, `gauge ${purpose}`, 32)]));
  const newest = keyName(keys[0]!);
  const currentPrefix = `v1.${newest}.`;
  return {
    /** Secrets that the newest key sealed begin with it. */
    currentPrefix,
    /** A row copied to another owner cannot be decrypted. */
    seal(ownerId: string, secret: string): string {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv('aes-256-gcm', derived.get(newest)!, iv).setAAD(Buffer.from(ownerId));
      const sealed = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()]);
      return currentPrefix + Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url');
    },
    /** @throws if no configured key opens the secret or the ciphertext was tampered with */
    open(ownerId: string, stored: string): string {
      if (plain.test(stored)) return stored;
      const [, name = '', text = ''] = stored.split('.');
      const key = derived.get(name);
      if (!key) throw new Error('SECRET_KEYS does not contain the key that encrypted a secret.');
      const bytes = Buffer.from(text, 'base64url');
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV_BYTES))
        .setAAD(Buffer.from(ownerId))
        .setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
      return (
        decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
      );
    },
    isCurrent: (stored: string) => stored.startsWith(currentPrefix),
  };
}

/** Configured keys are random, so a fast derivation is enough (RFC 5869). */
const derive = (key: string, purpose: string, bytes: number): Buffer =>
  Buffer.from(hkdfSync('sha256', key, '', purpose, bytes));

const keyName = (key: string): string => derive(key, 'gauge key name', 4).toString('hex');
