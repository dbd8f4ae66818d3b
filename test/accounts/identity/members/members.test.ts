import { beforeAll, describe, expect, it } from 'vitest';
import { v7 as uuid } from 'uuid';
import { roleDescriptions } from '../../../../src/accounts/identity/members/members.js';
import { isManager, type Role } from '../../../../src/accounts/organizations/table.js';
import { isEmbedded } from '../../../support/database.js';
import { addMember } from '../../../support/accounts.js';
import { createKey, createOrganization } from '../../../support/fixtures.js';
import { createTeam, html, join, remove, roleOf, setRole, type Team } from './support.js';
import { useService } from '../../../support/use.js';
import { auditOf } from '../../../support/audit.js';

const { database, service } = useService();
let team: Team;
beforeAll(async () => {
  team = await createTeam(database.db, service.url);
});

const roles: Role[] = ['owner', 'admin', 'member', 'billing'];
it.each(roles)('says of %s whether it may order, halt trading and correct events', (role) => {
  const text = roleDescriptions[role];
  expect(text).toMatch(/orders?,.* halts? trading.* corrects? events/);
  expect(text.includes('Cannot')).toBe(!isManager(role));
});

const roleNow = (orgId: string, userId: string) => roleOf(database.db, orgId, userId);
const newcomer = (orgId: string, role: Role) => join(database.db, service.url, orgId, role);

describe('GET /dashboard/members', () => {
  it('shows all members to every role and marks the viewer', async () => {
    for (const role of roles) {
      const { status, text } = await team[role].browser.get('/dashboard/members', html);
      expect(status).toBe(200);
      for (const other of roles) {
        expect(text).toContain(team[other].email);
        expect(text).toContain(team[other].name);
      }
      expect(text).toContain('4 members');
      expect(text.match(/>you</g)).toHaveLength(1);
    }
  });

  it('says to owners and admins when each was last seen, and who has a second factor', async () => {
    for (const role of roles) {
      const { text } = await team[role].browser.get('/dashboard/members', html);
      const row = text.split('<tr role="row">').find((part) => part.includes(team.billing.email))!;
      const facts = /"Second factor"><span class="quiet">Off<.*"Last seen">\s*<span><time [^>]*>just now</s;
      expect([role, facts.test(row)]).toEqual([role, isManager(role)]);
    }
  });

  it('offers exactly what the role may do', async () => {
    const offered = async (role: Role) => {
      const { text } = await team[role].browser.get('/dashboard/members', html);
      return {
        invite: text.includes('/dashboard/members/invite'),
        people: roles.filter((other) => text.includes(`/dashboard/members/${team[other].id}"`)),
      };
    };
    // The only owner can neither change the own role nor leave.
    expect(await offered('owner')).toEqual({ invite: true, people: ['admin', 'member', 'billing'] });
    expect(await offered('admin')).toEqual({ invite: true, people: ['admin', 'member', 'billing'] });
    // Every member may leave.
    expect(await offered('member')).toEqual({ invite: false, people: ['member'] });
    expect(await offered('billing')).toEqual({ invite: false, people: ['billing'] });
  });

  it('shows no members of other Organizations', async () => {
    const other = await createTeam(database.db, service.url);
    const { text } = await team.owner.browser.get('/dashboard/members', html);
    expect(text).not.toContain(other.owner.email);
    const found = await team.owner.browser.get(`/dashboard/members?search=${other.owner.email}`, html);
    expect(found.text).not.toContain(other.owner.id);
  });

  it('searches by any part of an address or name, ignoring case', async () => {
    const { id } = await createOrganization(database.db);
    const owner = await join(database.db, service.url, id, 'owner', {
      email: `ada-${uuid()}@example.com`,
      name: 'Ada Lindqvist',
    });
    await join(database.db, service.url, id, 'member', {
      email: `zoe-${uuid()}@example.com`,
      name: '100% _Zoë',
    });
    const search = async (text: string) => {
      const answer = await owner.browser.get(`/dashboard/members?search=${encodeURIComponent(text)}`, html);
      expect(answer.status).toBe(200);
      return ['Ada Lindqvist', '100% _Zoë'].filter((name) =>
        answer.text.includes(`<span><bdi>${name}</bdi>`),
      );
    };
    expect(await search('ADA-')).toEqual(['Ada Lindqvist']);
    expect(await search(' lind ')).toEqual(['Ada Lindqvist']);
    expect(await search('QVIST')).toEqual(['Ada Lindqvist']);
    expect(await search('_')).toEqual(['100% _Zoë']);
    expect(await search('%')).toEqual(['100% _Zoë']);
    expect(await search('%_')).toEqual([]);
    expect(await search('100%')).toEqual(['100% _Zoë']);
    expect(await search('')).toHaveLength(2);
    expect(await search("'; drop table users; --")).toEqual([]);
  });

  it('says if nobody was found and escapes the search text', async () => {
    const typed = '<script>alert(1)</script>';
    const { text } = await team.owner.browser.get(
      `/dashboard/members?search=${encodeURIComponent(typed)}`,
      html,
    );
    expect(text).toContain('No members match');
    expect(text).not.toContain(typed);
    expect(text).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
  });

  it('rejects malformed searches and cursors', async () => {
    const cursor = Buffer.from('nul\u0000').toString('base64url');
    for (const query of ['search=%00', `search=${'x'.repeat(300)}`, 'cursor=%20', `cursor=${cursor}`]) {
      const { status } = await team.owner.browser.get(`/dashboard/members?${query}`, html);
      expect(status, query).toBe(400);
    }
  });
});

