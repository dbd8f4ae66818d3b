import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { writeRows } from '../accounts/audit/support.js';
import { createOrganization } from '../support/fixtures.js';
import { maintenanceCommand } from '../support/maintenance-command.js';
import { auditOf } from '../support/audit.js';

// Each test starts processes, which is slow on a busy machine.

const { folder, run, withDatabase } = maintenanceCommand('src/commands/audit-verify');

it('--help says what a chain proves and what it does not, and a wrong flag is an error', async () => {
  const [help, wrong] = await Promise.all([run(['--help']), run(['--fix'])]);
  expect(help).toMatchObject({ code: 0, stderr: '' });
  for (const words of ['--expect', '--org', '--json', 'DATABASE_URL', 'Exit status', 'does not prove'])
    expect(help.stdout).toContain(words);
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringMatching(/unknown option '--fix'/) });
});

it('prints the heads of intact chains', async () => {
  const { organization, head } = await withDatabase(async (db) => {
    const organization = await createOrganization(db);
    await writeRows(db, organization.id, 5);
    return { organization, head: (await auditOf(db, organization.id)).at(-1)! };
  });
  const intact = await run([]);
  expect(intact).toMatchObject({ code: 0, stderr: '' });
  expect(intact.stdout).toContain(`intact  ${organization.slug}  ${organization.id}  5  ${head.hash}\n`);
  expect(intact.stdout).toMatch(/^Intact: \d+ chains?, \d+ rows\.$/m);
});

it('names the changed rows, and detects a replaced history by the heads that were kept', async () => {
  const { organization, other } = await withDatabase(async (db) => {
    const [organization, other] = [await createOrganization(db), await createOrganization(db)];
    await writeRows(db, organization.id, 5);
    await writeRows(db, other.id, 2);
    return { organization, other };
  });
  const noted = await run(['--json']);
  expect(noted.code).toBe(0);
  expect(JSON.parse(noted.stdout)).toMatchObject({
    intact: true,
    organizations: expect.arrayContaining([
      expect.objectContaining({
        organization: organization.slug,
        orgId: organization.id,
        seq: 5,
        problems: [],
      }),
      expect.objectContaining({ organization: other.slug, seq: 2 }),
    ]),
  });
  const file = join(folder, 'heads.json');
  writeFileSync(file, noted.stdout);

  await withDatabase(async (db) => {
    await db.orm.execute(
      sql`update audit_log set action = 'x' where org_id = ${organization.id} and seq = 2`,
    );
    await db.orm.execute(sql`delete from audit_log where org_id = ${other.id}`);
    await db.orm.execute(sql`delete from audit_chains where org_id = ${other.id}`);
  });
  const broken = await run(['--expect', file]);
  expect(broken).toMatchObject({ code: 1, stderr: '' });
  expect(broken.stdout).toMatch(new RegExp(`^BROKEN  ${organization.slug} `, 'm'));
  expect(broken.stdout).toMatch(/Row 2 does not match its hash/);
  expect(broken.stdout).toMatch(/Row 2 does not match the head that was kept/);
  expect(broken.stdout).toMatch(/^Broken: 2 of \d chains\.$/m);
  const json = JSON.parse((await run(['--org', organization.slug, '--json'])).stdout);
  expect(json).toMatchObject({
    intact: false,
    organizations: [{ problems: [expect.stringMatching(/^Row 2 /)] }],
  });
});

it('reports a file without heads and a missing file', async () => {
  const file = join(folder, 'none.json');
  writeFileSync(file, '{"organizations":[{}]}');
  const answers = await Promise.all([run(['--expect', file]), run(['--expect', join(folder, 'missing')])]);
  for (const [i, words] of [/is not output of this command/, /no such file/].entries())
    expect(answers[i]).toMatchObject({ code: 2, stderr: expect.stringMatching(words) });
});
