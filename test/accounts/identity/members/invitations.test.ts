import { and, eq, lt } from 'drizzle-orm';
import { beforeEach, describe, expect, it } from 'vitest';
import { v4, v7 as uuid } from 'uuid';
import { hashToken } from '../../../../src/accounts/identity/session/session-cookie.js';
import { invitations } from '../../../../src/accounts/organizations/table.js';
import {
  createTeam,
  freshEmail,
  html,
  invite,
  join,
  openLink,
  openForm,
  post,
  remove,
  sendInvitation,
  setRole,
  tokenIn,
  type Team,
} from './support.js';
import { isEmbedded } from '../../../support/database.js';
import { Browser } from '../../../support/accounts.js';
import { useService } from '../../../support/use.js';
import { auditOf } from '../../../support/audit.js';

const { database, service } = useService();
let team: Team;
beforeEach(async () => {
  team = await createTeam(database.db, service.url);
});

const rowsOf = (orgId: string, email?: string) =>
  database.db.orm
    .select()
    .from(invitations)
    .where(and(eq(invitations.orgId, orgId), email === undefined ? undefined : eq(invitations.email, email)));

const list = async () => (await team.owner.browser.get('/dashboard/members', html)).text;
const works = async (token: string) => (await openLink(new Browser(service.url), token)).status === 200;
const revokePath = (id: string) => `/dashboard/members/invitations/${id}/revoke`;

