import { Writable } from 'node:stream';
import { eq, sql } from 'drizzle-orm';
import { beforeEach, describe, expect, it } from 'vitest';
import { v7 as uuid } from 'uuid';
import { verifyPassword } from '../../../../src/accounts/identity/password.js';
import { sessions } from '../../../../src/accounts/identity/table.js';
import {
  invitations,
  memberships,
  organizations,
  users,
} from '../../../../src/accounts/organizations/table.js';
import { createLogger, createPlainLog } from '../../../../src/core/log/log.js';
import { isEmbedded } from '../../../support/database.js';
import { operatorClient } from '../../../support/operator.js';
import { addMember, Browser, createUser, PASSWORD } from '../../../support/accounts.js';
import { startTestService } from '../../../support/service.js';
import {
  createTeam,
  freshEmail,
  html,
  invite,
  JOIN,
  openLink,
  post,
  roleOf,
  sendInvitation,
  signIn,
  type Team,
} from './support.js';
import { useService } from '../../../support/use.js';
import { auditOf, operatorLogOf } from '../../../support/audit.js';

const NEW_PASSWORD = 'a quite long password';
const roomy = { wrongLinks: 10_000, newAccounts: 10_000 };

let logged = '';
const stream = new Writable({
  write(chunk: Buffer, _encoding, done) {
    logged += chunk.toString();
    done();
  },
});
const { database, service } = useService({
  app: { joinLimits: roomy },
  context: { log: createLogger('trace', stream), accessLog: createPlainLog('trace', stream) },
});
let team: Team;
let orgId: string;
beforeEach(async () => {
  team = await createTeam(database.db, service.url);
  orgId = team.organization.id;
});

const operator = operatorClient(() => service);

const accept = (browser: Browser, invitation: string) => post(browser, '/dashboard/join', { invitation });
const makeAccount = (browser: Browser, invitation: string, values: Record<string, string> = {}) =>
  post(browser, '/dashboard/join/account', { invitation, name: 'New', password: NEW_PASSWORD, ...values });
const look = (browser: Browser, token: string) => openLink(browser, token);
const rowOf = async (email: string) =>
  (await database.db.orm.select().from(invitations).where(eq(invitations.email, email)))[0]!;
const userOf = async (email: string) =>
  (await database.db.orm.select().from(users).where(eq(users.email, email)))[0];

async function stranger() {
  const user = await createUser(database.db);
  return { ...user, browser: await signIn(service.url, user.email) };
}