describe.runIf(isEmbedded)('changing a role', () => {
  it('lets owners assign any role, and admins any but owner', async () => {
    const { id } = await createOrganization(database.db);
    const owner = await newcomer(id, 'owner');
    const actors = {
      owner,
      admin: await newcomer(id, 'admin'),
      member: await newcomer(id, 'member'),
      billing: await newcomer(id, 'billing'),
    };
    for (const actor of roles) {
      for (const from of roles) {
        const target = await newcomer(id, from);
        for (const to of roles) {
          const mayChange = actor === 'owner' || (actor === 'admin' && from !== 'owner' && to !== 'owner');
          const { status } = await setRole(actors[actor].browser, target.id, to);
          expect(status, `${actor}: ${from} → ${to}`).toBe(mayChange ? 303 : 403);
          const now = await roleNow(id, target.id);
          expect(now).toBe(mayChange ? to : from);
          if (now !== from) await setRole(owner.browser, target.id, from);
        }
      }
    }
  });

  it('is confirmed and logged once, and not logged if nothing changed', async () => {
    const { organization, owner, member } = await createTeam(database.db, service.url);
    const answer = await setRole(owner.browser, member.id, 'admin');
    expect(answer.headers.get('location')).toBe(`/dashboard/members/${member.id}?done=role-changed`);
    const page = await owner.browser.get(answer.headers.get('location')!, html);
    expect(page.text).toContain('The role is now admin');
    expect((await setRole(owner.browser, member.id, 'admin')).status).toBe(303);
    expect(await auditOf(database.db, organization.id)).toMatchObject([
      {
        action: 'member.role_changed',
        actor: owner.id,
        target: member.email,
        details: { before: { role: 'member' }, after: { role: 'admin' } },
        ip: '127.0.0.1',
        requestId: answer.headers.get('x-request-id'),
      },
    ]);
  });

  it('takes effect on the person’s next request', async () => {
    const { owner, member, billing } = await createTeam(database.db, service.url);
    expect((await setRole(member.browser, billing.id, 'member')).status).toBe(403);
    await setRole(owner.browser, member.id, 'admin');
    expect((await setRole(member.browser, billing.id, 'member')).status).toBe(303);
    expect((await member.browser.get('/dashboard/members/invite', html)).status).toBe(200);
    await setRole(owner.browser, member.id, 'billing');
    expect((await setRole(member.browser, billing.id, 'admin')).status).toBe(403);
    expect((await member.browser.get('/dashboard/members/invite', html)).status).toBe(403);
  });

  it('keeps the form and shows an error for an unknown role', async () => {
    for (const role of ['', 'root', '<script>', 'x'.repeat(300), '\u0000']) {
      const answer = await setRole(team.owner.browser, team.member.id, role);
      expect(answer.status).toBe(400);
      expect(answer.text).toContain('role-error');
      expect(answer.text).not.toContain('<script>"');
    }
    expect((await setRole(team.owner.browser, team.member.id, 'billing', { x: 'y' })).status).toBe(400);
    expect(await roleNow(team.organization.id, team.member.id)).toBe('member');
  });

  it('of one’s own needs a confirmation and, for an owner, another owner', async () => {
    const { organization, owner, admin } = await createTeam(database.db, service.url);
    const orgId = organization.id;
    const confirmed = { confirmed: 'yes' };
    const last = await setRole(owner.browser, owner.id, 'admin', confirmed);
    expect(last.status).toBe(400);
    expect(last.text).toContain('Make another member an owner first');
    const page = await owner.browser.get(`/dashboard/members/${owner.id}`, html);
    expect(page.text).toContain('You are the only owner');
    expect(page.text).not.toContain('/role"');
    expect(page.text).not.toContain('/remove"');

    expect((await setRole(owner.browser, admin.id, 'owner')).status).toBe(303);
    const unconfirmed = await setRole(owner.browser, owner.id, 'member');
    expect(unconfirmed.status).toBe(400);
    expect(unconfirmed.text).toContain('Select this to change your own role');
    expect(await roleNow(orgId, owner.id)).toBe('owner');
    expect((await setRole(owner.browser, owner.id, 'member', confirmed)).status).toBe(303);
    expect(await roleNow(orgId, owner.id)).toBe('member');
    // The former owner cannot promote themselves again.
    expect((await setRole(owner.browser, owner.id, 'owner', confirmed)).status).toBe(403);
  });
});

