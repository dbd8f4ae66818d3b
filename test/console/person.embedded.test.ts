import { eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { v7 as uuid } from 'uuid';
import { apiKeys } from '../../src/accounts/api-keys/table.js';
import { memberships, organizations, users } from '../../src/accounts/organizations/table.js';
import { tradingAccounts, tradingPositions } from '../../src/markets/ledger/portfolio-table.js';
import { tradingSwitches } from '../../src/markets/ledger/risk-table.js';
import { addMember, Browser, createUser } from '../support/accounts.js';
import { createTestDatabase } from '../support/database.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { signedInOperator, type TestOperator } from '../support/operators.js';
import { startTestService } from '../support/service.js';
import { useService } from '../support/use.js';
import { auditOf, operatorLogOf } from '../support/audit.js';

const { database, service } = useService();
let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(service);
});

const html = { accept: 'text/html' };
const post = (path: string, form: Record<string, string> = {}) =>
  operator.browser.send('POST', `/console/people/${path}`, { form, headers: html });
const entriesOf = (email: string) => operatorLogOf(database.db, email);
const userOf = async (id: string) => (await database.db.orm.select().from(users).where(eq(users.id, id)))[0];

describe('a person', () => {
  it('is renamed and keeps their password and sessions', async () => {
    const { id, email } = await createUser(database.db);
    const browser = new Browser(service.url);
    await browser.signIn(email);
    const before = await userOf(id);
    const { status, headers } = await post(id, { name: '  Zoë <b> ' });
    expect([status, headers.get('location')]).toEqual([303, `/console/people/${id}?done=renamed`]);
    expect(await userOf(id)).toEqual({ ...before, name: 'Zoë <b>' });
    expect((await browser.get('/dashboard/account', html)).status).toBe(200);
    const shown = (await operator.browser.get(`/console/people/${id}`, html)).text;
    expect(shown).toMatch(/<h2 id="sessions">Sign-ins.*data-label="Address"/s);
    expect((await entriesOf(email)).at(-1)).toMatchObject({
      action: 'user.changed',
      actor: `operator:${operator.email}`,
    });
    for (const name of ['', '   ', 'x'.repeat(201), 'a\u0000b'])
      expect([name, (await post(id, { name })).status]).toEqual([name, 400]);
    const page = await operator.browser.get(`/console/people/${id}`, html);
    expect(page.text).not.toContain('<b>');
  });

  it('is signed out everywhere', async () => {
    const { id, email } = await createUser(database.db);
    const browser = new Browser(service.url);
    await browser.signIn(email);
    const page = await operator.browser.get(`/console/people/${id}/sign-out`, html);
    expect([page.status, page.text.includes(email)]).toEqual([200, true]);
    expect((await post(`${id}/sign-out`)).status).toBe(303);
    expect((await browser.get('/dashboard/account', html)).status).toBe(303);
    const again = await post(`${id}/sign-out`);
    expect([again.status, again.text.includes('has no session')]).toEqual([404, true]);
    expect((await entriesOf(email)).at(-1)).toMatchObject({
      action: 'user.signed_out',
      actor: `operator:${operator.email}`,
    });
  });

  it('loses their second factor', async () => {
    const { browser, id, email } = await signedInOperator(service);
    expect((await post(`${id}/second-factor`)).status).toBe(303);
    expect((await browser.get('/dashboard/account', html)).status).toBe(303);
    expect((await entriesOf(email)).at(-1)).toMatchObject({ action: 'user.second_factor_removed' });
    expect((await post(`${id}/second-factor`)).status).toBe(404);
  });

  it('is deleted with memberships and sessions, while their keys stay', async () => {
    const organization = await createOrganization(database.db);
    const { id, email } = await createUser(database.db);
    await addMember(database.db, organization.id, id, 'owner');
    const key = await createKey(database.db, organization.id);
    await database.db.orm.update(apiKeys).set({ createdBy: id }).where(eq(apiKeys.id, key.id));
    const { status, headers } = await post(`${id}/delete`);
    expect([status, headers.get('location')]).toEqual([303, '/console/people?done=deleted']);
    expect(await userOf(id)).toBeUndefined();
    expect(await database.db.orm.$count(memberships, eq(memberships.userId, id))).toBe(0);
    const [row] = await database.db.orm.select().from(apiKeys).where(eq(apiKeys.id, key.id));
    expect(row).toMatchObject({ createdBy: null, revokedAt: null });
    const [entry] = await auditOf(database.db, organization.id);
    expect(entry).toMatchObject({
      action: 'member.removed',
      target: email,
      actor: `operator:${operator.email}`,
    });
    expect((await post(`${id}/delete`)).status).toBe(404);
    for (const unknown of [uuid(), 'x', '%E2%80%AE'])
      expect([unknown, (await post(`${unknown}/delete`)).status]).toEqual([unknown, 404]);
  });
});