describe.runIf(isEmbedded)('a signed-in person', () => {
  it('sees what they are invited to and joins with one click', async () => {
    const person = await stranger();
    const token = await invite(team.owner.browser, person.email, { role: 'billing' });
    const page = await look(person.browser, token);
    expect(page.status).toBe(200);
    expect(page.headers.get('cache-control')).toBe('no-store, no-transform');
    for (const text of [team.organization.name, 'billing', person.email, person.name, team.owner.name])
      expect(page.text).toContain(text);
    expect(await roleOf(database.db, orgId, person.id)).toBeUndefined();

    const answer = await accept(person.browser, token);
    expect(answer.status).toBe(303);
    expect(answer.headers.get('location')).toBe('/dashboard?done=joined');
    expect(await roleOf(database.db, orgId, person.id)).toBe('billing');
    const { body } = await person.browser.get('/dashboard/session');
    expect(body).toMatchObject({ organization: { id: orgId }, role: 'billing' });
    const row = await rowOf(person.email);
    expect(row).toMatchObject({ acceptedBy: person.id, acceptedAt: new Date(service.clock.now()) });
    expect((await auditOf(database.db, orgId)).slice(1)).toMatchObject([
      {
        action: 'member.joined',
        actor: person.id,
        target: person.email,
        details: {
          after: { role: 'billing' },
          invited: person.email,
          invitationId: row.id,
          isNewAccount: false,
        },
        ip: '127.0.0.1',
        requestId: answer.headers.get('x-request-id'),
      },
    ]);
  });

  it('is warned if the invitation is for another address, but may still join', async () => {
    const person = await stranger();
    const invited = freshEmail();
    const token = await invite(team.owner.browser, invited);
    expect((await look(person.browser, token)).text).toContain(`The invitation is for <bdi>${invited}</bdi>`);
    expect((await accept(person.browser, token)).status).toBe(303);
    expect((await auditOf(database.db, orgId))[1]).toMatchObject({
      target: person.email,
      details: { invited },
    });
    expect(await userOf(invited)).toBeUndefined();
  });

  it('keeps their other Organizations and switches to the new one', async () => {
    const other = await createTeam(database.db, service.url);
    const token = await invite(team.owner.browser, freshEmail());
    await accept(other.member.browser, token);
    const { body } = await other.member.browser.get('/dashboard/session');
    expect(body.organization.id).toBe(orgId);
    expect(body.organizations).toHaveLength(2);
  });

  it('joins once, however often and fast they click', async () => {
    const person = await stranger();
    const token = await invite(team.owner.browser, person.email);
    const answers = await Promise.all([1, 2, 3, 4].map(() => accept(person.browser, token)));
    answers.push(await accept(person.browser, token));
    for (const answer of answers) expect(answer.headers.get('location')).toBe('/dashboard?done=joined');
    const log = await auditOf(database.db, orgId);
    expect(log.filter(({ action }) => action === 'member.joined')).toHaveLength(1);
    expect((await look(person.browser, token)).text).toContain('You are already a member');
  });

  it('joins alone if two people accept concurrently', async () => {
    for (let i = 0; i < 5; i++) {
      const people = [await stranger(), await stranger()];
      const token = await invite(team.owner.browser, freshEmail());
      const answers = await Promise.all(people.map((person) => accept(person.browser, token)));
      expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([303, 404]);
      const joined = await Promise.all(people.map((person) => roleOf(database.db, orgId, person.id)));
      expect(joined.filter(Boolean)).toHaveLength(1);
    }
  });

  it('who is already a member sees a notice, and the invitation stays open', async () => {
    const token = await invite(team.owner.browser, freshEmail(), { role: 'owner' });
    expect((await look(team.member.browser, token)).text).toContain('You are already a member');
    const answer = await accept(team.member.browser, token);
    expect(answer.headers.get('location')).toBe(JOIN);
    expect(await roleOf(database.db, orgId, team.member.id)).toBe('member');
    const person = await stranger();
    expect((await accept(person.browser, token)).headers.get('location')).toBe('/dashboard?done=joined');
  });

  it('can switch accounts and return to the invitation', async () => {
    const person = await stranger();
    const token = await invite(team.owner.browser, team.organization.slug + '@example.com');
    const form = { invitation: token };
    const answer = await post(person.browser, '/dashboard/join/sign-out', form);
    expect(answer.headers.get('location')).toBe(JOIN);
    expect((await look(person.browser, token)).text).toContain('Create your account');
    for (const invitation of ['//evil.example', 'x', '', '\u0000']) {
      const astray = await post(person.browser, '/dashboard/join/sign-out', { invitation });
      expect(astray.headers.get('location')).toBe('/login');
    }
  });
});

describe.runIf(isEmbedded)('an invitation to an archived Organization', () => {
  const setArchived = (archivedAt: Date | null) =>
    database.db.orm.update(organizations).set({ archivedAt }).where(eq(organizations.id, orgId));

  it('is void for everybody until the Organization is restored', async () => {
    const person = await stranger();
    const token = await invite(team.owner.browser, person.email);
    const newcomer = freshEmail();
    const newToken = await invite(team.owner.browser, newcomer);
    await setArchived(new Date(service.clock.now()));
    const answers = [
      await look(person.browser, token),
      await accept(person.browser, token),
      await look(new Browser(service.url), newToken),
      await makeAccount(new Browser(service.url), newToken),
    ];
    for (const { status, text } of answers) {
      expect(status).toBe(403);
      expect(text).toContain('was archived by the operator of this service');
    }
    const program = await person.browser.send('POST', JOIN, { form: { invitation: token } });
    expect([program.status, program.body]).toMatchObject([403, { code: 'forbidden_role' }]);
    expect(await userOf(newcomer)).toBeUndefined();
    expect(await roleOf(database.db, orgId, person.id)).toBeUndefined();
    await setArchived(null);
    // The browser still remembers the link that it opened earlier.
    expect((await person.browser.get(JOIN, html)).text).toContain(team.organization.name);
    expect((await accept(person.browser, token)).status).toBe(303);
    expect((await makeAccount(new Browser(service.url), newToken)).status).toBe(303);
  });
});