describe.runIf(isEmbedded)('removing a member', () => {
  it('is for owners, for admins unless the member is an owner, and for oneself', async () => {
    const { id } = await createOrganization(database.db);
    const actors = {
      owner: await newcomer(id, 'owner'),
      admin: await newcomer(id, 'admin'),
      member: await newcomer(id, 'member'),
      billing: await newcomer(id, 'billing'),
    };
    for (const actor of roles) {
      for (const target of roles) {
        const person = await newcomer(id, target);
        const mayRemove = actor === 'owner' || (actor === 'admin' && target !== 'owner');
        const page = await actors[actor].browser.get(`/dashboard/members/${person.id}/remove`, html);
        expect(page.status, `${actor} → ${target}`).toBe(mayRemove ? 200 : 403);
        const { status } = await remove(actors[actor].browser, person.id);
        expect(status).toBe(mayRemove ? 303 : 403);
        expect(await roleNow(id, person.id)).toBe(mayRemove ? undefined : target);
      }
    }
    for (const role of ['billing', 'member', 'admin'] as const) {
      const page = await actors[role].browser.get(`/dashboard/members/${actors[role].id}/remove`, html);
      expect(page.text).toContain('Leave');
      const left = await remove(actors[role].browser, actors[role].id);
      expect(left.headers.get('location')).toBe('/dashboard/left');
      expect((await actors[role].browser.get('/dashboard/left', html)).text).toContain(
        'no longer a member of an Organization',
      );
      expect(await roleNow(id, actors[role].id)).toBeUndefined();
    }
  });

  it('names the person, explains the effect, and happens once', async () => {
    const { organization, owner, member } = await createTeam(database.db, service.url);
    const key = await createKey(database.db, organization.id);
    const page = await owner.browser.get(`/dashboard/members/${member.id}/remove`, html);
    expect(page.text).toContain(`Remove <bdi>${member.name}</bdi>?`);
    expect(page.text).toContain('API keys keep working');
    // Viewing the page changes nothing.
    expect(await roleNow(organization.id, member.id)).toBe('member');
    const answer = await remove(owner.browser, member.id);
    expect(answer.headers.get('location')).toBe('/dashboard/members?done=removed');
    expect((await owner.browser.get('/dashboard/members?done=removed', html)).text).toContain('was removed');
    expect((await remove(owner.browser, member.id)).status).toBe(404);
    expect(await auditOf(database.db, organization.id)).toMatchObject([
      {
        action: 'member.removed',
        actor: owner.id,
        target: member.email,
        details: { before: { role: 'member' } },
        ip: '127.0.0.1',
        requestId: answer.headers.get('x-request-id'),
      },
    ]);
    const call = await fetch(`${service.url}/api/key`, {
      headers: { authorization: `Bearer ${key.secret}` },
    });
    expect(call.status).toBe(200);
  });

  it('ends access on the next click and keeps other Organizations', async () => {
    const { organization, owner, member } = await createTeam(database.db, service.url);
    expect((await member.browser.get('/dashboard/members', html)).status).toBe(200);
    await remove(owner.browser, member.id);
    const next = await member.browser.get('/dashboard/members', html);
    expect(next.status).toBe(403);
    expect(next.text).not.toContain(organization.name);
    expect(next.text).not.toContain(owner.email);
    const other = await createOrganization(database.db);
    await addMember(database.db, other.id, member.id, 'member');
    expect((await member.browser.get('/dashboard/members', html)).text).toContain(other.name);
    expect((await member.browser.get('/dashboard/left', html)).text).toContain(other.name);
  });

  it('never removes the last owner, whichever role asks', async () => {
    const { organization, owner, admin } = await createTeam(database.db, service.url);
    const page = await owner.browser.get(`/dashboard/members/${owner.id}/remove`, html);
    expect(page.status).toBe(200);
    expect(page.text).toContain('the only owner');
    expect(page.text).not.toContain('<button class="button danger"');
    const answer = await remove(owner.browser, owner.id);
    expect(answer.status).toBe(400);
    expect(answer.text).toContain('Make another member an owner first');
    expect((await remove(admin.browser, owner.id)).status).toBe(403);
    expect(await roleNow(organization.id, owner.id)).toBe('owner');
    expect(await auditOf(database.db, organization.id)).toEqual([]);
  });
});

