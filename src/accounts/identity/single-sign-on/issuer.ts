import * as client from 'openid-client';
import type { Context } from '../../../core/http/context.js';
import { MINUTE_MS, SECOND_MS } from '../../../core/time.js';
import type { SingleSignOnConfig } from './config.js';
import { CannotSignIn } from '../sign-in/sign-in.js';
import { findClaim, readRoleValues } from './role-claim.js';

/** From a token that the issuer signed for this service. */
export type Claims = ReturnType<typeof toClaims>;

export interface Begun {
  state: string;
  nonce: string;
  codeVerifier: string;
}

export type Issuer = ReturnType<typeof createIssuer>;

const TIMEOUT_SECONDS = 5;

/** The same as in `/readyz`. */
export const TOLERANCE_SECONDS = 60;

const DESCRIPTION_MS = MINUTE_MS;

export function createIssuer(config: SingleSignOnConfig, { clock, log }: Pick<Context, 'clock' | 'log'>) {
  const { issuer, name, roles } = config;
  let known: { at: number; description: Promise<client.Configuration> } | undefined;
  let isKnownDown = false;
  const logOnce = createLogOnce(config, log);

  function describe(): Promise<client.Configuration> {
    if (known && clock.now() - known.at < DESCRIPTION_MS) return known.description;
    const description = discover(config);
    known = { at: clock.now(), description };
    description.catch(() => (known = undefined));
    return description;
  }

  async function ask<T>(work: (description: client.Configuration) => Promise<T>): Promise<T> {
    try {
      return await work(await describe());
    } catch (error) {
      const reason = reasonOf(error);
      const otherIssuer = otherIssuerOf(error);
      if (otherIssuer !== undefined) throw logOtherIssuer(config, log, otherIssuer);
      if (!isOutage(error)) {
        log.warn({ issuer, reason }, 'a single sign-on was refused');
        throw refused(error, name);
      }
      known = undefined;
      if (!isKnownDown) log.error({ issuer, reason }, 'the single sign-on issuer does not respond');
      isKnownDown = true;
      throw new CannotSignIn(
        'unavailable',
        `${name} does not respond, so single sign-on is not possible now. Try again in a few minutes.`,
        { cause: error },
      );
    }
  }

  return {
    config,
    /** If `isFresh`, the issuer asks the person to sign in again, even if it remembers them. @throws CannotSignIn */
    begin: (redirectUri: string, isFresh: boolean) =>
      ask((description) => begin(description, config, redirectUri, isFresh)),
    /** @param answer the URL to which the issuer redirected the browser @throws CannotSignIn */
    finish: (answer: URL, { state, nonce, codeVerifier }: Begun) =>
      ask(async (description) => {
        const tokens = await client.authorizationCodeGrant(description, answer, {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: codeVerifier,
          idTokenExpected: true,
        });
        const token = tokens.claims()!;
        const isVerifiedHere = token.email_verified !== undefined || config.trustsAddresses;
        const hasAddress = token.email !== undefined && isVerifiedHere;
        const isWhole = hasAddress && (!roles || findClaim(token, roles.claim) !== undefined);
        const hasMore = description.serverMetadata().userinfo_endpoint !== undefined;
        const more =
          isWhole || !hasMore ? {} : await client.fetchUserInfo(description, tokens.access_token, token.sub);
        // The metadata endpoint may respond while the token endpoint does not.
        if (isKnownDown) log.info({ issuer }, 'the single sign-on issuer responds again');
        isKnownDown = false;
        return toClaims(config, token, more, logOnce);
      }),
    /** Bypasses the cache. */
    async isDown() {
      known = undefined;
      return describe().then(() => false, isOutage);
    },
    /** As far as the issuer's description shows it. */
    async check() {
      await discover(config).catch((error: unknown) => {
        const otherIssuer = otherIssuerOf(error);
        if (otherIssuer !== undefined) logOtherIssuer(config, log, otherIssuer);
      });
    },
  };
}

function logOtherIssuer({ issuer, name }: SingleSignOnConfig, log: Context['log'], otherIssuer: string) {
  const text = `OIDC_ISSUER must be exactly ${otherIssuer}`;
  log.error({ issuer }, `nobody can use single sign-on: ${text}`);
  const advice = `${name} calls itself by another address, so nobody can sign in with it. The operator must correct the settings: ${text}`;
  return new CannotSignIn('not_signed_in', advice);
}

function createLogOnce({ issuer }: SingleSignOnConfig, log: Context['log']) {
  const logged = new Set<string>();
  return (details: object, text: string): void => {
    if (!logged.has(text)) log.warn({ issuer, ...details }, text);
    logged.add(text);
  };
}

function discover({ issuer, clientId, clientSecret }: SingleSignOnConfig): Promise<client.Configuration> {
  const basic = client.ClientSecretBasic(clientSecret);
  const post = client.ClientSecretPost(clientSecret);
  const authenticate: client.ClientAuth = (server, ...rest) => {
    // The default is `client_secret_basic` (RFC 8414).
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    (methods.includes('client_secret_basic') ? basic : post)(server, ...rest);
  };
  const server = new URL(issuer);
  return client.discovery(server, clientId, { [client.clockTolerance]: TOLERANCE_SECONDS }, authenticate, {
    timeout: TIMEOUT_SECONDS,
    // Plain HTTP is for the local machine only. Signatures are checked even though the connection is encrypted.
    execute: [
      client.enableNonRepudiationChecks,
      ...(server.protocol === 'http:' ? [client.allowInsecureRequests] : []),
    ],
  });
}

