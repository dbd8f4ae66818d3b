import { v7 as uuid } from 'uuid';
import { hash } from '@node-rs/argon2';
import Keygrip from 'keygrip';
import { insertSession } from '../../src/accounts/identity/session/queries.js';
import { generateToken, hashToken } from '../../src/accounts/identity/session/session-cookie.js';
import type { Database, Tx } from '../../src/core/db/client.js';
import { memberships, users } from '../../src/accounts/organizations/table.js';
import type { Role } from '../../src/accounts/organizations/table.js';
import { createOrganization } from './fixtures.js';

export const PASSWORD = 'correct horse battery staple';

let counter = 0;
/**
 * Hashes with weak parameters, so that passwords are verified in microseconds. The parameters are stored in the hash.
 */
export const hashCheaply = (password: string): Promise<string> =>
  hash(password, { memoryCost: 8, timeCost: 1, parallelism: 1 });

let hashed: Promise<string> | undefined;

export interface TestUser {
  id: string;
  email: string;
  name: string;
}

export async function createUser(
  db: Database,
  { passwordHash, ...given }: Partial<TestUser & { passwordHash: string }> = {},
): Promise<TestUser> {
  hashed ??= hashCheaply(PASSWORD);
  const email = `person-${process.pid}-${++counter}@example.com`;
  const user = { id: uuid(), email, name: `Person ${counter}`, ...given };
  const createdAt = new Date('2020-01-01T00:00:00Z');
  const row = { ...user, passwordHash: passwordHash ?? (await hashed), createdAt, provenAt: createdAt };
  await db.orm.insert(users).values(row);
  return user;
}

export async function addMember(
  db: Database,
  orgId: string,
  userId: string,
  role: Role,
  createdAt = new Date('2020-01-01T00:00:00Z'),
): Promise<void> {
  await db.orm.insert(memberships).values({ orgId, userId, role, createdAt });
}

export interface Answer {
  status: number;
  body: any;
  text: string;
  headers: Headers;
}

export interface BrowserRequest {
  json?: unknown;
  /** Use pairs if a name repeats. */
  form?: Record<string, string> | [name: string, value: string][];
  headers?: Record<string, string>;
}

/** Puts each tag on one line; line breaks inside a tag depend on the template and have no meaning. */
const withFlatTags = (html: string): string =>
  html.replace(/<[a-z][^>]*>/g, (tag) =>
    tag.replace(/("[^"]*")|\s+/g, (_, quoted?: string) => quoted ?? ' ').replace(/ >$/, '>'),
  );

/** A value that a template lacks shows as `undefined`; no page may say so outside of code. */
function readHtml(html: string): string {
  const [missing] =
    /.{0,80}(\bundefined\b|\bNaN\b|\[object Object\]).{0,40}/.exec(
      html.replace(/<(script|pre|code|textarea)\b.*?<\/\1>| value="[^"]*"/gs, ''),
    ) ?? [];
  if (missing) throw new Error(`a page shows ${missing}`);
  return withFlatTags(html);
}

/** Keeps cookies as a browser does but does not follow redirects. */
export class Browser {
  readonly url: string;
  cookies = new Map<string, string>();

  constructor(url: string) {
    this.url = url;
  }

  copy(url = this.url): Browser {
    const copy = new Browser(url);
    copy.cookies = new Map(this.cookies);
    return copy;
  }

  async send(method: string, path: string, { json, form, headers }: BrowserRequest = {}): Promise<Answer> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const body =
      json !== undefined ? JSON.stringify(json) : form !== undefined ? new URLSearchParams(form) : null;
    const response = await fetch(this.url + path, {
      method,
      redirect: 'manual',
      body,
      headers: {
        // Compression would make loading a page take 10% longer.
        'accept-encoding': 'identity',
        ...(cookie ? { cookie } : {}),
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
    });
    for (const line of response.headers.getSetCookie()) this.keep(line);
    const type = response.headers.get('content-type') ?? '';
    const isJson = /json/.test(type);
    const text = /html/.test(type) ? readHtml(await response.text()) : await response.text();
    return {
      status: response.status,
      body: isJson ? JSON.parse(text) : undefined,
      text,
      headers: response.headers,
    };
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.send('GET', path, { headers });
  }

  signIn(email: string, password = PASSWORD): Promise<Answer> {
    return this.send('POST', '/login', { form: { email, password } });
  }

  private keep(line: string): void {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!;
    const expires = /; expires=([^;]+)/i.exec(line)?.[1];
    if (expires !== undefined && Date.parse(expires) <= Date.now()) this.cookies.delete(name!);
    else this.cookies.set(name!, value!);
  }
}

export const SESSION_KEY = 'session-key-of-the-tests';
const keys = new Keygrip([SESSION_KEY], 'sha256');

/** Creates a browser with a session that began at `at`, without going through the sign-in page. */
export async function openSession(db: Database, url: string, userId: string, at: number): Promise<Browser> {
  const sid = generateToken();
  const session = {
    hashedToken: hashToken(sid),
    userId,
    now: new Date(at),
    ip: '127.0.0.1',
    userAgent: 'node',
    isSingleSignOn: false,
    isConfirmed: true,
    currentOrgId: null,
  };
  await db.transaction((tx) => insertSession(tx as Tx, session));
  const value = Buffer.from(JSON.stringify({ sid })).toString('base64');
  const browser = new Browser(url);
  browser.cookies.set('gauge_session', value);
  browser.cookies.set('gauge_session.sig', keys.sign(`gauge_session=${value}`));
  return browser;
}

export function sessionIdOf(browser: Browser): string {
  const { sid } = JSON.parse(Buffer.from(browser.cookies.get('gauge_session')!, 'base64').toString()) as {
    sid: string;
  };
  return hashToken(sid);
}

export async function signedIn(db: Database, url: string, role: Role = 'owner') {
  const organization = await createOrganization(db);
  const user = await createUser(db);
  await addMember(db, organization.id, user.id, role);
  const browser = new Browser(url);
  const answer = await browser.signIn(user.email);
  if (answer.status !== 303) throw new Error(`sign-in failed: ${answer.status} ${answer.text}`);
  return { organization, user, browser };
}