describe('POST /dashboard/members/invite', () => {
  it('creates an invitation and shows its link only once', async () => {
    const email = freshEmail();
    const answer = await sendInvitation(team.owner.browser, `  ${email.toUpperCase()} `, { role: 'admin' });
    expect(answer.status).toBe(201);
    expect(answer.headers.get('cache-control')).toBe('no-store, no-transform');
    expect(answer.headers.get('content-encoding')).toBeNull();
    expect(answer.text).toContain(`${service.url}/dashboard/join#${tokenIn(answer)}`);
    expect(answer.text).toContain('no e-mail was sent');
    expect(answer.text).toContain('data-copy="invitation-link"');
    const token = tokenIn(answer);
    expect(Buffer.from(token, 'base64url')).toHaveLength(48);

    const [row] = await rowsOf(team.organization.id);
    const now = service.clock.now();
    expect(row).toMatchObject({
      email,
      role: 'admin',
      createdBy: team.owner.id,
      hashedToken: hashToken(token),
      createdAt: new Date(now),
      expiresAt: new Date(now + 7 * 86_400_000),
      acceptedAt: null,
      revokedAt: null,
    });
    const log = await auditOf(database.db, team.organization.id);
    expect(log).toMatchObject([
      {
        action: 'member.invited',
        actor: team.owner.id,
        target: email,
        details: { invitationId: row!.id, role: 'admin' },
        ip: '127.0.0.1',
        requestId: answer.headers.get('x-request-id'),
      },
    ]);
    const text = await list();
    expect(text).toContain(email);
    expect(text).toContain('in 7 days');
    expect(text.indexOf('Open invitations')).toBeGreaterThan(text.indexOf('How they joined'));
    for (const place of [text, JSON.stringify(row), JSON.stringify(log)]) expect(place).not.toContain(token);
  });

  it('accepts 1, 7 and 30 days', async () => {
    for (const days of ['1', '7', '30']) {
      const email = freshEmail();
      await invite(team.admin.browser, email, { days });
      const [row] = await rowsOf(team.organization.id, email);
      expect(row!.expiresAt.getTime() - row!.createdAt.getTime()).toBe(Number(days) * 86_400_000);
    }
  });

  it('creates one invitation for the same form sent twice, in sequence or concurrently', async () => {
    const email = freshEmail();
    const id = await openForm(team.owner.browser);
    const answers = await Promise.all([1, 2, 3].map(() => sendInvitation(team.owner.browser, email, { id })));
    answers.push(await sendInvitation(team.owner.browser, email, { id }));
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([201, 303, 303, 303]);
    expect(answers[3]!.headers.get('location')).toBe('/dashboard/members?done=invited-before');
    const told = await team.owner.browser.get('/dashboard/members?done=invited-before', html);
    expect(told.text).toContain('was already created');
    expect(await rowsOf(team.organization.id)).toHaveLength(1);
    expect(await auditOf(database.db, team.organization.id)).toHaveLength(1);
    expect(await works(tokenIn(answers.find(({ status }) => status === 201)!))).toBe(true);
  });

  it('creates another invitation if a processed form is sent with a different address', async () => {
    const id = await openForm(team.owner.browser);
    const [first, second] = [freshEmail(), freshEmail()];
    const tokens = [
      await invite(team.owner.browser, first, { id }),
      await invite(team.owner.browser, second, { id }),
    ];
    for (const token of tokens) expect(await works(token)).toBe(true);
    expect(await rowsOf(team.organization.id)).toHaveLength(2);
  });

  it('replaces the open invitation of an address, whose link stops working', async () => {
    const email = freshEmail();
    const first = await invite(team.owner.browser, email);
    const second = await invite(team.admin.browser, email, { role: 'billing' });
    expect(await works(first)).toBe(false);
    expect(await works(second)).toBe(true);
    const rows = await rowsOf(team.organization.id, email);
    expect(rows.filter(({ revokedAt }) => revokedAt === null)).toHaveLength(1);
    const log = await auditOf(database.db, team.organization.id);
    const replaced = rows.find(({ revokedAt }) => revokedAt !== null)!;
    expect(log[1]).toMatchObject({ action: 'member.invited', details: { replacedId: replaced.id } });
  });

  it('leaves one working link after concurrent invitations of one address', async () => {
    const email = freshEmail();
    const tokens = await Promise.all([1, 2, 3, 4].map(() => invite(team.owner.browser, email)));
    const working = await Promise.all(tokens.map(works));
    expect(working.filter(Boolean)).toHaveLength(1);
  });

  it('replaces an expired one as well', async () => {
    const email = freshEmail();
    const { clock } = service;
    const first = await invite(team.owner.browser, email, { days: '1' });
    clock.advance(86_400_001);
    expect(await list()).not.toContain(email);
    expect(await works(first)).toBe(false);
    expect(await works(await invite(team.owner.browser, email))).toBe(true);
  });

  it('says that an address belongs to a member, and keeps the typed values', async () => {
    const answer = await sendInvitation(team.owner.browser, team.member.email.toUpperCase(), { days: '30' });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain('Already belongs to a member');
    expect(answer.text).toContain(`value="${team.member.email.toUpperCase()}"`);
    expect(answer.text).toMatch(/value="30" selected/);
    expect(await rowsOf(team.organization.id)).toEqual([]);
  });

  it('rejects invalid input next to the field', async () => {
    const id = uuid();
    const good = { id, role: 'member', days: '7' };
    const bad: [string, Record<string, string>, string][] = [
      ['', good, 'field-email-error'],
      ['nobody', good, 'field-email-error'],
      ['a\u0000@example.com', good, 'field-email-error'],
      ['<script>@example.com', good, 'field-email-error'],
      ['😀@example.com', good, 'field-email-error'],
      [`${'x'.repeat(300)}@example.com`, good, 'field-email-error'],
      [freshEmail(), { ...good, role: 'root' }, 'role-error'],
      [freshEmail(), { ...good, days: '365' }, 'field-days-error'],
      [freshEmail(), { ...good, id: v4() }, 'alert'],
      [freshEmail(), { ...good, id: 'x' }, 'alert'],
      [freshEmail(), { ...good, orgId: uuid() }, 'alert'],
    ];
    for (const [email, form, where] of bad) {
      const answer = await post(team.owner.browser, '/dashboard/members/invite', { email, ...form });
      expect(answer.status, `${email} ${JSON.stringify(form)}`).toBe(400);
      expect(answer.text).toContain(where);
      expect(answer.text).not.toContain('<script>@');
    }
    expect(await rowsOf(team.organization.id)).toEqual([]);
  });

  it('shows a form with a malformed id again with a new one', async () => {
    const refused = await sendInvitation(team.owner.browser, freshEmail(), { id: 'x' });
    expect(refused.text).toMatch(/<div class="card">[^]*out of date/);
    const id = /name="id" value="([^"]+)"/.exec(refused.text)![1]!;
    expect((await sendInvitation(team.owner.browser, freshEmail(), { id })).status).toBe(201);
  });

  it('is for owners, for admins unless the role is owner, and for no other role', async () => {
    for (const role of ['member', 'billing'] as const) {
      const { browser } = team[role];
      expect((await browser.get('/dashboard/members/invite', html)).status).toBe(403);
      expect((await sendInvitation(browser, freshEmail(), { id: uuid() })).status).toBe(403);
      expect((await browser.get('/dashboard/members', html)).text).not.toContain('Open invitations');
    }
    for (const role of ['owner', 'admin', 'member', 'billing']) {
      expect((await sendInvitation(team.owner.browser, freshEmail(), { role })).status).toBe(201);
      const asAdmin = await sendInvitation(team.admin.browser, freshEmail(), { role });
      expect(asAdmin.status).toBe(role === 'owner' ? 403 : 201);
    }
    const form = await team.admin.browser.get('/dashboard/members/invite', html);
    expect(form.text).not.toContain('value="owner"');
  });

  it('does not let an admin replace an owner’s invitation', async () => {
    const email = freshEmail();
    const token = await invite(team.owner.browser, email, { role: 'owner' });
    expect((await sendInvitation(team.admin.browser, email)).status).toBe(403);
    expect(await works(token)).toBe(true);
  });

  it('stops at 100 open invitations and continues after a revocation', async () => {
    const at = new Date(service.clock.now());
    const rows = Array.from({ length: 99 }, () => ({
      orgId: team.organization.id,
      id: uuid(),
      hashedToken: uuid(),
      email: freshEmail(),
      role: 'member' as const,
      createdBy: team.owner.id,
      createdAt: new Date(at.getTime() - 2 * 3_600_000),
      expiresAt: new Date(at.getTime() + 86_400_000),
    }));
    await database.db.orm.insert(invitations).values(rows);
    const answers = await Promise.all([1, 2, 3].map(() => sendInvitation(team.owner.browser, freshEmail())));
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([201, 400, 400]);
    expect(answers.find(({ status }) => status === 400)!.text).toContain('At most 100 invitations');
    // A new invitation replaces the open invitation for the same address.
    expect((await sendInvitation(team.owner.browser, rows[0]!.email)).status).toBe(201);
    expect((await post(team.owner.browser, revokePath(rows[1]!.id))).status).toBe(303);
    expect((await sendInvitation(team.owner.browser, freshEmail())).status).toBe(201);
    expect((await list()).match(/\/revoke"/g)).toHaveLength(100);
  });
});

