import { eq, sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { expect, it } from 'vitest';
import { sumDecimals } from '../../../src/core/decimal.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { DAY_MS } from '../../../src/core/time.js';
import { products } from '../../../src/metering/entitlements/table.js';
import { usageArchives, usageEvents } from '../../../src/metering/ingestion/table.js';
import { addMember, createUser, Browser, openSession, signedIn } from '../../support/accounts.js';
import { createKey } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage } from '../support/usage.js';

const { database, service } = useService();
const call = operatorClient(() => service);
const html = { accept: 'text/html' };
const readText = (page: string) =>
  page
    .split('<main')[1]!
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll('&#39;', "'")
    .replaceAll(/\s+/g, ' ');

/** A customer on 20 March 2031 with a product whose large model costs 2 credits and whose others cost 0.5. */
async function scene() {
  service.clock.set('2031-03-20T12:00:00Z');
  const { db } = database;
  const { organization, user } = await signedIn(db, service.url, 'member');
  const product = await createProduct(db, {
    name: 'Tokens',
    dimensions: ['region', 'model'],
    creditPrice: '0.5',
    creditDimension: 'model',
    creditPrices: { large: '2' },
    creditEnforcement: 'warn',
  });
  await grant(db, organization.id, product.id);
  const { secret } = await createKey(db, organization.id);
  const path = `/organizations/${organization.slug}`;
  const open = async (query: string) => {
    const browser = await openSession(db, service.url, user.id, service.clock.now());
    return browser.get(`/dashboard/statement${query}`, html);
  };
  return {
    organization,
    product,
    open,
    read: async (month: string) => readText((await open(`?month=${month}`)).text),
    /** The file's rows: where they belong, the grant or value, and the credits. */
    rows: async (month: string, mode = 'live') => {
      const { status, text } = await open(`.csv?month=${month}&mode=${mode}`);
      expect(status).toBe(200);
      const [head, ...lines] = text.trimEnd().split('\r\n');
      expect(head).toBe(
        'month,mode,section,product,metric,dimension,value,price,quantity,grant_key,credits,is_final,grant_name,customer',
      );
      return lines.map((line) => {
        const cells = line.split(',').map((cell) => cell.replaceAll('"', ''));
        const [, , section, , , , value, price, quantity, grantKey, credits] = cells;
        return [section!, value || grantKey!, price!, quantity!, credits!] as const;
      });
    },
    send: async (quantity: number, model: string, occurredAt?: string) => {
      const idempotencyKey = uuid();
      const event = {
        productSlug: product.slug,
        metric: 'calls',
        quantity,
        idempotencyKey,
        dimensions: { model },
        occurredAt,
      };
      expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
      return idempotencyKey;
    },
    give: async (key: string, body: object) =>
      expect(
        (
          await call('PUT', `${path}/credits/grants/${encodeURIComponent(key)}`, {
            reason: 'Invoice',
            ...body,
          })
        ).status,
      ).toBe(201),
    void: (key: string) => call('POST', `${path}/credits/grants/${key}/void`, { reason: 'Mistake' }),
    correct: async (idempotencyKey: string, quantity: number) =>
      expect(
        (
          await call('POST', `${path}/usage/corrections`, {
            corrections: [{ idempotencyKey, quantity, reason: 'Wrong', correctionKey: uuid() }],
          })
        ).status,
      ).toBe(200),
    balance: async () => String((await call('GET', `${path}/credits`)).body.balance),
  };
}

type Scene = Awaited<ReturnType<typeof scene>>;
const creditsOf = (rows: Awaited<ReturnType<Scene['rows']>>, ...sections: string[]) =>
  rows.filter(([section]) => sections.includes(section)).map((row) => row[4]);
/** The numbers of these tests are exact in doubles. */
const sum = (credits: string[]) => credits.reduce((all, one) => all + Number(one), 0);