describe('one owner remains when', () => {
  const owners = async (count: number) => {
    const { id } = await createOrganization(database.db);
    const people = await Promise.all(Array.from({ length: count }, () => newcomer(id, 'owner')));
    return { id, people };
  };
  const ownersLeft = async (id: string, people: { id: string }[]) =>
    (await Promise.all(people.map((person) => roleNow(id, person.id)))).filter((role) => role === 'owner')
      .length;

  it('two owners demote each other', async () => {
    for (let i = 0; i < 5; i++) {
      const { id, people } = await owners(2);
      const [a, b] = people as [(typeof people)[0], (typeof people)[0]];
      const answers = await Promise.all([
        setRole(a.browser, b.id, 'member'),
        setRole(b.browser, a.id, 'member'),
      ]);
      expect(answers.map(({ status }) => status).sort((x, y) => x - y)).toEqual([303, 403]);
      expect(await ownersLeft(id, people)).toBe(1);
    }
  });

  it('two owners remove each other', async () => {
    for (let i = 0; i < 5; i++) {
      const { id, people } = await owners(2);
      const [a, b] = people as [(typeof people)[0], (typeof people)[0]];
      const answers = await Promise.all([remove(a.browser, b.id), remove(b.browser, a.id)]);
      expect(answers.map(({ status }) => status).sort((x, y) => x - y)).toEqual([303, 403]);
      expect(await ownersLeft(id, people)).toBe(1);
      expect(await auditOf(database.db, id)).toHaveLength(1);
    }
  });

  it('all owners leave or step down at once', async () => {
    const { id, people } = await owners(4);
    const answers = await Promise.all(
      people.map((person, i) =>
        i % 2 === 0
          ? remove(person.browser, person.id)
          : setRole(person.browser, person.id, 'billing', { confirmed: 'yes' }),
      ),
    );
    expect(answers.map(({ status }) => status).sort((x, y) => x - y)).toEqual([303, 303, 303, 400]);
    expect(await ownersLeft(id, people)).toBe(1);
  });

  it('the same person is removed twice and changed concurrently', async () => {
    const { organization, owner, admin, member } = await createTeam(database.db, service.url);
    const answers = await Promise.all([
      remove(owner.browser, member.id),
      setRole(owner.browser, member.id, 'billing'),
      remove(admin.browser, member.id),
    ]);
    for (const { status } of answers) expect([303, 404]).toContain(status);
    expect(await roleNow(organization.id, member.id)).toBeUndefined();
    const log = await auditOf(database.db, organization.id);
    expect(log.filter(({ action }) => action === 'member.removed')).toHaveLength(1);
  });
});
