import { parse } from 'csv-parse/sync';
import { sql } from 'drizzle-orm';
import { beforeEach, describe, expect, it } from 'vitest';
import { recordAudit, type AuditEntry } from '../../src/accounts/audit/audit.js';
import { genesisHash, hashRow } from '../../src/accounts/audit/chain.js';
import { operators } from '../../src/accounts/identity/table.js';
import { plans } from '../../src/metering/plans/table.js';
import { memberships, users } from '../../src/accounts/organizations/table.js';
import { addMember, createUser, signedIn } from '../support/accounts.js';
import { inChange } from '../support/change.js';
import { writeRows, writeRowsAtOnce } from '../accounts/audit/support.js';
import { useService } from '../support/use.js';
import { auditOf } from '../support/audit.js';
import { auditWording } from '../../src/metering/dashboard/audit-wording.js';

const PAGE = '/dashboard/audit-log';
const CSV = '/dashboard/audit-log.csv';

const { database, service } = useService();
let owner: Awaited<ReturnType<typeof signedIn>>;
beforeEach(async () => {
  owner = await signedIn(database.db, service.url);
});

const write = (entry: Partial<AuditEntry>, orgId = owner.organization.id) =>
  inChange(database.db, (tx) =>
    recordAudit(tx, orgId, {
      at: new Date(service.clock.now()),
      action: 'test.written',
      actor: 'system',
      target: 'x',
      ...entry,
    }),
  );

const page = async (query = '', browser = owner.browser) => {
  const answer = await browser.get(`${PAGE}${query}`, { accept: 'text/html' });
  return { ...answer, ...readPage(answer.text) };
};

/** Returns the HTML of a page's `<main>` element, and its table rows, links and text. */
function readPage(html: string) {
  const main = /<main[^]*<\/main>/.exec(html)?.[0] ?? '';
  const body = /<tbody[^]*<\/tbody>/.exec(main)?.[0] ?? '';
  const rows = [...body.matchAll(/<tr[^]*?<\/tr>/g)].map(([row]) => toText(row));
  const links = [...main.matchAll(/href="([^"]*)"/g)].map(([, href]) => href!.replaceAll('&amp;', '&'));
  return { main, rows, links, reading: toText(main) };
}

const toText = (html: string): string =>
  html
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&#34;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');

const readCsv = async (query = '', browser = owner.browser) => {
  const answer = await browser.get(`${CSV}${query}`);
  const records: Record<string, string>[] = parse(answer.text, { columns: true, record_delimiter: '\r\n' });
  return { ...answer, records };
};

describe('the audit log', () => {
  it.each([
    ['owner', true],
    ['admin', true],
    ['member', false],
    ['billing', false],
  ] as const)('has a link to itself for the role %s: %s', async (role, hasLink) => {
    const { browser } = await signedIn(database.db, service.url, role);
    const { text } = await page('', browser);
    expect(text.includes(`href="${PAGE}"`)).toBe(hasLink);
  });

  it('never contains another Organization’s rows, nor its people and actions in the filters', async () => {
    const other = await signedIn(database.db, service.url);
    await write({ action: 'other.secret', actor: other.user.id, target: 'theirs' }, other.organization.id);
    await write({ target: 'ours' });
    expect((await page()).main).toMatch(/<time [^>]* data-zoned>/);
    const theirs = (await auditOf(database.db, other.organization.id))[0]!;
    const cursor = Buffer.from(theirs.id.replaceAll('-', ''), 'hex').toString('base64url');
    for (const query of ['', '?action=other.secret', `?actor=${other.user.id}`, `?cursor=${cursor}`]) {
      const { status, text } = await page(query);
      expect(status).toBe(200);
      expect(text).not.toContain('theirs');
      // The page echoes an entered id or action but reveals nothing about it.
      if (!query.startsWith('?a')) expect(text).not.toContain('other.secret');
      expect(text).not.toContain(other.user.email);
      expect((await readCsv(query)).text).not.toContain('theirs');
    }
  });
});

