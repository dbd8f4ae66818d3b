import { request } from 'node:http';
import { Generated, Repeated, type RouteDescription } from '../../../src/core/reference/define-route.js';
import type { Credential } from '../../../src/core/reference/names.js';
import type { SentRequest } from '../../../src/core/reference/described.js';
import { exampleWorld } from './example-rows.js';

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

export type PresentCredential = (credential: Credential) => Promise<Record<string, string>>;

export interface HttpRequest {
  method: string;
  /** With the query. */
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
}

export async function toHttpRequest(
  { method, path, body: described }: RouteDescription,
  example: SentRequest,
  present: PresentCredential,
): Promise<HttpRequest> {
  const filled = path.replace(/\{(\w+)\}/g, (_match, name: string) => {
    const value = example.params?.[name];
    if (value === undefined) throw new Error(`The example gives no ${name}.`);
    return encodeURIComponent(value);
  });
  const mediaType = described?.mediaType ?? 'application/json';
  const body = bodyOf(example, mediaType);
  const headers = {
    ...(body === undefined ? {} : { 'content-type': mediaType }),
    ...(await present(example.credential)),
    ...example.headers,
  };
  const query = example.query ? `?${new URLSearchParams(example.query).toString()}` : '';
  return { method: method.toUpperCase(), path: `${filled}${query}`, headers, body };
}

function bodyOf({ body, rawBody, paddedToBytes = 0 }: SentRequest, mediaType: string): string | undefined {
  if (rawBody !== undefined) return rawBody;
  if (body === undefined) return undefined;
  const value = inFull(body);
  const text = mediaType.includes('json')
    ? JSON.stringify(value)
    : new URLSearchParams(value as Record<string, string>).toString();
  return text.padEnd(paddedToBytes, ' ');
}

/** Returns the value that is actually sent; lists are complete even where the document shortens them. */
function inFull(value: unknown): unknown {
  if (value instanceof Repeated) return value.shown.map(inFull);
  if (value instanceof Generated) return value.shown;
  if (Array.isArray(value)) return value.map(inFull);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, inFull(inner)]));
}

export function exchange(
  baseUrl: string,
  { method, path, headers, body }: HttpRequest,
  /** Awaited when half of the body is sent. */
  between?: () => Promise<void>,
): Promise<Answer> {
  const bytes = Buffer.from(body ?? '');
  const length = body === undefined ? {} : { 'content-length': String(bytes.length) };
  return new Promise((resolve, reject) => {
    const options = { method, headers: { ...headers, ...length }, agent: false };
    const outgoing = request(new URL(path, baseUrl), options, (incoming) => {
      const chunks: Buffer[] = [];
      const text = () => Buffer.concat(chunks).toString('utf8');
      const finish = () => resolve({ status: incoming.statusCode!, headers: incoming.headers, text: text() });
      const hasNoEnd = incoming.headers['content-type']?.startsWith('text/event-stream') === true;
      incoming.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        if (!hasNoEnd || !/^data: .*\n\n/m.test(text())) return;
        finish();
        outgoing.destroy();
      });
      incoming.on('error', reject);
      incoming.on('end', finish);
    });
    outgoing.on('error', reject);
    const half = bytes.length >> 1;
    if (between) {
      outgoing.write(bytes.subarray(0, half));
      between().then(() => outgoing.end(bytes.subarray(half)), reject);
    } else outgoing.end(bytes);
  });
}

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

/**
 * @param signInUrl URL of a service on the same database, used for signing in
 * @param jar the open sessions
 */
export function presentCredential(
  signInUrl: string,
  jar: Map<Credential, Record<string, string>>,
): PresentCredential {
  async function signInAs(person: Credential, email: string) {
    const cookie = jar.get(person) ?? (await signIn(signInUrl, email));
    jar.set(person, cookie);
    return cookie;
  }
  return async (credential) => {
    switch (credential) {
      case 'none':
        return {};
      case 'unknownKey':
        return bearer(exampleWorld.unknownSecret);
      case 'operator':
        return bearer('operator-token-of-the-tests-0123456789');
      case 'wrongOperator':
        return bearer('not-the-operator-token-0123456789abcdef');
      case 'ownerSession':
        return signInAs(credential, exampleWorld.users.owner.email);
      case 'newcomerSession':
        return signInAs(credential, exampleWorld.users.newcomer.email);
      case 'memberSession':
        return signInAs(credential, exampleWorld.users.member.email);
      case 'unknownServiceKey':
        return bearer(exampleWorld.unknownServiceSecret);
      case 'serviceKey':
      case 'narrowServiceKey':
      case 'expiredServiceKey':
      case 'revokedServiceKey':
        return bearer(exampleWorld.serviceKeys[credential].secret);
      default:
        return bearer(exampleWorld.keys[credential].secret);
    }
  };
}

async function signIn(url: string, email: string): Promise<Record<string, string>> {
  const body = new URLSearchParams({ email, password: exampleWorld.password });
  const response = await fetch(`${url}/login`, { method: 'POST', body, redirect: 'manual' });
  if (response.status !== 303) throw new Error(`Signing in answered ${response.status}.`);
  return {
    cookie: response.headers
      .getSetCookie()
      .map((cookie) => cookie.split(';', 1)[0])
      .join('; '),
  };
}