it('stops at 50 an hour per Organization, including revoked ones, and continues as the hour slides', async () => {
  const now = service.clock.now();
  const row = (n: number) => ({
    orgId: team.organization.id,
    id: uuid(),
    hashedToken: uuid(),
    email: freshEmail(),
    role: 'member' as const,
    createdBy: team.owner.id,
    createdAt: new Date(now - (n === 0 ? 50 : 30) * 60_000),
    expiresAt: new Date(now + 86_400_000),
    revokedAt: new Date(now),
  });
  await database.db.orm.insert(invitations).values(Array.from({ length: 50 }, (_, n) => row(n)));
  const refused = await sendInvitation(team.admin.browser, freshEmail());
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '600']);
  expect(refused.text).toContain('at most 50 invitations an hour. Try again in 10 minutes.');
  expect(await rowsOf(team.organization.id)).toHaveLength(50);
  const other = await createTeam(database.db, service.url);
  expect((await sendInvitation(other.owner.browser, freshEmail())).status).toBe(201);
  await database.db.orm
    .update(invitations)
    .set({ createdAt: new Date(now - 3_600_000) })
    .where(
      and(
        eq(invitations.orgId, team.organization.id),
        lt(invitations.createdAt, new Date(now - 40 * 60_000)),
      ),
    );
  expect((await sendInvitation(team.admin.browser, freshEmail())).status).toBe(201);
  expect((await sendInvitation(team.admin.browser, freshEmail())).status).toBe(429);
});

describe.runIf(isEmbedded)('POST /dashboard/members/invitations/:id/revoke', () => {
  const make = async (values: Record<string, string> = {}) => {
    const email = freshEmail();
    const token = await invite(team.owner.browser, email, values);
    const [row] = await rowsOf(team.organization.id, email);
    return { email, token, id: row!.id };
  };

  it('voids the link at once and is logged once', async () => {
    const { email, token, id } = await make();
    const answers = [
      await post(team.admin.browser, revokePath(id)),
      await post(team.admin.browser, revokePath(id)),
    ];
    for (const answer of answers) {
      expect(answer.status).toBe(303);
      expect(answer.headers.get('location')).toBe('/dashboard/members?done=revoked');
    }
    expect(await works(token)).toBe(false);
    expect(await list()).not.toContain(email);
    const log = await auditOf(database.db, team.organization.id);
    expect(log.slice(1)).toMatchObject([
      { action: 'invitation.revoked', actor: team.admin.id, target: email, details: { invitationId: id } },
    ]);
  });

  it('lets only owners revoke an owner’s invitation', async () => {
    const { token, id } = await make({ role: 'owner' });
    expect((await team.admin.browser.get('/dashboard/members', html)).text).not.toContain(revokePath(id));
    expect((await post(team.admin.browser, revokePath(id))).status).toBe(403);
    expect(await works(token)).toBe(true);
    expect((await post(team.owner.browser, revokePath(id))).status).toBe(303);
  });

  it('says if the invitation was already accepted', async () => {
    const { token, id } = await make();
    const other = await createTeam(database.db, service.url);
    await post(other.member.browser, '/dashboard/join', { invitation: token });
    const answer = await post(team.owner.browser, revokePath(id));
    expect(answer.status).toBe(404);
    expect(answer.text).toContain('was already accepted');
  });
});

describe('an invitation depends on its creator’s role:', () => {
  it('a removed person cannot rejoin with their own link', async () => {
    const token = await invite(team.admin.browser, freshEmail());
    expect(await works(token)).toBe(true);
    await remove(team.owner.browser, team.admin.id);
    expect(await works(token)).toBe(false);
    expect((await post(team.admin.browser, '/dashboard/join', { invitation: token })).status).toBe(404);
    expect(await list()).not.toContain('Open invitations');
  });

  it('a demoted person’s invitations cannot grant roles above their own', async () => {
    const boss = await join(database.db, service.url, team.organization.id, 'owner');
    const [asOwner, asMember] = [
      await invite(boss.browser, freshEmail(), { role: 'owner' }),
      await invite(boss.browser, freshEmail()),
    ];
    await setRole(team.owner.browser, boss.id, 'admin');
    expect([await works(asOwner), await works(asMember)]).toEqual([false, true]);
    await setRole(team.owner.browser, boss.id, 'billing');
    expect([await works(asOwner), await works(asMember)]).toEqual([false, false]);
  });
});
