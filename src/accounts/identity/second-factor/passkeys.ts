import { isIP } from 'node:net';
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { byProof, change, type Authority, type ChangeDeps } from '../../audit/audit.js';
import type { Orm, Tx } from '../../../core/db/client.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { isOriginOfRequest, originOf } from '../../../core/http/request.js';
import {
  CHALLENGE_MS,
  findPasskey,
  insertPasskeyChallenge,
  listPasskeys,
  raiseCounter,
  spendPasskeyChallenge,
  type Passkey,
  type ChallengeOwner,
} from './passkey-queries.js';

/** Loaded on first use to keep startup fast. */
const webauthn = () => import('@simplewebauthn/server');

/** A passkey belongs to the host `rpId`; only pages of `origin` may request it. */
export interface Site {
  origin: string;
  rpId: string;
}

export function siteOf(req: Request): Site {
  const { origin, hostname } = new URL(originOf(req));
  return { origin, rpId: hostname };
}

const noHost = { hostname: '', protocol: '', port: '' };

/** Browsers support no passkeys at IP addresses (WebAuthn Level 3, 5.1.3); locally, the page links to localhost. */
export const checkPasskeyHost: RequestHandler = (req, res, next) => {
  const origin = originOf(req);
  const { hostname, protocol, port } = URL.canParse(origin) ? new URL(origin) : noHost;
  if (isIP(hostname.replace(/^\[|\]$/g, ''))) {
    const isOwnMachine = isOriginOfRequest(req) && /^(127\.|\[::1\]$)/.test(hostname);
    const localhost = `${protocol}//localhost${port && `:${port}`}${req.originalUrl}`;
    res.locals.noPasskeys = { localhost: isOwnMachine ? localhost : undefined };
  }
  next();
};

const base64url = (maxLength: number) =>
  z
    .string()
    .max(maxLength)
    .regex(/^[\w-]+$/, 'must be base64url');

export const credentialIdSchema = base64url(1364);

const credential = <T extends z.ZodRawShape>(response: T) =>
  z
    .string()
    .max(14_000)
    .transform((value, context): unknown => {
      try {
        return JSON.parse(value) as unknown;
      } catch {
        context.addIssue({ code: 'custom', message: 'is not JSON' });
        return z.NEVER;
      }
    })
    .pipe(
      z.object({
        id: credentialIdSchema,
        rawId: credentialIdSchema,
        type: z.literal('public-key'),
        response: z.object({ clientDataJSON: base64url(4000), ...response }),
      }),
    );

/** JSON in a form field (WebAuthn Level 3, 5.1.8). */
export const newPasskeySchema = credential({
  attestationObject: base64url(8000),
  transports: z.array(z.string().max(20)).max(10).optional(),
});

export const assertionSchema = credential({
  authenticatorData: base64url(2000),
  // The longest are those of ML-DSA-44: 2,420 bytes.
  signature: base64url(4000),
  userHandle: base64url(100).nullish(),
});

export type NewPasskey = Pick<Passkey, 'credentialId' | 'publicKey' | 'counter' | 'transports' | 'backedUp'>;

export type Assertion = z.output<typeof assertionSchema>;

const toHandle = (userId: string) => Buffer.from(userId.replaceAll('-', ''), 'hex');

const describe = ({ credentialId: id, transports }: Passkey) => ({ id, transports });

/**
 * EdDSA, ES256 and RS256 (COSE algorithm identifiers), which every supported Node verifies. An instance on an older
 * Node could not verify ML-DSA-44.
 */
const ALGORITHMS = [-8, -7, -257];

export async function createNewOptions(
  tx: Tx,
  { rpId }: Site,
  { userId, email, userName }: { userId: string; email: string; userName: string },
  waiting: ChallengeOwner,
) {
  const { generateRegistrationOptions } = await webauthn();
  const options = await generateRegistrationOptions({
    rpName: 'Gauge',
    rpID: rpId,
    userID: new Uint8Array(toHandle(userId)),
    userName: email,
    userDisplayName: userName,
    excludeCredentials: (await listPasskeys(tx, userId)).map(describe),
    authenticatorSelection: { residentKey: 'preferred', userVerification: 'preferred' },
    supportedAlgorithmIDs: ALGORITHMS,
    timeout: CHALLENGE_MS,
  });
  await insertPasskeyChallenge(tx, options.challenge, waiting);
  return options;
}

/**
 * Without a `userId`, accepts any discoverable passkey.
 * @param hashedToken the session or pending sign-in that waits for the signature
 */
export async function sendUseOptions(
  deps: ChangeDeps,
  req: Request,
  res: Response,
  { by = byProof, userId, hashedToken }: { by?: Authority; userId?: string; hashedToken?: string },
): Promise<void> {
  const { generateAuthenticationOptions } = await webauthn();
  const options = await change(deps, by, async (tx) => {
    const found = await generateAuthenticationOptions({
      rpID: siteOf(req).rpId,
      allowCredentials: userId === undefined ? [] : (await listPasskeys(tx, userId)).map(describe),
      userVerification: userId === undefined ? 'required' : 'preferred',
      timeout: CHALLENGE_MS,
    });
    await insertPasskeyChallenge(tx, found.challenge, { hashedToken, now: new Date(deps.clock.now()) });
    return found;
  });
  sendJson(res, 200, toJson(options));
}

