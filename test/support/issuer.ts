import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Answer, Browser } from './accounts.js';

const newKey = () => generateKeyPairSync('rsa', { modulusLength: 2048 });
const base64 = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

export const oidcClient = { OIDC_CLIENT_ID: 'gauge', OIDC_CLIENT_SECRET: 'secret-of-the-client' };

/** An OpenID Connect issuer that signs everyone in. Tests can tamper with its responses. */
export class TestIssuer {
  /** Claims that override the correct ones in the token. */
  claims: Record<string, unknown> = {};
  /** Claims that only the userinfo endpoint returns. */
  userInfo: Record<string, unknown> = {};
  /** URLs that end in `path` respond with `status`. */
  broken: { path: string; status: number } | undefined;
  signsWithAnotherKey = false;
  /** Path by which the issuer calls itself, below its address. */
  private path = '';
  /** True to respond with a challenge to a client that failed to authenticate (RFC 6749, 5.2). */
  isChallenging = false;
  private readonly key = newKey();
  private readonly otherKey = newKey();
  private readonly codes = new Map<string, { nonce: string; challenge: string }>();
  private readonly server = createServer((req, res) => void this.answer(req, res));

  async start(port = 0): Promise<this> {
    await new Promise<void>((resolve) => this.server.listen(port, '127.0.0.1', resolve));
    return this;
  }

  stop(): Promise<void> {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(() => resolve()));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  env(more: Record<string, string> = {}): Record<string, string> {
    return { OIDC_ISSUER: this.url, ...oidcClient, OIDC_NAME: 'Test Login', ...more };
  }

  /**
   * Starts a sign-in at the service and signs in at this issuer. @returns the path to which the issuer redirects the
   * browser
   */
  async visit(browser: Browser, next?: string, more = {}): Promise<string> {
    const query = String(new URLSearchParams({ ...(next !== undefined && { next }), ...more }));
    const begun = await browser.get(`/login/single-sign-on?${query}`);
    const answer = await fetch(begun.headers.get('location')!, { redirect: 'manual' });
    return answer.headers.get('location')!.replace(browser.url, '');
  }

  async signIn(browser: Browser, next?: string): Promise<Answer> {
    return browser.get(await this.visit(browser, next), { accept: 'text/html' });
  }

  /** @returns the address by which the issuer now calls itself, at the same place without its last slash */
  describeAs(path: string): string {
    this.path = path;
    return this.url + path;
  }

  private async answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(req.url!, this.url);
    const send = (status: number, value: object, headers = {}) =>
      res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
    if (this.broken && pathname.endsWith(this.broken.path)) {
      send(this.broken.status, {});
      return;
    }
    switch (pathname.replace(/^\/realm(?=\/)/, this.path === '' ? '/realm' : '')) {
      case '/.well-known/openid-configuration':
        send(200, {
          issuer: pathname.startsWith('/realm') ? this.url + this.path : this.url,
          authorization_endpoint: `${this.url}/authorize`,
          token_endpoint: `${this.url}/token`,
          userinfo_endpoint: `${this.url}/userinfo`,
          jwks_uri: `${this.url}/jwks`,
          id_token_signing_alg_values_supported: ['RS256'],
          authorization_response_iss_parameter_supported: true,
        });
        return;
      case '/authorize': {
        const code = randomUUID();
        const nonce = searchParams.get('nonce')!;
        this.codes.set(code, { nonce, challenge: searchParams.get('code_challenge')! });
        const back = new URL(searchParams.get('redirect_uri')!);
        back.search = new URLSearchParams({
          code,
          state: searchParams.get('state')!,
          iss: this.url,
        }).toString();
        res.writeHead(303, { location: back.href }).end();
        return;
      }
      case '/token':
        this.sendToken(new URLSearchParams(await text(req)), req.headers.authorization, send);
        return;
      case '/userinfo':
        send(200, { sub: this.claims.sub ?? 'sub-1', ...this.userInfo });
        return;
      case '/jwks':
        send(200, {
          keys: [{ ...this.key.publicKey.export({ format: 'jwk' }), kid: '1', alg: 'RS256', use: 'sig' }],
        });
        return;
      default:
        send(404, {});
    }
  }

  private sendToken(
    form: URLSearchParams,
    authorization: string | undefined,
    send: (status: number, value: object, headers?: Record<string, string>) => unknown,
  ): void {
    const code = form.get('code')!;
    const known = this.codes.get(code);
    this.codes.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const credentials = Buffer.from(authorization?.replace('Basic ', '') ?? '', 'base64').toString();
    const isClient =
      credentials.split(':').map(decodeURIComponent).join(':') === Object.values(oidcClient).join(':');
    if (!isClient)
      send(
        401,
        { error: 'invalid_client' },
        this.isChallenging ? { 'www-authenticate': 'Basic realm="x"' } : {},
      );
    else if (known?.challenge !== challenge) send(400, { error: 'invalid_grant' });
    else
      send(200, {
        access_token: 'access',
        token_type: 'Bearer',
        id_token: this.signToken(known.nonce),
      });
  }

  private signToken(nonce: string): string {
    const now = Math.floor(Date.now() / 1000);
    const right = { iss: this.url, sub: 'sub-1', aud: 'gauge', nonce, iat: now, exp: now + 300 };
    const signed = `${base64({ alg: 'RS256', kid: '1' })}.${base64({ ...right, ...this.claims })}`;
    const { privateKey } = this.signsWithAnotherKey ? this.otherKey : this.key;
    return `${signed}.${sign('sha256', Buffer.from(signed), privateKey).toString('base64url')}`;
  }
}