describe.runIf(isEmbedded)('a signed-out person with an account', () => {
  it('signs in and returns to the invitation', async () => {
    const user = await createUser(database.db);
    const token = await invite(team.owner.browser, user.email);
    const browser = new Browser(service.url);
    const { text } = await look(browser, token);
    expect(text).not.toContain('Create your account');
    const href = /href="(\/login\?next=[^"]+)"/.exec(text)![1]!;
    expect(href).toBe(`/login?next=${encodeURIComponent(JOIN)}`);
    const next = /name="next" value="([^"]+)"/.exec((await browser.get(href, html)).text)![1]!;
    const answer = await browser.send('POST', '/login', {
      form: { email: user.email, password: PASSWORD, next },
    });
    expect(answer.headers.get('location')).toBe(JOIN);
    expect((await look(browser, token)).text).toContain(`Join as <bdi>${user.email}</bdi>`);
  });

  it('is sent to sign in after posting the form', async () => {
    const token = await invite(team.owner.browser, freshEmail());
    const answer = await accept(new Browser(service.url), token);
    expect(answer.headers.get('location')).toBe(`/login?next=${encodeURIComponent(JOIN)}`);
  });
});

describe('a person who has no account', () => {
  it('creates one for the invited address, joins and is signed in', async () => {
    const email = freshEmail();
    const token = await invite(team.owner.browser, email, { role: 'admin' });
    const browser = new Browser(service.url);
    expect((await look(browser, token)).text).toContain('Create your account');
    // Viewing the page changes nothing.
    expect(await userOf(email)).toBeUndefined();
    const answer = await makeAccount(browser, token, { name: '  Zoë <b>  ' });
    expect(answer.headers.get('location')).toBe('/dashboard?done=joined');
    const user = (await userOf(email))!;
    expect(user.name).toBe('Zoë <b>');
    expect(await verifyPassword(user.passwordHash, NEW_PASSWORD)).toBe('current');
    const { body } = await browser.get('/dashboard/session');
    expect(body).toMatchObject({ user: { id: user.id, email }, organization: { id: orgId }, role: 'admin' });
    expect((await auditOf(database.db, orgId))[1]).toMatchObject({
      action: 'member.joined',
      actor: user.id,
      target: email,
      details: { isNewAccount: true, after: { role: 'admin' } },
    });
    const [made] = await operatorLogOf(database.db, email);
    expect(made).toMatchObject({
      action: 'user.created',
      actor: user.id,
      details: { invitedTo: team.organization.slug },
    });
    await signIn(service.url, email, NEW_PASSWORD);
  });

  it('cannot choose another address', async () => {
    const email = freshEmail();
    const token = await invite(team.owner.browser, email);
    const answer = await makeAccount(new Browser(service.url), token, { email: freshEmail() });
    expect(answer.status).toBe(400);
    expect(await userOf(email)).toBeUndefined();
  });

  it('sees errors next to the fields and keeps the name but not the password', async () => {
    const email = freshEmail();
    const token = await invite(team.owner.browser, email);
    const browser = new Browser(service.url);
    const bad: Record<string, string>[] = [
      { password: '' },
      { password: 'x'.repeat(11) },
      { password: '😀🎉🚀🌍🍕🎲🎻🧭🪁🧊🦊' },
      { password: 'x'.repeat(1025) },
      { password: email.toUpperCase() },
      { password: 'nul \u0000 in the middle' },
      { name: '' },
      { name: '   ' },
      { name: 'x'.repeat(300) },
      { name: 'nul\u0000' },
    ];
    for (const values of bad) {
      const answer = await makeAccount(browser, token, { name: 'Keep <me>', ...values });
      expect(answer.status, JSON.stringify(values)).toBe(400);
      const [field] = Object.keys(values);
      expect(answer.text).toContain(`field-${field}-error`);
      if (field === 'password') expect(answer.text).toContain('value="Keep &lt;me&gt;"');
      expect(answer.text).not.toContain(NEW_PASSWORD);
      expect(answer.text).toContain(`value="${token}"`);
    }
    expect(await userOf(email)).toBeUndefined();
    expect(
      (await makeAccount(browser, token, { name: '😀'.repeat(200), password: '😀🎉🚀🌍🍕🎲🎻🧭🪁🧊🦊🐙' }))
        .status,
    ).toBe(303);
  });

  it('creates one account, however often and fast the form is sent', async () => {
    const email = freshEmail();
    const token = await invite(team.owner.browser, email);
    const answers = await Promise.all([1, 2, 3].map(() => makeAccount(new Browser(service.url), token)));
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(1);
    for (const { status } of answers) expect([303, 400, 404]).toContain(status);
    const user = (await userOf(email))!;
    expect(await database.db.orm.$count(memberships, eq(memberships.userId, user.id))).toBe(1);
    expect(await database.db.orm.$count(sessions, eq(sessions.userId, user.id))).toBe(1);
  });

  it('does not take over an account created meanwhile', async () => {
    const email = freshEmail();
    const token = await invite(team.owner.browser, email);
    const user = await createUser(database.db, { email });
    const answer = await makeAccount(new Browser(service.url), token);
    expect(answer.status).toBe(400);
    expect(answer.text).toContain('An account with this address exists now');
    expect(answer.text).toContain('/login?next=');
    await signIn(service.url, user.email);
    expect((await look(new Browser(service.url), token)).status).toBe(200);
  });
});