it('explains a month with two prices, a correction, an expiry and a late event', async () => {
  const { organization, open, rows, read, send, give, correct, product, void: forfeit } = await scene();
  await give('march', { amount: 100, expiresAt: '2031-04-01T00:00:00Z' });
  await give('never', { amount: 7, startsAt: '2031-04-05T00:00:00Z' });
  await forfeit('never');
  const key = await send(30, 'large');
  await send(10, 'small');
  await database.db.orm.update(products).set({ creditPrice: '1' }).where(eq(products.id, product.id));
  await send(4, 'small');
  const owner = await createUser(database.db);
  await addMember(database.db, organization.id, owner.id, 'owner');
  const browser = await openSession(database.db, service.url, owner.id, service.clock.now());
  const ask = async (what: string, quantity = '') => {
    const path = `/dashboard/usage?event=${key}&correct=${what}`;
    const form = { quantity, reason: 'Wrong', correctionKey: uuid() };
    const answer = await browser.send('POST', path, {
      form,
      headers: { accept: 'text/html', referer: service.url + path },
    });
    return answer.text.replaceAll(/<[^>]*>|\s+/g, ' ').replaceAll(/ +/g, ' ');
  };
  expect(await ask('void')).toMatch(
    /This event 30 calls 0 calls Its credits 60 credits 0 credits .* Credits left 31 credits 91 credits Reason Wrong Nothing has changed yet/,
  );
  expect(await ask('amend', '1')).toMatch(
    /This event 30 calls 1 call Its credits 60 credits 2 credits .* Credits left 31 credits 89 credits/,
  );
  expect(await ask('amend', '-5')).toContain('Must not be below 0.');
  expect(await ask('amend', '30')).toContain('Already 30.');
  await correct(key, 20);
  expect(await read('2031-03')).toMatch(
    /So far Closes on 13 May 2031\. API keys can add events to March 2031 before 8 Apr 2031 and correct its events before 13 May 2031\. Afterwards, only a correction by hand can change it\. .* Opening balance 0 .* Balance now 51 /,
  );
  service.clock.set('2031-04-03T08:00:00Z');
  await send(3, 'small', '2031-03-31T23:30:00Z');
  expect(await rows('2031-03')).toEqual([
    ['usage', 'large', '2', '30', '60'],
    ['usage', 'small', '1', '7', '7'],
    ['usage', 'small', '0.5', '10', '5'],
    ['correction', 'large', '2', '-10', '-20'],
    ['paid_by_grant', 'march', '', '', '52'],
    ['paid_by_overdraft', '', '', '', '0'],
    ['opening_balance', '', '', '', '0'],
    ['granted', 'march', '', '', '100'],
    ['used', '', '', '', '-52'],
    ['expired', '', '', '', '-48'],
    ['forfeited', '', '', '', '0'],
    ['forgiven', '', '', '', '0'],
    ['closing_balance', '', '', '', '0'],
  ]);
  expect(await read('2031-03')).toMatch(
    /Statement Mode Live Test Print Download CSV.* March 2031 .* Open Closes on 13 May 2031\. API keys can add events to March 2031 before 8 Apr 2031 and correct its events before 13 May 2031\. .* large 30 calls 2 per call 60 .* Correction large −10 calls 2 per call −20 Total 52 Paid by Invoice 52 Total 52 Balance Opening balance 0 Invoice 100 Usage −52 Expired −48 Closing balance 0 /,
  );
  expect((await open('?month=2031-03')).text).toContain(
    'href="/dashboard/statement?mode=live&amp;range=month&amp;month=2031-02"',
  );
});

it('lists usage that cost nothing as free', async () => {
  const { organization, product, rows, read, send, give } = await scene();
  await give('march', { amount: 100 });
  const free = await createProduct(database.db, { name: 'Map tiles' });
  await grant(database.db, organization.id, free.id);
  const { secret } = await createKey(database.db, organization.id);
  await sendUsage(service.url, secret, [
    { productSlug: free.slug, metric: 'calls', quantity: 1500, idempotencyKey: uuid() },
  ]);
  const unpriced = { creditPrice: null, creditPrices: null, creditDimension: null, creditEnforcement: null };
  await database.db.orm.update(products).set(unpriced).where(eq(products.id, product.id));
  await send(4, 'small');
  const priced = { creditPrice: '1', creditEnforcement: 'warn' as const };
  await database.db.orm.update(products).set(priced).where(eq(products.id, product.id));
  await send(3, 'small');
  const usage = (await rows('2031-03')).filter(([section]) => section === 'usage');
  expect(usage.toSorted(([, , a, m], [, , b, n]) => Number(a) - Number(b) || Number(n) - Number(m))).toEqual([
    ['usage', '', '0', '1500', '0'],
    ['usage', '', '0', '4', '0'],
    ['usage', '', '1', '3', '3'],
  ]);
  expect(await read('2031-03')).toMatch(/Map tiles 1,500 calls Free 0 .*Total 3 Paid by/);
});