async function begin(
  description: client.Configuration,
  { scopes }: SingleSignOnConfig,
  redirectUri: string,
  isFresh: boolean,
): Promise<Begun & { address: string }> {
  const [state, nonce, codeVerifier] = [
    client.randomState(),
    client.randomNonce(),
    client.randomPKCECodeVerifier(),
  ];
  const { href: address } = client.buildAuthorizationUrl(description, {
    redirect_uri: redirectUri,
    scope: scopes,
    state,
    nonce,
    code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
    code_challenge_method: 'S256',
    // An issuer that ignores both parameters is detected by the token's `auth_time`, which `max_age` makes mandatory.
    ...(isFresh && { prompt: 'login', max_age: '0' }),
  });
  return { state, nonce, codeVerifier, address };
}

function toClaims(
  { roles, trustsAddresses }: SingleSignOnConfig,
  token: client.IDToken,
  more: Partial<client.UserInfoResponse>,
  logOnce: (details: object, text: string) => void,
) {
  // An address and a verification from two sources belong together only if one source lacks one of them.
  const whole = [token, more].find(({ email, email_verified: said }) => email && said !== undefined);
  const { email, email_verified: said } = whole ?? { ...more, ...token };
  const isVerified = readFlag(said);
  if (isVerified === false)
    logOnce({}, 'the issuer sends email_verified: false; authentik needs its own scope mapping for email');
  const name = token.name ?? more.name;
  const claim = roles && (findClaim(token, roles.claim) ?? findClaim(more, roles.claim));
  const known = roles?.grants.map(({ value }) => value) ?? [];
  const groups = claim === undefined ? undefined : readRoleValues(claim, known);
  if (claim !== undefined && groups === undefined)
    logOnce(
      { claim: roles!.claim, form: Array.isArray(claim) ? 'list' : typeof claim },
      'the role claim has a form that cannot be read, so it changes no roles',
    );
  return {
    issuer: token.iss,
    subject: token.sub,
    email: typeof email === 'string' ? email : undefined,
    isEmailVerified: isVerified === true || (isVerified === undefined && trustsAddresses),
    name: typeof name === 'string' ? name : undefined,
    /** The last proof of identity; undefined if the token does not state it. */
    authenticatedAt: token.auth_time === undefined ? undefined : new Date(token.auth_time * SECOND_MS),
    /** Undefined if no claim is configured, or if the token has none that can be read. */
    groups,
  };
}

/** Some issuers send flags as text. Undefined if the issuer says nothing. */
function readFlag(value: unknown): boolean | undefined {
  if (value === undefined || value === null) return undefined;
  return value === true || (typeof value === 'string' && value.trim().toLowerCase() === 'true');
}

/** The issuer's own name, if it is not OIDC_ISSUER, for example without its last slash. */
function otherIssuerOf(error: unknown): string | undefined {
  const { code, cause } = error as { code?: string; cause?: { body?: { issuer?: unknown } } };
  const found = code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED' ? cause?.body?.issuer : undefined;
  return typeof found === 'string' ? found : undefined;
}

function isOutage(error: unknown): boolean {
  const { code, cause, status } = error as { code?: string; cause?: unknown; status?: number };
  if (code === 'OAUTH_TIMEOUT') return true;
  if (error instanceof TypeError && /^(fetch failed|terminated)$/.test(error.message)) return true;
  return (status ?? (cause instanceof Response ? cause.status : 0)) >= 500;
}

/** The full causes hold tokens and addresses. */
const reasonOf = (error: unknown): string => {
  const { code, message, cause, ...answer } = error as Error & Partial<client.ResponseBodyError>;
  const challenge = isWrongClient(error)
    ? 'the issuer refuses OIDC_CLIENT_ID or OIDC_CLIENT_SECRET'
    : undefined;
  const parts = [challenge, code, answer.error, answer.error_description?.slice(0, 300), message];
  return [...parts, cause instanceof Error ? cause.message : undefined]
    .filter((part) => part !== undefined)
    .join(': ');
};

/** RFC 6749, 5.2: a challenge is sent if the client authenticated with a header. */
function isWrongClient(error: unknown): boolean {
  if (error instanceof client.WWWAuthenticateChallengeError)
    return error.cause.some(({ scheme }) => scheme === 'basic');
  return (
    error instanceof client.ResponseBodyError &&
    ['invalid_client', 'unauthorized_client'].includes(error.error)
  );
}

function refused(error: unknown, name: string): CannotSignIn {
  const text = isWrongClient(error)
    ? `${name} does not accept the client ID or client secret of this service, so nobody can sign in with it. The operator must check OIDC_CLIENT_ID and OIDC_CLIENT_SECRET.`
    : error instanceof client.AuthorizationResponseError
      ? `${name} did not sign you in. Start again.`
      : `The answer of ${name} could not be verified, so nobody was signed in. Start again.`;
  return new CannotSignIn('not_signed_in', text, { cause: error });
}