describe.runIf(isEmbedded)('an invalid invitation', () => {
  it('gets one page that reveals nothing about the Organization', async () => {
    const person = await stranger();
    const make = () => invite(team.owner.browser, freshEmail());
    const used = await make();
    await accept((await stranger()).browser, used);
    const revokedEmail = freshEmail();
    const revoked = await invite(team.owner.browser, revokedEmail);
    await post(team.owner.browser, `/dashboard/members/invitations/${(await rowOf(revokedEmail)).id}/revoke`);
    const good = await make();
    const bytes = Buffer.from(good, 'base64url');
    bytes[47]! ^= 1;
    const otherOrganization = Buffer.concat([
      Buffer.from(uuid().replaceAll('-', ''), 'hex'),
      bytes.subarray(16),
    ]);
    const expired = await invite(team.owner.browser, freshEmail(), { days: '1' });
    service.clock.advance(86_400_000);
    const tokens = {
      used,
      revoked,
      expired,
      unknown: bytes.toString('base64url'),
      otherOrganization: otherOrganization.toString('base64url'),
      none: '',
      short: good.slice(1),
      long: `${good}x`,
      twice: `${good}&invitation=${good}`,
      nul: '%00'.repeat(64),
      hostile: encodeURIComponent('<script>alert(1)</script>'),
      padded: `${good}=`,
    };
    for (const [why, token] of Object.entries(tokens)) {
      for (const browser of [person.browser, new Browser(service.url)]) {
        const page = await look(browser, token);
        expect(page.status, why).toBe(404);
        expect(page.text).toContain('This invitation does not work');
        expect(page.text).not.toContain(team.organization.name);
        expect(page.text).not.toContain('<script>alert');
      }
      const form = decodeURIComponent(token);
      expect((await accept(person.browser, form)).status, why).toBe(404);
      const account = await makeAccount(new Browser(service.url), form);
      expect(account.status, why).toBe(404);
      expect(account.text).not.toContain(team.organization.name);
    }
    expect(await roleOf(database.db, orgId, person.id)).toBeUndefined();
    expect((await look(person.browser, good)).status).toBe(200);
    const problem = await openLink(person.browser, used, {});
    expect(problem).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });
});

describe.runIf(isEmbedded)('an invitation’s secret', () => {
  it('appears in no log line and no database row', async () => {
    const email = freshEmail();
    const token = await invite(team.owner.browser, email);
    const browser = new Browser(service.url);
    await look(browser, token);
    await look(team.member.browser, token);
    await browser.get(`/login?next=${encodeURIComponent(JOIN)}`, html);
    await makeAccount(browser, token, { password: 'short' });
    await makeAccount(browser, token);
    await accept(browser, token);
    await look(new Browser(service.url), token);
    expect(logged).toContain('/dashboard/join');
    expect(logged).not.toContain(token);
    expect(logged).not.toContain('invitation=');
    const tables = await database.db.orm.execute(
      sql`select table_name as name from information_schema.tables where table_schema = 'public'`,
    );
    for (const { name } of (tables as { rows: { name: string }[] }).rows) {
      const found = await database.db.orm.execute(
        sql`select count(*)::int as hits from ${sql.identifier(name)} t where t::text like ${`%${token}%`}`,
      );
      const { rows } = found as { rows: { hits: number }[] };
      expect(rows[0]!.hits, name).toBe(0);
    }
  });
});

