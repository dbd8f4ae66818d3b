import { eq } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { hashToken } from '../../src/accounts/identity/session/session-cookie.js';
import { operatorLog } from '../../src/accounts/audit/table.js';
import { oneTimeLinks, operators } from '../../src/accounts/identity/table.js';
import { createUser } from '../support/accounts.js';
import { maintenanceCommand } from '../support/maintenance-command.js';

// Each test starts processes, which is slow on a busy machine.

const { run, withDatabase } = maintenanceCommand('src/commands/setup-link');
const publicUrl = { PUBLIC_URL: 'https://gauge.example.com' };

const readLink = (stdout: string) => /(https?:\/\/\S+)#([\w-]{43})$/m.exec(stdout)!.slice(1);

const findStored = (token: string) =>
  withDatabase(async ({ orm }) => {
    const isThis = eq(oneTimeLinks.hashedToken, hashToken(token));
    return (await orm.select().from(oneTimeLinks).where(isThis))[0];
  });

const listAudited = () =>
  withDatabase(async ({ orm }) =>
    (await orm.select().from(operatorLog).orderBy(operatorLog.seq)).map(
      ({ action, actor, target, details }) => ({
        action,
        actor,
        target,
        details,
      }),
    ),
  );

it('--help explains the flags and the exit status, and mutually exclusive flags are an error', async () => {
  const [help, both] = await Promise.all([
    run(['--help']),
    run(['--reset-password', 'a@example.com', '--force']),
  ]);
  expect(help).toMatchObject({ code: 0, stderr: '' });
  for (const word of ['--force', '--reset-password', '--reset-second-factor', 'PUBLIC_URL', 'Exit status'])
    expect(help.stdout).toContain(word);
  expect(both).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/cannot be used with/) });
});

it('prints a link that begins with PUBLIC_URL, and refuses once there is an operator, except with --force', async () => {
  const plain = await run([]);
  expect(plain).toMatchObject({ code: 0, stderr: '' });
  const [address, earlier] = readLink(plain.stdout);
  expect(address).toBe('http://localhost:3000/set-up');
  const [publicAddress, token] = readLink((await run([], publicUrl)).stdout);
  expect(publicAddress).toBe('https://gauge.example.com/set-up');
  expect(await findStored(earlier!)).toBeUndefined();
  const stored = (await findStored(token!))!;
  expect(stored).toMatchObject({ kind: 'setup', userId: null, email: null, usedAt: null });
  expect(stored.expiresAt.getTime() - stored.createdAt.getTime()).toBe(3_600_000);

  await withDatabase(async (db) => {
    const { id } = await createUser(db);
    await db.orm.insert(operators).values({ userId: id, createdAt: new Date() });
  });
  const refused = await run([]);
  expect(refused).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/already an operator/),
  });
  expect(await listAudited()).not.toContainEqual(
    expect.objectContaining({ action: 'operator.set_up_forced' }),
  );

  const forced = await run(['--force'], publicUrl);
  expect(forced).toMatchObject({ code: 0, stderr: '' });
  expect(await findStored(readLink(forced.stdout)[1]!)).toMatchObject({ kind: 'setup', usedAt: null });
  const audited = await listAudited();
  expect(audited.slice(-2)).toMatchObject([
    { action: 'operator.set_up_forced', actor: 'system' },
    { action: 'link.created', actor: 'system', details: { kind: 'setup', hasReplaced: true } },
  ]);
  expect(JSON.stringify(audited)).not.toContain(token);
});

it.each([
  ['--reset-password', 'password_reset', ''],
  ['--reset-second-factor', 'second_factor_reset', '<script>'],
])('%s prints a link for that person, valid for a day', async (flag, kind, nobody) => {
  const user = await withDatabase((db) => createUser(db));
  const made = await run([flag, ` ${user.email.toUpperCase()}`], publicUrl);
  expect(made).toMatchObject({ code: 0, stderr: '' });
  const [address, token] = readLink(made.stdout);
  expect(address).toBe('https://gauge.example.com/reset');
  const stored = (await findStored(token!))!;
  expect(stored).toMatchObject({ kind, userId: user.id, createdBy: null, usedAt: null });
  expect(stored.expiresAt.getTime() - stored.createdAt.getTime()).toBe(24 * 3_600_000);
  expect((await listAudited()).at(-1)).toMatchObject({
    action: 'link.created',
    actor: 'system',
    target: user.email,
    details: { kind, hasReplaced: false },
  });
  expect(await run([flag, nobody])).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(/There is no user/),
  });
});
