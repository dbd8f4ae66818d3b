import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { auditExportJobs, exportHeads } from '../../../src/accounts/audit/export-heads.js';
import { verifyChains, type ChainReport } from '../../../src/accounts/audit/verify.js';
import { operatorToken, unique } from '../../support/operator.js';
import { Browser, createUser } from '../../support/accounts.js';
import { inChange } from '../../support/change.js';
import { giveSecondFactor } from '../../support/second-factor.js';
import { recordOperatorAudit } from '../../../src/accounts/audit/audit.js';
import { useService } from '../../support/use.js';
import { operatorLogOf } from '../../support/audit.js';

const named = 'a-token-of-billing-0123456789abcdef';
const exchanged = 'the-next-one-of-billing-0123456789ab';

const { database, service } = useService({
  env: { TRUST_PROXY: '1', OPERATOR_TOKENS: `billing:${named},billing:${exchanged}` },
  app: { signInLimits: { firstDelayMs: 1, maxDelayMs: 1 } },
});
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gauge-heads-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
});

const logOf = (target: string) => operatorLogOf(database.db, target);

const put = (path: string, token: string, body: object) =>
  fetch(`${service.url}/operator${path}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

async function operatorReport(): Promise<ChainReport> {
  const reports = await verifyChains(database.db.orm);
  return reports.find(({ orgId }) => orgId === 'operator')!;
}

describe('the operator’s log', () => {
  it('names the token, and both tokens with the same name are valid', async () => {
    const slug = unique('product');
    for (const [i, token] of [operatorToken, named, exchanged].entries())
      expect((await put(`/products/${slug}`, token, { name: `Name ${i}`, usageMetric: 'calls' })).ok).toBe(
        true,
      );
    expect((await logOf(slug)).map(({ actor }) => actor)).toEqual([
      'operator',
      'operator:billing',
      'operator:billing',
    ]);
  });

  it('records sign-ins, sign-outs, refused codes and recovery codes', async () => {
    const user = await createUser(database.db);
    const first = new Browser(service.url);
    await first.signIn(user.email);
    await first.send('POST', '/logout');
    const app = await giveSecondFactor(database.db, user.id, service.clock);
    const browser = new Browser(service.url);
    await browser.signIn(user.email);
    const give = (code: string) => browser.send('POST', '/login/code', { form: { code } });
    await give(app.code() === '000000' ? '000001' : '000000');
    await give(await app.recoveryCode());
    await browser.send('POST', '/dashboard/account/second-factor/off', {
      form: { currentPassword: 'correct horse battery staple', code: '111111' },
    });
    expect(
      (await logOf(user.email)).map(({ action, actor, details }) => [action, actor === user.id, details]),
    ).toEqual([
      ['user.signed_in', true, { secondFactor: null }],
      ['user.signed_out', true, { sessionsEnded: 1 }],
      ['user.code_refused', true, { at: 'sign_in', tries: 1 }],
      ['user.recovery_code_used', true, { left: 9 }],
      ['user.signed_in', true, { secondFactor: 'recovery_code' }],
      ['user.code_refused', true, { at: 'confirmation' }],
    ]);
  });

  it('records an address’s first refused token and the one that exceeds the limit', async () => {
    const headers = { authorization: 'Bearer wrong', 'x-forwarded-for': '192.0.2.77' };
    for (let i = 0; i < 33; i++) await fetch(`${service.url}/operator/products`, { headers });
    const rows = (await logOf('operator')).filter(({ ip }) => ip === '192.0.2.77');
    expect(rows.map(({ action, actor, details }) => [action, actor, details])).toEqual([
      ['operator.token_refused', 'unknown', { hasToken: true, failures: 1 }],
      ['operator.token_refused', 'unknown', { hasToken: true, failures: 30 }],
    ]);
  });

  it('is an intact chain, however many writers are concurrent', async () => {
    const at = new Date('2031-03-04T05:06:07.089Z');
    const entry = { at, action: 'test.written', actor: 'system', target: 'many' };
    await Promise.all(
      Array.from({ length: 10 }, () => inChange(database.db, (tx) => recordOperatorAudit(tx, entry))),
    );
    const { seq, problems } = await operatorReport();
    expect(seq).toBeGreaterThan(10);
    expect(problems).toEqual([]);
  });
});

describe('exported heads', () => {
  it('are written to a file, which later exposes a change and is then left untouched', async () => {
    const file = join(folder, 'heads.json');
    expect(await exportHeads(database.db.orm, file)).toMatchObject({ isIntact: true });
    const { seq } = await operatorReport();
    const kept = readFileSync(file, 'utf8');
    expect(JSON.parse(kept)).toMatchObject({
      intact: true,
      organizations: expect.arrayContaining([expect.objectContaining({ organization: '(operator)', seq })]),
    });
    expect(await exportHeads(database.db.orm, file)).toMatchObject({ isIntact: true });
    await database.db.orm.execute(sql`update operator_log set actor = 'nobody' where seq = 2`);
    expect(await exportHeads(database.db.orm, file)).toMatchObject({ isIntact: false });
    expect(readFileSync(file, 'utf8')).toBe(kept);
    expect((await operatorReport()).problems).toEqual(['Row 2 does not match its hash or its number.']);
    await database.db.orm.execute(sql`delete from operator_log`);
    await database.db.orm.execute(sql`delete from operator_chain`);
    // Only the exported heads reveal that the whole log was deleted.
    expect((await operatorReport()).problems).toEqual([]);
    expect(await exportHeads(database.db.orm, file)).toMatchObject({ isIntact: false });
    rmSync(file);
  });

  it('are sent to a URL on the configured schedule, and failures are counted and thrown', async () => {
    const received: { method: string | undefined; body: string }[] = [];
    let status = 200;
    const server = createServer((req, res) => {
      let body = '';
      req.on('data', (chunk: Buffer) => (body += chunk.toString()));
      req.on('end', () => {
        received.push({ method: req.method, body });
        res.writeHead(status).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}/heads`;
    const config = { ...service.context.config, auditExport: { target, schedule: '0 7 3 * * *' } };
    const [job] = auditExportJobs({ ...service.context, config });
    expect(job!.schedule).toBe('0 7 3 * * *');
    await job!.run();
    expect(received).toHaveLength(1);
    expect(received[0]!.method).toBe('PUT');
    expect(JSON.parse(received[0]!.body)).toMatchObject({ intact: true });
    status = 500;
    await expect(job!.run()).rejects.toThrow('status 500');
    server.close();
    server.closeAllConnections();
    const text = await service.context.metrics.registry.getSingleMetricAsString('gauge_audit_exports_total');
    expect(text).toMatch(/outcome="written"} 1/);
    expect(text).toMatch(/outcome="failed"} 1/);
    expect(auditExportJobs(service.context)).toEqual([]);
  });
});
