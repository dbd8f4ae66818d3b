import { and, eq } from 'drizzle-orm';
import type { Database } from '../../../../src/core/db/client.js';
import { memberships } from '../../../../src/accounts/organizations/table.js';
import type { Role } from '../../../../src/accounts/organizations/table.js';
import { addMember, Browser, createUser, type Answer, type TestUser } from '../../../support/accounts.js';
import { createOrganization, type TestOrganization } from '../../../support/fixtures.js';

export const html = { accept: 'text/html' };

export interface Person extends TestUser {
  browser: Browser;
}

export interface Team {
  organization: TestOrganization;
  owner: Person;
  admin: Person;
  member: Person;
  billing: Person;
}

export async function join(
  db: Database,
  url: string,
  orgId: string,
  role: Role,
  values: Partial<TestUser> = {},
): Promise<Person> {
  const user = await createUser(db, values);
  await addMember(db, orgId, user.id, role);
  return { ...user, browser: await signIn(url, user.email) };
}

export async function signIn(url: string, email: string, password?: string): Promise<Browser> {
  const browser = new Browser(url);
  const { status } = await browser.signIn(email, password);
  if (status !== 303) throw new Error(`sign-in failed: ${status}`);
  return browser;
}

/** An Organization with one person in each role. */
export async function createTeam(db: Database, url: string): Promise<Team> {
  const organization = await createOrganization(db);
  const [owner, admin, member, billing] = await Promise.all(
    (['owner', 'admin', 'member', 'billing'] as const).map((role) => join(db, url, organization.id, role)),
  );
  return { organization, owner: owner!, admin: admin!, member: member!, billing: billing! };
}

export const post = (
  browser: Browser,
  path: string,
  form: Record<string, string> = {},
  headers: Record<string, string> = {},
): Promise<Answer> => browser.send('POST', path, { form, headers: { ...html, ...headers } });

export const setRole = (browser: Browser, userId: string, role: string, more: Record<string, string> = {}) =>
  post(browser, `/dashboard/members/${userId}/role`, { role, ...more });

export const remove = (browser: Browser, userId: string) =>
  post(browser, `/dashboard/members/${userId}/remove`);

/** Opens the invitation form and returns its hidden id. */
export async function openForm(browser: Browser): Promise<string> {
  const { text } = await browser.get('/dashboard/members/invite', html);
  return /name="id" value="([^"]+)"/.exec(text)![1]!;
}

export async function sendInvitation(
  browser: Browser,
  email: string,
  values: Record<string, string> = {},
): Promise<Answer> {
  const id = values.id ?? (await openForm(browser));
  return post(browser, '/dashboard/members/invite', { id, email, role: 'member', days: '7', ...values });
}

export const tokenIn = ({ text }: Answer): string => /dashboard\/join#([\w-]+)/.exec(text)![1]!;

export async function invite(
  browser: Browser,
  email: string,
  values: Record<string, string> = {},
): Promise<string> {
  const answer = await sendInvitation(browser, email, values);
  if (answer.status !== 201) throw new Error(`no invitation: ${answer.status} ${answer.text}`);
  return tokenIn(answer);
}

export const JOIN = '/dashboard/join';

/** Opens a link as the page's script does: posts the part after `#` and follows the redirect. */
export async function openLink(
  browser: Browser,
  token: string,
  headers: Record<string, string> = html,
): Promise<Answer> {
  const opened = await browser.send('POST', `${JOIN}/open`, { form: { invitation: token }, headers });
  return opened.status === 303 ? browser.get(JOIN, headers) : opened;
}

export async function roleOf(db: Database, orgId: string, userId: string): Promise<Role | undefined> {
  const [row] = await db.orm
    .select()
    .from(memberships)
    .where(and(eq(memberships.orgId, orgId), eq(memberships.userId, userId)));
  return row?.role;
}

let counter = 0;
export const freshEmail = () => `invited-${process.pid}-${++counter}@example.com`;