describe.runIf(isEmbedded)('an address with too many attempts', () => {
  const start = (joinLimits: object) =>
    startTestService(database.db, { env: { TRUST_PROXY: '1' }, app: { joinLimits } });
  const from = (ip: string) => ({ ...html, 'x-forwarded-for': ip });

  it('is blocked after too many wrong links; others are not', async () => {
    const limited = await start({ wrongLinks: 3 });
    try {
      const token = await invite(team.owner.browser, freshEmail());
      const browser = new Browser(limited.url);
      for (let i = 0; i < 4; i++)
        expect((await openLink(browser, token, from('192.0.2.1'))).status).toBe(200);
      for (let i = 0; i < 3; i++) expect((await openLink(browser, 'x', from('192.0.2.1'))).status).toBe(404);
      const refused = await openLink(browser, token, from('192.0.2.1'));
      expect(refused.status).toBe(429);
      expect(refused.text).not.toContain(team.organization.name);
      expect(refused.headers.get('retry-after')).not.toBeNull();
      expect((await openLink(browser, token, from('192.0.2.2'))).status).toBe(200);
    } finally {
      await limited.stop();
    }
  });

  it('can create only a limited number of accounts', async () => {
    const limited = await start({ newAccounts: 2 });
    try {
      const statuses = [];
      for (let i = 0; i < 3; i++) {
        const invitation = await invite(team.owner.browser, freshEmail());
        const form = { invitation, name: 'New', password: NEW_PASSWORD };
        const browser = new Browser(limited.url);
        statuses.push((await post(browser, '/dashboard/join/account', form, from('192.0.2.3'))).status);
      }
      expect(statuses).toEqual([303, 303, 429]);
    } finally {
      await limited.stop();
    }
  });
});

describe('the operator', () => {
  it('removes a user with invitations: the open ones they created end, the rest stays', async () => {
    const email = freshEmail();
    const token = await invite(team.owner.browser, email, { role: 'admin' });
    const browser = new Browser(service.url);
    await makeAccount(browser, token);
    const open = freshEmail();
    const theirs = await invite(browser, open);
    expect((await operator('DELETE', `/users/${email}`)).status).toBe(204);
    expect(await rowOf(email)).toMatchObject({ acceptedBy: null, createdBy: team.owner.id });
    expect(await rowOf(open)).toMatchObject({ createdBy: null });
    expect((await look(new Browser(service.url), theirs)).status).toBe(404);
    expect((await sendInvitation(team.owner.browser, open)).status).toBe(201);
  });

  it('recovers an account created for another person’s address: one PUT sets the password and ends the sessions', async () => {
    const email = freshEmail();
    const squatter = new Browser(service.url);
    await makeAccount(squatter, await invite(team.owner.browser, email));
    expect((await squatter.get('/dashboard/session')).status).toBe(200);
    const put = await operator('PUT', `/users/${email}`, { name: 'The real one', password: PASSWORD });
    expect(put.status).toBe(200);
    expect((await squatter.get('/dashboard/session')).status).toBe(401);
    expect((await squatter.signIn(email, NEW_PASSWORD)).status).toBe(401);
    const real = await signIn(service.url, email);
    expect((await real.get('/dashboard/session')).body.user.name).toBe('The real one');
  });

  it('adds a member who joins concurrently: one membership, no error', async () => {
    for (let i = 0; i < 5; i++) {
      const person = await stranger();
      const token = await invite(team.owner.browser, person.email);
      const path = `/organizations/${team.organization.slug}/members/${person.email}`;
      const [put, joined] = await Promise.all([
        operator('PUT', path, { role: 'billing' }),
        accept(person.browser, token),
      ]);
      expect([200, 201]).toContain(put.status);
      expect(joined.status).toBe(303);
      expect(await roleOf(database.db, orgId, person.id)).toBe('billing');
    }
  });

  it('removes a user who joins concurrently: no partial state, no error', async () => {
    for (let i = 0; i < 5; i++) {
      const person = await stranger();
      const token = await invite(team.owner.browser, person.email);
      const [removed, joined] = await Promise.all([
        operator('DELETE', `/users/${person.email}`),
        accept(person.browser, token),
      ]);
      expect(removed.status).toBe(204);
      expect([303, 401]).toContain(joined.status);
      expect(await roleOf(database.db, orgId, person.id)).toBeUndefined();
    }
  });

  it('removes a member, who cannot rejoin with an accepted link', async () => {
    const person = await stranger();
    const token = await invite(team.owner.browser, person.email);
    await accept(person.browser, token);
    await operator('DELETE', `/organizations/${team.organization.slug}/members/${person.email}`);
    expect((await accept(person.browser, token)).status).toBe(404);
    await addMember(database.db, orgId, person.id, 'member');
    expect((await look(person.browser, token)).text).toContain('You are already a member');
  });
});