it('carries an overdraft, its payment and what was forfeited from month to month', async () => {
  const { rows, send, give, balance, read, void: forfeit } = await scene();
  await give('march', { amount: 10 });
  await send(13, 'small', '2031-03-20T11:00:00Z');
  await send(6, 'large');
  expect((await rows('2031-03')).slice(-8)).toEqual([
    ['paid_by_overdraft', '', '', '', '8.5'],
    ['opening_balance', '', '', '', '0'],
    ['granted', 'march', '', '', '10'],
    ['used', '', '', '', '-18.5'],
    ['expired', '', '', '', '0'],
    ['forfeited', '', '', '', '0'],
    ['forgiven', '', '', '', '0'],
    ['closing_balance', '', '', '', '-8.5'],
  ]);
  service.clock.set('2031-05-02T08:00:00Z');
  await give('may', { amount: 20 });
  await forfeit('may');
  expect(await rows('2031-04')).toEqual([
    ['paid_by_overdraft', '', '', '', '0'],
    ['opening_balance', '', '', '', '-8.5'],
    ['used', '', '', '', '0'],
    ['expired', '', '', '', '0'],
    ['forfeited', '', '', '', '0'],
    ['forgiven', '', '', '', '0'],
    ['closing_balance', '', '', '', '-8.5'],
  ]);
  expect(await read('2031-04')).toContain('No usage cost live credits in April 2031.');
  expect((await rows('2031-05')).slice(1)).toEqual([
    ['opening_balance', '', '', '', '-8.5'],
    ['granted', 'may', '', '', '20'],
    ['used', '', '', '', '0'],
    ['expired', '', '', '', '0'],
    ['forfeited', '', '', '', '-11.5'],
    ['forgiven', '', '', '', '0'],
    ['closing_balance', '', '', '', '0'],
  ]);
  expect(await read('2031-05')).toContain('Grants paid 8.5 of earlier overdrafts');
  expect(await balance()).toBe('0');
  expect(creditsOf(await rows('2031-05', 'test'), 'closing_balance')).toEqual(['0']);
});

it('agrees with the ledger and the balance after any sequence, in every month', async () => {
  const { rows, send, give, correct, balance, organization, void: forfeit } = await scene();
  const keys: string[] = [];
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  for (let i = 0; i < 60; i += 1) {
    const now = service.clock.now();
    const what = random(10);
    if (what < 5) {
      const late = new Date(now - random(6 * 24) * 3_600_000).toISOString();
      keys.push(await send(random(40) + 1, random(2) ? 'large' : 'small', late));
    } else if (what < 7) {
      const expiresAt = new Date(now + (random(40) + 2) * DAY_MS).toISOString();
      const rollover = random(3) === 0 ? { percent: 50, for: 'P10D' } : undefined;
      await give(`grant-${i}`, { amount: random(60) + 1, expiresAt, rollover, priority: random(3) });
    } else if (what < 9 && keys.length > 0) await correct(keys[random(keys.length)]!, random(40));
    else await forfeit(`grant-${random(i + 1)}`);
    service.clock.advance((random(3) + 1) * DAY_MS);
  }
  const last = new Date(service.clock.now()).toISOString().slice(0, 7);
  let closing = '0';
  let months = 0;
  for (
    let at = new Date('2031-03-01');
    at.toISOString().slice(0, 7) <= last;
    at.setUTCMonth(at.getUTCMonth() + 1)
  ) {
    const month = at.toISOString().slice(0, 7);
    const all = await rows(month);
    const [ledger] = await selectRows<{ cost: string }>(
      database.db.orm,
      sql`select trim_scale(coalesce(sum(case kind when 'burn' then amount when 'return' then -amount end), 0))::text as cost
        from credit_entries where org_id = ${organization.id}::uuid and to_char(hour at time zone 'UTC', 'YYYY-MM') = ${month}`,
    );
    const cost = Number(ledger!.cost);
    expect(sum(creditsOf(all, 'usage', 'correction')), month).toBe(cost);
    expect(sum(creditsOf(all, 'paid_by_grant', 'paid_by_overdraft')), month).toBe(cost);
    expect(creditsOf(all, 'opening_balance'), month).toEqual([closing]);
    closing = creditsOf(all, 'closing_balance')[0]!;
    const movements = ['opening_balance', 'granted', 'used', 'expired', 'forfeited', 'forgiven'];
    expect(sum(creditsOf(all, ...movements)), month).toBe(Number(closing));
    months += 1;
  }
  expect(months).toBeGreaterThan(3);
  expect(closing).toBe(await balance());
});

