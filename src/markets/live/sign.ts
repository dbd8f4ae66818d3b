import { constants, createPrivateKey, sign, type KeyObject } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { Logger } from 'pino';
import { ConfigError } from '../../core/config.js';
import type { TradingConfig } from '../config.js';

export interface VenueKey {
  id: string;
  privateKey: KeyObject;
}

/** @throws ConfigError describing the problem with the key file */
export function readVenueKey(
  { keyId, privateKeyFile }: Pick<TradingConfig['kalshi'], 'keyId' | 'privateKeyFile'>,
  log: Logger,
): VenueKey | undefined {
  if (keyId === undefined || privateKeyFile === undefined) return undefined;
  try {
    const privateKey = readSigningKey(privateKeyFile);
    if (isReadableByOthers(privateKeyFile))
      log.warn({ file: privateKeyFile }, "other users of this machine may read the venue's private key");
    return { id: keyId, privateKey };
  } catch (error) {
    if (!(error instanceof SigningKeyError)) throw error;
    throw new ConfigError([`KALSHI_PRIVATE_KEY_FILE: ${error.message}`]);
  }
}

/** The message never quotes the file. */
export class SigningKeyError extends Error {}

const MAX_BYTES = 64 * 1024;

/** RSA or Ed25519 in PEM form, the types that the venue issues. @throws SigningKeyError */
export function readSigningKey(path: string): KeyObject {
  const pem = readPem(path);
  if (/ENCRYPTED/.test(pem))
    throw new SigningKeyError(
      `${path} is encrypted: store it without a passphrase, readable by the service only`,
    );
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    // OpenSSL's message may quote the input.
    throw new SigningKeyError(`${path} is not a private key in PEM form`);
  }
  if (key.asymmetricKeyType !== 'rsa' && key.asymmetricKeyType !== 'ed25519')
    throw new SigningKeyError(
      `${path} is a key for ${key.asymmetricKeyType}; the venue's keys are for RSA or Ed25519`,
    );
  return key;
}

function readPem(path: string): string {
  try {
    const { size } = statSync(path);
    if (size > MAX_BYTES) throw new SigningKeyError(`${path} is too large for a key`);
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof SigningKeyError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    const reasons: Record<string, string> = {
      ENOENT: 'does not exist',
      EACCES: 'may not be read by the service',
      EISDIR: 'is a folder',
    };
    throw new SigningKeyError(`${path} ${reasons[code ?? ''] ?? `cannot be read (${code})`}`);
  }
}

export function isReadableByOthers(path: string): boolean {
  return process.platform !== 'win32' && (statSync(path).mode & 0o044) !== 0;
}

/** Signs time, method and path. The path includes the API prefix and excludes the query. */
export function signRequest(
  { id, privateKey }: VenueKey,
  { atMs, method, path }: { atMs: number; method: string; path: string },
): Record<string, string> {
  const signature = signText(privateKey, Buffer.from(`${atMs}${method}${path}`));
  return {
    'KALSHI-ACCESS-KEY': id,
    'KALSHI-ACCESS-TIMESTAMP': String(atMs),
    'KALSHI-ACCESS-SIGNATURE': signature.toString('base64'),
  };
}

/** Ed25519 hashes internally; RSA uses PSS with SHA-256. */
const signText = (key: KeyObject, text: Buffer): Buffer =>
  key.asymmetricKeyType === 'ed25519'
    ? sign(null, text, key)
    : sign('sha256', text, {
        key,
        padding: constants.RSA_PKCS1_PSS_PADDING,
        saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
      });