describe('the only operator', () => {
  it('cannot delete their own account', async () => {
    const only = await createTestDatabase();
    const alone = await startTestService(only.db);
    const { browser, id } = await signedInOperator(alone);
    const refused = await browser.send('POST', `/console/people/${id}/delete`, { form: {}, headers: html });
    expect([refused.status, refused.text.includes('the only operator')]).toEqual([400, true]);
    expect((await browser.get('/console', html)).status).toBe(200);
    await alone.stop();
    await only.remove();
  });
});

describe('trading of customers', () => {
  const see = async (path: string) => (await operator.browser.get(path, html)).text;

  it('lists who trades, with the switch, open orders and the cost of positions', async () => {
    const { id, slug } = await createOrganization(database.db);
    const account = { orgId: id, mode: 'paper' as const };
    const at = new Date(service.clock.now());
    await database.db.orm.insert(tradingAccounts).values({ ...account, cash: 5_000_000n, openedAt: at });
    const position = {
      ticker: 'T-1',
      eventTicker: 'T',
      side: 'yes' as const,
      contracts: 3,
      cost: 1_230_000n,
    };
    const times = { realised: 0n, fees: 0n, openedAt: at, updatedAt: at };
    await database.db.orm.insert(tradingPositions).values({ ...account, ...position, ...times });
    await database.db.orm.insert(tradingSwitches).values({ orgId: id, operatorState: 'halt' });
    const row = (await see('/console/trading')).split(`/customers/${slug}/trading"`)[1]?.split('</tr>')[0];
    expect(row?.replaceAll(/<[^>]*>|\s+/g, ' ')).toMatch(
      /Paper +Halted +0 of 20 +\$1\.23 +\$1\.23 of \$500\.00 +\$0\.00/,
    );
    await database.db.orm.update(organizations).set({ marketAccess: 'none' }).where(eq(organizations.id, id));
    expect(await see('/console/trading')).not.toContain(`/customers/${slug}/trading"`);
  });

  it('offers access to a customer without it, with the switch and the limits folded', async () => {
    const { id, slug } = await createOrganization(database.db);
    await database.db.orm.update(organizations).set({ marketAccess: 'none' }).where(eq(organizations.id, id));
    const text = await see(`/console/customers/${slug}/trading`);
    expect(text).toMatch(
      /No market access[^]*settings#field-marketAccess">Give access[^]*<details class="stack">/,
    );
    expect(await see(`/console/customers/${slug}/settings`)).toContain('id="field-marketAccess"');
    const { slug: trader } = await createOrganization(database.db);
    expect(await see(`/console/customers/${trader}/trading`)).not.toContain('<details class="stack"');
  });
});

describe('the switch of the whole service', () => {
  const set = (form: Record<string, string>) =>
    operator.browser.send('POST', '/console/trading/switch', { form, headers: html });

  it('is set with a reason and a name, and opened again', async () => {
    const see = async (path: string) => (await operator.browser.get(path, html)).text;
    const open = await see('/console/trading');
    expect(open).toMatch(/data-tone="good">Trading</);
    expect(open).toContain('class="button danger" href="/console/trading/switch?state=halt"');
    const asked = await see('/console/trading/switch?state=halt');
    expect(asked).toContain('Halt trading for all customers?');
    expect(asked).toContain('<button class="button danger">Halt trading</button>');
    expect((await set({ state: 'halt' })).text).toContain('unless the state is open');
    expect((await set({ state: 'x', reason: 'y' })).status).toBe(400);
    const halted = await set({ state: 'halt', reason: 'Unexplained <b> fills.' });
    expect([halted.status, halted.headers.get('location')]).toEqual([303, '/console/trading?done=switch']);
    const page = await operator.browser.get('/console/trading', html);
    expect(page.text).toContain('Unexplained &lt;b&gt; fills.');
    expect(page.text).toMatch(/data-tone="bad">Halted</);
    expect(page.text).toContain('No customer trades live on this server.');
    const [entry] = await entriesOf('service');
    expect(entry).toMatchObject({ action: 'trading_switch.changed', actor: `operator:${operator.email}` });
    const log = await operator.browser.get('/console/audit-log', html);
    expect(log.text).toContain('whole service&#39;s');
    expect((await set({ state: 'open' })).status).toBe(303);
    expect(await entriesOf('service')).toHaveLength(2);
    expect((await set({ state: 'open' })).status).toBe(303);
    expect(await entriesOf('service')).toHaveLength(2);
  });

  it('is shown beside the live account, which this service does not have', async () => {
    for (const send of [
      operator.browser.get('/console/trading/reconciliation', html),
      operator.browser.send('POST', '/console/trading/reconciliation', {
        form: { accept: 'yes' },
        headers: html,
      }),
    ])
      expect((await send).status).toBe(404);
  });
});