it('is final once the events are archived, and then has the totals of the ledger', async () => {
  const { rows, send, give, read, organization } = await scene();
  await give('march', { amount: 100 });
  await send(3, 'large');
  service.clock.set('2031-05-02T08:00:00Z');
  expect(await read('2031-03')).toMatch(
    /Open Closes on 13 May 2031\. API keys can correct its events before 13 May 2031\. /,
  );
  service.clock.set('2031-05-14T08:00:00Z');
  expect(await read('2031-03')).toContain(
    ' Closed Since 13 May 2031, only a correction by hand can change it. ',
  );
  await database.db.orm.delete(usageEvents).where(eq(usageEvents.orgId, organization.id));
  for (let at = new Date('2030-03-01'); at < new Date('2031-04-01'); at.setUTCMonth(at.getUTCMonth() + 1))
    await database.db.orm.insert(usageArchives).values({
      orgId: organization.id,
      period: at.toISOString().slice(0, 10),
      livemode: true,
      state: 'archived',
      file: 'file',
      sha256: 'hash',
      events: 1,
      writtenAt: at,
      archivedAt: at,
    });
  expect(await read('2031-03')).toMatch(
    / Final The events up to this month are archived.* Usage whose events are archived 6 /,
  );
  expect((await rows('2031-03')).slice(0, 2)).toEqual([
    ['other', '', '', '', '6'],
    ['paid_by_grant', 'march', '', '', '6'],
  ]);
});

it('guards formulas in the file, and names grants and the customer in it', async () => {
  const { open, give, send, organization } = await scene();
  await give('=1+1', { amount: 10 });
  await send(2, '=2+2');
  const { text, headers } = await open('.csv?month=2031-03');
  expect(headers.get('content-disposition')).toContain('"statement-2031-03-live.csv"');
  expect(text).toContain(`"model","'=2+2",0.5,2,,1,"no",,"${organization.name}"`);
  expect(text).toContain(`"'=1+1",10,"no","Invoice","${organization.name}"`);
});

it.each([
  ['month=2031-04', 400, 'must not be after March 2031, the current month'],
  ['month=2019-12', 400, 'must not be before January 2020, your Organization’s first month'],
  ['month=1999-12', 400, 'must be a month like 2026-01'],
  ["month=2031-03'--", 400, 'must be a month like 2026-01'],
  ['month=2031-03&month=2031-02', 400, 'month'],
  ['month=%00', 400, 'must be a month like 2026-01'],
  ['mode=both', 400, 'must be live or test'],
])('answers ?%s with %i', async (query, status, message) => {
  const { open } = await scene();
  const page = await open(`?${query}`);
  expect([page.status, readText(page.text).toLowerCase()]).toEqual([
    status,
    expect.stringContaining(message.toLowerCase()),
  ]);
  expect((await open(`.csv?${query}`)).status).toBe(status);
});

it('belongs to one Organization, and needs a session', async () => {
  const { give, send } = await scene();
  await give('secret-key', { amount: 10 });
  await send(2, 'secret-model');
  const other = await scene();
  expect((await other.open('?month=2031-03')).text).not.toMatch(/secret-/);
  expect(sumDecimals(creditsOf(await other.rows('2031-03'), 'granted', 'usage'))).toBe('0');
  const { status, headers } = await new Browser(service.url).get('/dashboard/statement', html);
  expect([status, headers.get('location')]).toEqual([303, expect.stringContaining('/login')]);
});
