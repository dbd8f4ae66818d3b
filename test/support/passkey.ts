import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import type { Database } from '../../src/core/db/client.js';
import { passkeys } from '../../src/accounts/identity/table.js';

/** The subset of CBOR (RFC 8949) that authenticators use. */
type Cbor = number | string | Uint8Array | Map<number | string, Cbor>;

function head(major: number, n: number): Buffer {
  if (n < 24) return Buffer.from([(major << 5) | n]);
  return n < 256 ? Buffer.from([(major << 5) | 24, n]) : Buffer.from([(major << 5) | 25, n >> 8, n & 255]);
}

function cbor(value: Cbor): Buffer {
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === 'string')
    return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([head(2, value.length), value]);
  return Buffer.concat([
    head(5, value.size),
    ...[...value].flatMap(([key, item]) => [cbor(key), cbor(item)]),
  ]);
}

const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');
const sha256 = (data: string | Uint8Array) => createHash('sha256').update(data).digest();

export interface Deviations {
  origin?: string;
  rpId?: string;
  challenge?: string;
  counter?: number;
  isVerified?: boolean;
  isPresent?: boolean;
  userHandle?: string | null;
  id?: string;
  /** COSE identifier that the public key names. */
  algorithm?: number;
}

interface Options {
  challenge: string;
}

export class SoftPasskey {
  readonly id = randomBytes(32).toString('base64url');
  counter = 0;
  private readonly keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  private readonly origin: string;
  readonly userId: string;

  constructor(origin: string, userId: string) {
    this.origin = origin;
    this.userId = userId;
  }

  /** The COSE encoding (RFC 9053, 7.1). */
  publicKey(algorithm = -7): Buffer {
    const { x, y } = this.keys.publicKey.export({ format: 'jwk' });
    const coordinate = (text: string | undefined) => Buffer.from(text!, 'base64url');
    return cbor(
      new Map<number, Cbor>([
        [1, 2],
        [3, algorithm],
        [-1, 1],
        [-2, coordinate(x)],
        [-3, coordinate(y)],
      ]),
    );
  }

  create({ challenge }: Options, deviations: Deviations = {}): string {
    const id = Buffer.from(this.id, 'base64url');
    const length = Buffer.from([id.length >> 8, id.length & 255]);
    const attested = Buffer.concat([Buffer.alloc(16), length, id, this.publicKey(deviations.algorithm)]);
    const authData = Buffer.concat([this.authData(64, deviations), attested]);
    const attestationObject = cbor(
      new Map<string, Cbor>([
        ['fmt', 'none'],
        ['attStmt', new Map()],
        ['authData', authData],
      ]),
    );
    return this.toForm({
      clientDataJSON: this.clientData('webauthn.create', challenge, deviations),
      attestationObject: base64url(attestationObject),
      transports: ['internal'],
    });
  }

  use({ challenge }: Options, deviations: Deviations = {}): string {
    this.counter++;
    const clientDataJSON = this.clientData('webauthn.get', challenge, deviations);
    const authData = this.authData(0, deviations);
    const signed = Buffer.concat([authData, sha256(Buffer.from(clientDataJSON, 'base64url'))]);
    const handle = base64url(Buffer.from(this.userId.replaceAll('-', ''), 'hex'));
    const { userHandle = handle } = deviations;
    return this.toForm(
      {
        clientDataJSON,
        authenticatorData: base64url(authData),
        signature: base64url(sign('sha256', signed, this.keys.privateKey)),
        ...(userHandle === null ? {} : { userHandle }),
      },
      deviations.id,
    );
  }

  private toForm(response: object, id = this.id): string {
    return JSON.stringify({ id, rawId: id, type: 'public-key', clientExtensionResults: {}, response });
  }

  private clientData(type: string, challenge: string, deviations: Deviations): string {
    const data = {
      type,
      challenge: deviations.challenge ?? challenge,
      origin: deviations.origin ?? this.origin,
    };
    return base64url(Buffer.from(JSON.stringify({ ...data, crossOrigin: false })));
  }

  /** Flags of WebAuthn Level 3, 6.1: present 1, verified 4, new credential 64. */
  private authData(
    extra: number,
    { rpId, counter, isVerified = true, isPresent = true }: Deviations,
  ): Buffer {
    const flags = extra | (isPresent ? 1 : 0) | (isVerified ? 4 : 0);
    const count = Buffer.alloc(4);
    count.writeUInt32BE(counter ?? this.counter);
    return Buffer.concat([sha256(rpId ?? new URL(this.origin).hostname), Buffer.from([flags]), count]);
  }
}

export async function givePasskey(db: Database, userId: string, origin: string): Promise<SoftPasskey> {
  const passkey = new SoftPasskey(origin, userId);
  await db.orm.insert(passkeys).values({
    credentialId: passkey.id,
    userId,
    publicKey: passkey.publicKey(),
    counter: 0,
    transports: ['internal'],
    name: 'Laptop',
    createdAt: new Date('2020-01-01T00:00:00Z'),
    lastUsedAt: null,
    backedUp: false,
  });
  return passkey;
}
