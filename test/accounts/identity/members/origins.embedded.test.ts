import { expect, it } from 'vitest';
import { formatTime } from '../../../../src/core/pages/format.js';
import { putMember } from '../../../../src/accounts/identity/members/members.js';
import { inChange } from '../../../support/change.js';
import { Browser, createUser } from '../../../support/accounts.js';
import { operatorClient } from '../../../support/operator.js';
import { createTeam, freshEmail, html, invite, post, remove, signIn } from './support.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();

const operator = operatorClient(() => service);

/** Reads a person's row in the list and the text of their page. */
async function readRow(browser: Browser, name: string) {
  const list = (await browser.get('/dashboard/members', html)).text;
  const row = list.split('<tr role="row">').find((part) => part.includes(`<bdi>${name}</bdi>`))!;
  const [, id] = /\/dashboard\/members\/([\w-]+)/.exec(row)!;
  const { text } = await browser.get(`/dashboard/members/${id}`, html);
  const [, fact] = /<dt>How they joined<\/dt>\s*<dd>(.*?)<\/dd>/s.exec(text)!;
  const plain = (part: string) =>
    part
      .replaceAll(/<[^>]+>/g, '')
      .replaceAll(/\s+/g, ' ')
      .trim();
  const [, cell] = /data-label="How they joined">(.*?)<\/td>/s.exec(row)!;
  return { id: id!, cell: plain(cell!), fact: plain(fact!) };
}

it('member pages say who came by an invitation, by the operator or with the demo', async () => {
  const team = await createTeam(database.db, service.url);
  const other = await createTeam(database.db, service.url);
  const { slug } = team.organization;
  const { browser } = team.owner;

  const invited = await invite(browser, freshEmail());
  service.clock.advance(86_400_000);
  const owner = await signIn(service.url, team.owner.email);
  await post(new Browser(service.url), '/dashboard/join/account', {
    invitation: invited,
    name: 'New Account',
    password: 'a quite long password',
  });
  const guest = await createUser(database.db, { name: 'Old Account' });
  const token = await invite(owner, guest.email);
  await post(await signIn(service.url, guest.email), '/dashboard/join', { invitation: token });
  const added = await createUser(database.db, { name: 'Added One' });
  await operator('PUT', `/organizations/${slug}/members/${added.email}`, { role: 'member' });
  // The guest's membership in another Organization does not affect this one.
  await operator('PUT', `/organizations/${other.organization.slug}/members/${guest.email}`, {
    role: 'member',
  });
  const demo = await createUser(database.db, { name: 'Demo One' });
  await inChange(database.db, (tx) =>
    putMember(
      tx,
      slug,
      demo.email,
      { role: 'member' },
      {
        actor: 'system',
        at: new Date(service.clock.now()),
        ip: undefined,
        requestId: undefined,
      },
    ),
  );

  const made = await readRow(owner, 'New Account');
  expect(made.cell).toBe(`Invited by ${team.owner.name}`);
  const invitedAt = formatTime(new Date(service.clock.now() - 86_400_000));
  expect(made.fact).toContain(`Invited by ${team.owner.name}, ${invitedAt.slice(0, 11)}`);
  expect(made.fact).toContain('The account was created with the invitation.');
  expect((await readRow(owner, 'Old Account')).fact).toContain('The account already existed.');
  expect(await readRow(owner, 'Added One')).toMatchObject({
    cell: 'Added by the operator',
    fact: 'Added by the operator',
  });
  expect(await readRow(owner, 'Demo One')).toMatchObject({ cell: 'Created with the demo' });
  expect(await readRow(owner, team.admin.name)).toMatchObject({ cell: 'Not recorded' });

  // For a person who has rejoined, the list shows the origin of their latest membership.
  service.clock.advance(1_000);
  await remove(owner, (await readRow(owner, 'New Account')).id);
  const { rows } = (await database.db.orm.execute("select email from users where name = 'New Account'")) as {
    rows: { email: string }[];
  };
  await operator('PUT', `/organizations/${slug}/members/${rows[0]!.email}`, { role: 'member' });
  expect(await readRow(owner, 'New Account')).toMatchObject({ cell: 'Added by the operator' });
});