/** `raiseCounter` checks the counter. */
export type PasskeyUse =
  | { credentialId: string; userId: string; counter: number; backedUp: boolean }
  | { refused: PasskeyRefusal };

type PasskeyRefusal =
  /** Unknown, another person's, or with a different user handle. */
  | 'unknown_passkey'
  /** Used before, older than 5 minutes or of another session. */
  | 'unknown_challenge'
  /** Wrong, for another site, or without user presence or verification. */
  | 'not_verified'
  /** Did not increase: the authenticator may have been copied. */
  | 'counter';

/** Consumes the challenge even if the signature is wrong. Must run before taking any lock. */
export async function readAssertion(
  orm: Orm,
  { origin, rpId }: Site,
  { id, rawId, type, response }: Assertion,
  { userId, ...waiting }: ChallengeOwner & { userId: string | undefined },
): Promise<PasskeyUse> {
  const passkey = await findPasskey(orm, id);
  const challenge = challengeOf(response);
  const isChallenged = await spendPasskeyChallenge(orm, challenge, waiting);
  const handle = response.userHandle ?? undefined;
  // Without a password, the passkey itself must identify the person.
  const isTheirs =
    passkey &&
    (userId === undefined ? handle !== undefined : passkey.userId === userId) &&
    (handle === undefined || handle === toHandle(passkey.userId).toString('base64url'));
  if (!isTheirs) return { refused: 'unknown_passkey' };
  if (!isChallenged) return { refused: 'unknown_challenge' };
  const { verifyAuthenticationResponse } = await webauthn();
  const { authenticatorData, clientDataJSON, signature } = response;
  const verified = await verifyAuthenticationResponse({
    response: {
      id,
      rawId,
      type,
      response: { authenticatorData, clientDataJSON, signature },
      clientExtensionResults: {},
    },
    expectedChallenge: challenge,
    expectedOrigin: origin,
    expectedRPID: rpId,
    requireUserVerification: userId === undefined,
    credential: { id, publicKey: new Uint8Array(passkey.publicKey), counter: 0 },
  }).catch(() => undefined);
  if (!verified?.verified) return { refused: 'not_verified' };
  const { newCounter: counter, credentialBackedUp: backedUp } = verified.authenticationInfo;
  return { credentialId: id, userId: passkey.userId, counter, backedUp };
}

/** If false, `refusalOf` gives the reason. */
export async function acceptPasskey(tx: Tx, use: PasskeyUse, now: Date): Promise<boolean> {
  return !('refused' in use) && raiseCounter(tx, use, now);
}

export const refusalOf = (use: PasskeyUse): PasskeyRefusal => ('refused' in use ? use.refused : 'counter');

/** Undefined if verification fails. Consumes the challenge in either case. */
export async function readNewPasskey(
  orm: Orm,
  { origin, rpId }: Site,
  { id, rawId, type, response }: z.output<typeof newPasskeySchema>,
  waiting: ChallengeOwner,
): Promise<NewPasskey | undefined> {
  const challenge = challengeOf(response);
  if (!(await spendPasskeyChallenge(orm, challenge, waiting))) return undefined;
  const { verifyRegistrationResponse } = await webauthn();
  const { attestationObject, clientDataJSON, transports = [] } = response;
  const verified = await verifyRegistrationResponse({
    response: {
      id,
      rawId,
      type,
      response: { attestationObject, clientDataJSON },
      clientExtensionResults: {},
    },
    expectedChallenge: challenge,
    expectedOrigin: origin,
    expectedRPID: rpId,
    requireUserVerification: false,
    supportedAlgorithmIDs: ALGORITHMS,
  }).catch(() => undefined);
  if (!verified?.verified) return undefined;
  const { credential: made, credentialBackedUp: backedUp } = verified.registrationInfo;
  const known = transports.filter((name) => knownTransports.has(name));
  const { id: credentialId, publicKey, counter } = made;
  return { credentialId, publicKey, counter, transports: known, backedUp };
}

/** WebAuthn Level 3, 5.8.4. */
const knownTransports = new Set(['usb', 'nfc', 'ble', 'smart-card', 'hybrid', 'internal', 'cable']);

/** From the client data, which the signature covers. */
function challengeOf({ clientDataJSON }: { clientDataJSON: string }): string {
  try {
    const data = JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString()) as unknown;
    const challenge = (data as { challenge?: unknown } | null)?.challenge;
    return typeof challenge === 'string' && /^[\w-]{43}$/.test(challenge) ? challenge : '';
  } catch {
    return '';
  }
}