describe('an entry', () => {
  it('says who did what, when, from where, and what the value was before', async () => {
    const { user } = owner;
    await write({
      action: 'member.role_changed',
      actor: user.id,
      target: 'ben@example.com',
      details: { before: { role: 'member' }, after: { role: 'admin' } },
      ip: '192.0.2.77',
      requestId: 'request-77',
    });
    const { rows, links, main } = await page();
    expect(rows).toHaveLength(1);
    expect(main).toContain('Orders are under <a href="/dashboard/portfolio">');
    const [row] = rows;
    for (const words of [
      user.name,
      user.email,
      'Changed the role of ben@example.com from member to admin',
      'Role member → became admin',
      'member.role_changed',
      '192.0.2.77',
      'request-77',
      'No. 1,',
    ])
      expect(row).toContain(words);
    expect(row).toContain(new Date(service.clock.now()).toISOString().slice(0, 19).replace('T', ' '));
    expect(links).toContain('/dashboard/members');
    await write({ actor: user.id, details: { url: 'https://example.com' } });
    const grouped = await page();
    expect(grouped.rows[0]).toContain('URL https://example.com');
    expect(grouped.main).toMatch(
      new RegExp(`class="same".*<span class="quiet"><time.*<bdi class="quiet">${user.name}<`, 's'),
    );
    expect(links).toContain(`${PAGE}?actor=${user.id}`);
  });

  it('lists only what changed, field by field', async () => {
    const plan = (amount: number, thresholds: number[]) => ({
      name: 'Growth',
      definition: {
        grants: [{ key: 'credits', amount, every: 'month' }],
        entitlements: [{ productSlug: 'api', thresholds }],
      },
    });
    const details = { before: plan(1000, [80]), after: plan(1500, [80, 95]) };
    await write({ action: 'plan.changed', target: 'growth', details });
    const [row] = (await page()).rows;
    expect(row).toContain('Definition, grants, credits, amount 1000 → became 1500');
    expect(row).toContain('Definition, entitlements, api, thresholds 80 → became 80, 95');
    expect(row).not.toMatch(/Name Growth|every|\{/);
  });

  it('of a key links to the key', async () => {
    const { body } = await owner.browser.send('POST', '/dashboard/api-keys', {
      json: { name: 'Läufer', livemode: false },
    });
    const path = `/dashboard/api-keys/${body.apiKey.id}`;
    const rotated = await owner.browser.send('POST', `${path}/rotate`, { json: { graceMinutes: 1 } });
    await owner.browser.send('DELETE', path);
    const { rows, links } = await page();
    expect(rows[0]).toContain('Revoked the test API key Läufer');
    expect(rows[1]).toContain('Rotated the test API key Läufer , with a grace period of 1 minute');
    expect(rows[2]).toContain('Created the test API key Läufer');
    expect(links).toEqual(
      expect.arrayContaining([path, `/dashboard/api-keys/${rotated.body.apiKey.id as string}`]),
    );
  });

  it.each([
    ['entitlement.granted', { after: { kind: 'read_only' } }, 'Granted read-only access to target'],
    [
      'entitlement.changed',
      { before: { endsAt: null }, after: { endsAt: '2031-01-02T00:00:00.000Z' } },
      'Changed the entitlement to target : end none → 2 Jan 2031',
    ],
    [
      'entitlement.changed',
      { before: {}, after: { thresholds: '50, 250', unitCap: null } },
      'Changed the entitlement to target : cap the product’s → none, thresholds 50, 80, 100 → 50, 250',
    ],
    ['entitlement.withdrawn', { before: { kind: 'live' } }, 'Withdrew the entitlement to target'],
    ['invitation.revoked', { role: 'member' }, 'Revoked the invitation of target'],
    ['member.added', { after: { role: 'billing' } }, 'Added target as billing'],
    ['member.invited', { role: 'admin' }, 'Invited target as admin'],
    ['member.joined', { after: { role: 'admin' } }, 'target accepted an invitation as admin'],
    ['member.removed', { before: { role: 'admin' } }, 'Removed target'],
    ['member.removed', { userRemoved: true }, 'Removed target , whose account was removed'],
    ['organization.created', { after: { name: 'A' } }, 'Created the Organization A'],
    [
      'organization.updated',
      { before: { name: 'A' }, after: { name: 'B' } },
      'Renamed the Organization from A to B',
    ],
    [
      'organization.updated',
      { before: { marketAccess: 'trade' }, after: { marketAccess: 'read' } },
      'Set market access to reduce only',
    ],
    [
      'organization.updated',
      {
        before: { name: 'A', marketAccess: 'trade', requireSecondFactor: 'no' },
        after: { name: 'B', marketAccess: 'none', requireSecondFactor: 'yes' },
      },
      'Renamed the Organization from A to B , and required a second factor for every member, and set market access to none',
    ],
    [
      'usage.totals_repaired',
      { totals: { rows: 1 }, hours: { rows: 2 } },
      'Set 1 total and 2 hours of usage',
    ],
    ['usage.stripe_decided', { state: 'sent' }, 'Marked the Stripe meter event target as received'],
    ['usage.stripe_decided', { state: 'missing' }, 'Marked the Stripe meter event target as missing'],
    [
      'organization.updated',
      { before: { stripeCustomerId: null }, after: { stripeCustomerId: 'cus_1' } },
      'Set the Stripe customer',
    ],
    ['usage.archived', { livemode: true, events: 1200 }, 'Archived live 1,200 events of target'],
    ['trading_limits.declared', { after: { maxOpenOrders: '5' } }, 'Set the risk limits'],
    ['trading_limits.withdrawn', {}, 'Removed the risk limits : the defaults apply'],
    [
      'trading_switch.changed',
      { after: { state: 'reduce_only', reason: 'bad fills' } },
      "Set the operator's trading switch to reduce only: bad fills",
    ],
    ['thing.never_seen', { any: [{}] }, 'Thing never seen : target'],
    [
      'thing.never_seen',
      { any: [{ a: 1, b: [2, 3] }, {}], none: [] },
      'Any, 1, a 1 Any, 1, b 2, 3 Any, 2 none None none',
    ],
    [
      'usage.corrected',
      { corrections: 1, changes: [{ before: '17', after: '16', reason: 'Sent twice', livemode: true }] },
      'Corrected the event target : 17 → 16 Details of entry',
    ],
    [
      'usage.corrected',
      { changes: [{ before: '17', after: '16', reason: 'Sent twice' }] },
      'Change 17 → became 16 Reason Sent twice',
    ],
    [
      'plan.created',
      {
        after: {
          definition:
            '{"grants":[{"key":"credits","amount":1000.10,"rollover":{"for":"P30D","percent":50}}],"entitlements":[{"productSlug":"api","limits":[{"quantity":5,"window":"calendar_day"}]}]}',
        },
      },
      'Definition, grants, credits, rollover 50% for 30 days Definition, entitlements, api, product slug api Definition, entitlements, api, limits, 1 quantity 5, window calendar_day',
    ],
    ['credits.granted', { after: { rollover: { for: 'P7D', percent: 5 } } }, 'Rollover 5% for 7 days'],
    ['api_key.created', { name: 5, livemode: null }, 'Created the API key target'],
    ['member.role_changed', {}, 'Changed the role of target'],
    ['constructor', { __proto__: null }, 'Constructor : target'],
  ])('%s %j reads well', async (action, details, words) => {
    await write({ action, details, target: 'target' });
    const { rows } = await page();
    expect(rows[0]).toContain(words);
    expect(rows[0]).toContain(action);
  });

  it('of a correction leads to the event, or to usage if there were several', async () => {
    const correct = (target: string, corrections: number, livemode: boolean) => {
      const details = { corrections, changes: [{ before: '17', after: '16', livemode }] };
      return auditWording.sentences['usage.corrected']!({
        action: 'usage.corrected',
        target,
        details,
      } as never);
    };
    expect(correct('req_1', 1, true)).toContainEqual({
      name: 'req_1',
      href: '/dashboard/usage?mode=live&event=req_1',
    });
    expect(correct('req_1', 1, false)).toContainEqual({
      name: 'req_1',
      href: '/dashboard/usage?mode=test&event=req_1',
    });
    expect(correct('3 events', 3, true)).toContainEqual({ name: '3 events', href: '/dashboard/usage' });
  });

  it('of a plan’s grant names the plan, not the key that the service made', async () => {
    const target = 'plan:credits:2026-11-24T15:36:01.759Z';
    const at = new Date();
    await database.db.orm
      .insert(plans)
      .values({ slug: 'team', name: 'Team for 2', version: 1, createdAt: at, updatedAt: at });
    await write({
      action: 'credits.granted',
      details: { after: { amount: '5', plan: 'team' }, livemode: true },
      target,
    });
    await write({
      action: 'entitlement.changed',
      target: 'api',
      details: { before: { plan: 'team' }, after: {} },
    });
    const { rows } = await page();
    expect(rows[0]).toContain('Changed the entitlement to api : set by the plan Team for 2 → by hand');
    expect(rows[1]).toContain('Granted 5 live credits by the plan Team for 2');
  });

  it('names the operator, the service, former members and deleted people', async () => {
    const [left, gone] = [await createUser(database.db), await createUser(database.db)];
    for (const { id } of [left, gone]) await addMember(database.db, owner.organization.id, id, 'admin');
    const operator = await createUser(database.db, { name: 'Olivia Berg' });
    await database.db.orm.insert(operators).values({ userId: operator.id, createdAt: new Date() });
    for (const actor of [`operator:${operator.email}`, `operator:${left.email}`]) await write({ actor });
    for (const actor of [left.id, gone.id, 'operator', 'system']) await write({ actor });
    await database.db.orm.delete(memberships).where(sql`user_id in (${left.id}, ${gone.id})`);
    await database.db.orm.delete(users).where(sql`id = ${gone.id}`);
    const { rows } = await page();
    expect(rows[0]).toContain('The service automatically');
    expect(rows[1]).toContain('The operator runs this service');
    expect(rows[2]).toContain(`A former member account removed, id ${gone.id}`);
    expect(rows[3]).toMatch(new RegExp(`${left.name} former member .*By ${left.email}`));
    // Only current operators are shown by name.
    expect(rows[4]).toContain(`The operator (${left.email}) runs this service`);
    expect(rows[5]).toMatch(new RegExp(`Olivia Berg operator .*By ${operator.email}`));
    const inFile = (await readCsv()).records.map(({ actorName }) => actorName);
    expect(inFile).toContain(`The operator (${operator.email})`);
  });

  it.each([
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    'שלום ‮evil',
    '😀'.repeat(100),
    '=1+1',
    "&lt;'",
  ])('with %j in it shows it as text', async (hostile) => {
    await write({
      action: 'api_key.created',
      actor: hostile,
      target: hostile,
      details: {
        name: hostile,
        [hostile]: hostile,
        before: { [hostile]: hostile },
        nested: { [hostile]: 1 },
      },
      ip: hostile,
      requestId: hostile,
    });
    const { main, status } = await page();
    expect(status).toBe(200);
    expect(main).not.toMatch(/<script|<img/);
    expect(toText(main)).toContain(`API key ${hostile}`);
    const { records } = await readCsv();
    for (const name of ['actor', 'target', 'ip', 'requestId'])
      expect(records[0]![name]).toBe(hostile.startsWith('=') ? `'${hostile}` : hostile);
  });
});

describe('filters', () => {
  const days = ['2031-01-01T00:00:00.000Z', '2031-01-01T23:59:59.999Z', '2031-01-02T00:00:00.000Z'];
  const targets = async (query: string) => (await readCsv(query)).records.map(({ target }) => target);
  beforeEach(async () => {
    for (const [i, at] of days.entries()) {
      await write({ at: new Date(at), action: 'a.one', actor: owner.user.id, target: `one ${i}` });
      await write({ at: new Date(at), action: 'a.two', actor: 'operator', target: `two ${i}` });
    }
  });

  it.each([
    ['?action=a.one', ['one 2', 'one 1', 'one 0']],
    ['?actor=operator', ['two 2', 'two 1', 'two 0']],
    ['?actor=operator&action=a.one', []],
    ['?from=2031-01-02', ['two 2', 'one 2']],
    ['?to=2031-01-01', ['two 1', 'one 1', 'two 0', 'one 0']],
    ['?from=2031-01-01&to=2031-01-01&action=a.two&actor=operator', ['two 1', 'two 0']],
    ['?from=2031-01-03', []],
    ['?from=2000-01-01&to=2099-12-31&action=a.one', ['one 2', 'one 1', 'one 0']],
    ['?action=&actor=&from=&to=', ['two 2', 'one 2', 'two 1', 'one 1', 'two 0', 'one 0']],
  ])('%s', async (query, expected) => {
    expect(await targets(query)).toEqual(expected);
    const { rows } = await page(query);
    expect(rows).toHaveLength(expected.length);
    for (const [i, target] of expected.entries()) expect(rows[i]).toContain(target);
  });

  it('offer the values that occur, keep the selection, and carry over to the export', async () => {
    const { main, links } = await page('?action=a.one&from=2031-01-02');
    expect(main).toMatch(/<option value="a.one" selected>\s*A one\s*<\/option>/);
    expect(main).toContain('<option value="a.two">');
    expect(main).toContain(`${owner.user.name} (${owner.user.email})`);
    expect(main).toContain('The operator (runs this service)');
    expect(main).toMatch(/name="from" type="text" value="2 Jan 2031"/);
    expect(links).toContain(`${CSV}?action=a.one&from=2031-01-02`);
    expect(links).toContain(`${PAGE}?action=a.one&from=2031-01-02&actor=${owner.user.id}`);
  });

  it('find an object by any part of its id or of a value in the details, and nothing else', async () => {
    const key = '01935a3f-8f00-7c3e-9d2a-4b5c6d7e8f90';
    await write({ target: key, details: { after: { name: 'Edge 100% Proxy', scopes: ['usage:write'] } } });
    const other = await signedIn(database.db, service.url);
    await write({ target: 'edge of another' }, other.organization.id);
    for (const object of [key, '4b5c6d7e', 'edge 100%', 'PROXY', 'usage:write'])
      expect(await targets(`?object=${encodeURIComponent(object)}`), object).toEqual([key]);
    // Neither field names nor wildcards match.
    for (const object of ['scopes', '%', '_', 'edge of', "' or 1=1", '<script>']) {
      const found = await targets(`?object=${encodeURIComponent(object)}`);
      expect(found, object).toEqual(object === '%' ? [key] : []);
    }
    expect(await targets('?object=one&from=2031-01-02')).toEqual(['one 2']);
    const { links } = await page(`?object=${key}`);
    expect(links).toContain(`${CSV}?object=${key}`);
    expect(links).toContain(`${PAGE}?object=${key}`);
  });

  it('search a long log in bounded steps', async () => {
    await writeRowsAtOnce(database.db, owner.organization.id, 5_100);
    const first = await page('?object=one%200');
    expect(first.reading).toContain('No entries found so far');
    const next = first.links.find((href) => href.includes('cursor='))!;
    const second = await page(next.slice(PAGE.length));
    expect(second.rows).toHaveLength(1);
    expect(await targets('?object=one%200')).toEqual(['one 0']);
  });

  it('without results say so and link back', async () => {
    const { status, reading, links } = await page('?action=a.three');
    expect(status).toBe(200);
    expect(reading).toContain('No entries match');
    expect(links).toContain(PAGE);
  });

  it.each([
    ['?from=31+Feb+2031', 'February has only 28 days.'],
    ['?from=2031-02-30', 'February has only 28 days'],
    ['?to=tomorrow', 'Must be a date'],
    ['?from=2031-01-02&to=2031-01-01', 'Must not be before the first day'],
    [`?action=${'a'.repeat(300)}`, '1 to 100 characters'],
    ['?actor=%00', 'without control characters'],
  ])('%s: the error is shown beside its field', async (query, words) => {
    const { status, reading, main } = await page(query);
    expect(status).toBe(400);
    expect(reading).toContain(words);
    expect(main).toContain('aria-invalid="true"');
    for (const day of ['31 Feb 2031', '2031-02-30', 'tomorrow'])
      expect(main.includes(`value="${day}"`)).toBe(query.includes(day.replaceAll(' ', '+')));
    expect((await owner.browser.get(`${CSV}${query}`)).body).toMatchObject({ code: 'invalid_request' });
  });

  it.each(['?cursor=x', '?cursor=%00', '?action=a&action=b', '?cursor=a&cursor=b'])(
    '%s is refused',
    async (query) => {
      expect((await page(query)).status).toBe(400);
      expect((await owner.browser.get(`${CSV}${query}`)).status).toBe(400);
    },
  );
});

it('a log without entries says what it will contain', async () => {
  const { reading } = await page();
  expect(reading).toContain('No changes yet');
  expect((await readCsv()).text.split('\r\n')).toHaveLength(2);
});

describe('the hash chain', () => {
  const holds = /The hash chain (?:holds|is broken)[^.]*\./;
  const chainOf = async (query = '') => holds.exec((await page(query)).reading)?.[0];

  it('is checked in bounded steps, and the page names the entries', async () => {
    await writeRowsAtOnce(database.db, owner.organization.id, 3);
    expect(await chainOf()).toBe('The hash chain holds for all 3 entries.');
    await writeRowsAtOnce(database.db, owner.organization.id, 2_697);
    const newest = await page();
    expect(newest.reading).toContain('The hash chain holds for entries 2,201 to 2,700 of 2,700.');
    expect(newest.reading).toContain('Check the 2,000 before');
    expect(newest.links).toContain(`${PAGE}?upTo=2200`);
    expect(await chainOf('?upTo=2200')).toBe('The hash chain holds for entries 201 to 2,200 of 2,700.');
    expect(await chainOf('?upTo=200')).toBe('The hash chain holds for entries 1 to 200 of 2,700.');
    expect(await chainOf('?upTo=1')).toBe('The hash chain holds for entry 1 of 2,700.');
    for (const upTo of ['0', '-1', 'x', "1' or 1=1", '1e3', '9'.repeat(40)])
      expect(await chainOf(`?upTo=${encodeURIComponent(upTo)}`), upTo).toContain('2,201 to 2,700');
    expect(await chainOf('?upTo=999999')).toContain('701 to 2,700');
    expect(await chainOf('?actor=system')).toBeUndefined();
  });

  it.each([
    ['changed', 4, sql`update audit_log set details = '{"a": 1}' where seq = 4 and org_id = `],
    ['removed', 4, sql`delete from audit_log where seq = 4 and org_id = `],
    ['removed at the end', 6, sql`delete from audit_log where seq = 6 and org_id = `],
    ['removed at the beginning', 1, sql`delete from audit_log where seq = 1 and org_id = `],
    ['ended early', 6, sql`update audit_chains set hash = ${'0'.repeat(64)} where org_id = `],
  ])('with an entry %s is broken', async (_, seq, damage) => {
    const { id } = owner.organization;
    await writeRowsAtOnce(database.db, id, 6);
    await database.db.orm.execute(sql`${damage}${id}`);
    expect(await chainOf()).toBe(`The hash chain is broken at entry ${seq}.`);
  });
});

it('120 rows page without gaps or repeats, even while more are written', async () => {
  await writeRowsAtOnce(database.db, owner.organization.id, 120);
  const found: string[] = [];
  let query: string | undefined = '';
  let pages = 0;
  while (query !== undefined) {
    const { rows, links } = await page(query);
    pages++;
    found.push(...rows.map((row) => /target \d+/.exec(row)![0]));
    expect(links.includes(PAGE)).toBe(pages > 1);
    query = links.find((href) => href.includes('cursor='))?.slice(PAGE.length);
    await writeRows(database.db, owner.organization.id, 1, { at: new Date('2050-01-01'), target: 'later' });
  }
  expect(pages).toBe(3);
  expect(found).toEqual(Array.from({ length: 120 }, (_, i) => `target ${120 - i}`));
});

describe('the file', () => {
  it('contains every row, in batches, and enough to recompute the hashes', async () => {
    const { id, slug } = owner.organization;
    const details = { before: { name: 'a, "b"\n' }, list: [1, null] };
    await writeRows(database.db, id, 3, { details, ip: '2001:db8::1', actor: owner.user.id });
    await writeRowsAtOnce(database.db, id, 1_100, { action: 'a.b', target: '=x' });
    const { records, headers } = await readCsv();
    expect(headers.get('content-type')).toMatch(/^text\/csv/);
    expect(headers.get('content-disposition')).toMatch(
      new RegExp(`^attachment; filename="audit-log-${slug}-.*\\.csv"$`),
    );
    expect(records).toHaveLength(1_103);
    expect(records.every(({ target }) => target!.startsWith('target') || target === "'=x")).toBe(true);
    let hash = genesisHash(id);
    for (const record of records.toSorted((a, b) => Number(a.seq) - Number(b.seq))) {
      hash = hashRow(hash, {
        orgId: id,
        seq: Number(record.seq),
        id: record.id!,
        at: record.at!,
        action: record.action!,
        actor: record.actor!,
        target: record.target!.replace(/^'/, ''),
        details: JSON.parse(record.details!),
        ip: record.ip || null,
        requestId: record.requestId || null,
      });
      expect(record.hash).toBe(hash);
    }
    expect(records.find(({ seq }) => seq === '1')).toMatchObject({
      actorName: owner.user.name,
      actorEmail: owner.user.email,
    });
  });
});

it('the page reads only by index, whatever the filter', async () => {
  const { id } = owner.organization;
  await database.db.orm.execute(sql`insert into audit_log (org_id, id, at, action, actor, target, details)
    select ${id}, md5('plan' || n)::uuid, now(), 'a.' || n % 20, 'actor ' || n % 50, 'x', '{}' from generate_series(1, 20000) as n`);
  await database.db.orm.execute(sql`analyze audit_log`);
  const { listAuditRows, listDistinct } = await import('../../src/accounts/audit/queries.js');
  const plans: string[] = [];
  // Explains each statement instead of running it.
  const orm = new Proxy(database.db.orm, {
    get: (target, name) =>
      name === 'execute'
        ? async (statement: ReturnType<typeof sql>) => {
            const { rows } = (await target.execute(sql`explain ${statement}`)) as {
              rows: { 'QUERY PLAN': string }[];
            };
            plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
            return { rows: [] };
          }
        : Reflect.get(target, name),
  });
  for (const column of ['action', 'actor'] as const) await listDistinct(orm, id, column, 200);
  for (const filter of [
    {},
    { action: 'a.1' },
    { actor: 'actor 1' },
    { action: 'a.1', actor: 'actor 1' },
    { from: '2031-01-01', to: '2031-02-01' },
    { from: '2031-01-01', to: '2031-02-01', action: 'a.1' },
    { from: '2031-01-01', actor: 'actor 1', action: 'a.1' },
  ]) {
    const statement = listAuditRows(database.db.orm, id, filter, { before: id, limit: 51 });
    await orm.execute((statement as unknown as { getSQL(): ReturnType<typeof sql> }).getSQL());
  }
  expect(plans).toHaveLength(9);
  for (const plan of plans) {
    expect(plan).toMatch(/Index (Only )?Scan|Bitmap Index Scan/);
    expect(plan).not.toMatch(/Seq Scan on audit_log/);
    expect(plan).toMatch(/Index Cond/);
  }
});
