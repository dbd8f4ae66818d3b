import { eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { apiKeys } from '../../src/accounts/api-keys/table.js';
import { failedSignIns } from '../../src/accounts/identity/table.js';
import { operatorLog } from '../../src/accounts/audit/table.js';
import { organizations } from '../../src/accounts/organizations/table.js';
import { customerSummary } from '../../src/metering/console/customer-summary.js';
import { entitlements, products } from '../../src/metering/entitlements/table.js';
import { usageTotals } from '../../src/metering/ingestion/table.js';
import { organizationPlans } from '../../src/metering/plans/table.js';
import { capNotices } from '../../src/metering/notices/table.js';
import { DAY_MS, HOUR_MS, monthOf } from '../../src/core/time.js';
import { addMember, Browser, createUser } from '../support/accounts.js';
import { createKey, createOrganization, uniqueSlug } from '../support/fixtures.js';
import { newId } from '../../src/core/ids.js';
import { webhookEndpoints, webhookMessages } from '../../src/accounts/webhooks/table.js';
import { addGrant } from '../metering/support/credits.js';
import { createProduct, grant } from '../metering/support/products.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { createListener } from '../support/webhook-messages.js';
import { signedInOperator, type TestOperator } from '../support/operators.js';
import { startTestService } from '../support/service.js';
import { useService } from '../support/use.js';
import { auditOf } from '../support/audit.js';
import { writeRows } from '../accounts/audit/support.js';

const { database, service } = useService();
let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(service);
});

const html = { accept: 'text/html' };
const open = async (path: string) => {
  const answer = await operator.browser.get(path, html);
  expect([path, answer.status]).toEqual([path, 200]);
  return answer.text;
};
/** The facts of all customers are kept for a minute, and then read beside the page. */
const openLater = async (path: string) => {
  service.clock.advance(60_000);
  await vi.waitFor(async () => expect(await open('/console')).toContain('>just now</time></p>'), 20_000);
  return open(path);
};
const post = (path: string, form: Record<string, string> = {}, browser = operator.browser) =>
  browser.send('POST', path, { form, headers: html });

const slugsOn = (text: string) =>
  [...text.matchAll(/class="row-link" href="\/console\/customers\/([^"]+)"/g)].map((m) => m[1]!);

let counter = 0;
async function customer(values: { used?: string; cap?: string | null; ownCap?: string } = {}) {
  const { db, clock } = service.context;
  const organization = await createOrganization(db);
  const product = await createProduct(db, { unitCap: values.cap ?? null });
  await grant(
    db,
    organization.id,
    product.id,
    values.ownCap === undefined ? {} : { hasOwnCap: true, unitCap: values.ownCap },
  );
  if (values.used !== undefined)
    await db.orm.insert(usageTotals).values({
      orgId: organization.id,
      period: monthOf(clock.now()),
      livemode: true,
      productId: product.id,
      metric: product.usageMetric,
      quantity: values.used,
      events: 1,
    });
  return { ...organization, product };
}

/** The figures of all customers are not read until `finish`; those of the page are. */
function holdFigures() {
  const read = customerSummary.read.bind(customerSummary);
  let finish = () => {};
  const isFinished = new Promise<void>((resolve) => (finish = resolve));
  const spy = vi.spyOn(customerSummary, 'read').mockImplementation(async (...asked) => {
    if (!asked[3]) await isFinished;
    return read(...asked);
  });
  const release = () => {
    finish();
    spy.mockRestore();
  };
  // A test that fails must not keep the next ones waiting.
  onTestFinished(release);
  return release;
}

describe('the list of customers', () => {
  it('finds customers by any part of a slug or name, or the start of a member’s address, and treats input literally', async () => {
    const { db } = service.context;
    const acme = await createOrganization(db, { slug: `zz-${++counter}-acme`, name: '100%_Straße <b>' });
    const { id, email } = await createUser(db, { email: `zoë.${counter}@zz.example` });
    await addMember(db, acme.id, id, 'member');
    const parts = [acme.slug, `${counter}-ACM`, '100%_stra', '%_s', '%', '_', email.slice(0, 6)];
    for (const search of parts) {
      const text = await open(`/console?search=${encodeURIComponent(search)}`);
      expect([search, slugsOn(text)]).toEqual([search, [acme.slug]]);
      expect(text).not.toContain('<b>');
    }
    // Those that it finds by an owner come after those that it names.
    const named = await createOrganization(db, { name: `Zz ${email}` });
    expect(slugsOn(await open(`/console?search=${encodeURIComponent(email.slice(0, 6))}`))).toEqual([
      named.slug,
      acme.slug,
    ]);
    await db.orm.delete(organizations).where(eq(organizations.id, named.id));
    for (const search of ['\\', '100\\', 'zz.example', "' or 1=1 --"])
      expect(slugsOn(await open(`/console?search=${encodeURIComponent(search)}`))).toEqual([]);
  });

  it('shows which customers are near or over a cap, by the cap that applies', async () => {
    const near = await customer({ used: '80', cap: '100' });
    const over = await customer({ used: '10', cap: '100', ownCap: '10' });
    const none = await customer({ used: '79.9', cap: '100' });
    const zero = await customer({ used: '1', cap: '0' });
    const free = await customer({ used: '1000' });
    const roomy = await customer({ used: '90', cap: '100', ownCap: '1000' });
    const without = await customer({ used: '90', cap: '100' });
    await database.db.orm.delete(entitlements).where(eq(entitlements.orgId, without.id));
    const unused = await customer({ used: '0', cap: '0' });
    const archived = await customer({ used: '90', cap: '100' });
    const at = new Date(service.clock.now());
    await database.db.orm
      .update(products)
      .set({ archivedAt: at })
      .where(eq(products.id, archived.product.id));
    const nears = slugsOn(await openLater('/console?signal=near'));
    expect(nears).toEqual(expect.arrayContaining([near.slug, over.slug, zero.slug]));
    for (const { slug } of [none, free, roomy, without, unused, archived]) expect(nears).not.toContain(slug);
    expect(slugsOn(await open('/console?signal=over'))).toEqual([zero.slug]);
    await database.db.orm.update(usageTotals).set({ quantity: '10.1' }).where(eq(usageTotals.orgId, over.id));
    const overPage = await openLater('/console?signal=over');
    expect(slugsOn(overPage).sort()).toEqual([over.slug, zero.slug].sort());
    expect(overPage).toContain('Over a cap');
    expect(await open(`/console?search=${near.slug}`)).toContain('80.0% of the cap used');
    const idle = await customer({ cap: '1000' });
    expect(await openLater(`/console?search=${idle.slug}`)).toContain('0% of the cap used');
    expect(await open(`/console?search=${free.slug}`)).toContain('No cap');
  });

  it('shows whose keys expire within seven days and whose members failed to sign in', async () => {
    const { db, clock } = service.context;
    const soon = await customer();
    await createKey(db, soon.id, { expiresAt: new Date(clock.now() + 6 * DAY_MS) });
    const later = await customer();
    await createKey(db, later.id, { expiresAt: new Date(clock.now() + 8 * DAY_MS) });
    await createKey(db, later.id, {
      expiresAt: new Date(clock.now() + DAY_MS),
      revokedAt: new Date(clock.now()),
    });
    const { browser, email, id } = await signedInOperator(service);
    await addMember(db, later.id, id, 'member');
    await browser.signIn(email);
    await post('/login/code', { code: '000000' }, browser);
    // A rotated key has a successor.
    const rotated = await createKey(db, later.id, { expiresAt: new Date(clock.now() + DAY_MS) });
    const successor = await createKey(db, later.id);
    await db.orm.update(apiKeys).set({ rotatedFromId: rotated.id }).where(eq(apiKeys.id, successor.id));
    expect(slugsOn(await openLater('/console?signal=expiring'))).toEqual([soon.slug]);
    const text = await open('/console?signal=sign-ins');
    expect(slugsOn(text)).toEqual([later.slug]);
    expect(text).toContain('1 wrong code');
    const mistyped = await createUser(db);
    await addMember(db, soon.id, mistyped.id, 'member');
    const hour = new Date(Math.floor(clock.now() / HOUR_MS) * HOUR_MS);
    await db.orm.insert(failedSignIns).values({ userId: mistyped.id, hour, passwords: 4 });
    const its = `/console/customers/${soon.slug}`;
    expect(await open(its)).not.toContain('4 wrong passwords');
    await db.orm.update(failedSignIns).set({ passwords: 5 }).where(eq(failedSignIns.userId, mistyped.id));
    expect(await open(its)).toContain('5 wrong passwords');
  });

  it('shows who is out of credits, and whose webhooks fail', async () => {
    const { db, clock } = service.context;
    const now = new Date(clock.now());
    const [spent, overdrawn, unused, covered] = [
      await customer(),
      await customer(),
      await customer(),
      await customer(),
    ];
    for (const { product } of [spent, overdrawn, unused, covered])
      await db.orm
        .update(products)
        .set({ creditPrice: '1', creditEnforcement: 'block' })
        .where(eq(products.id, product.id));
    const burn = async (one: typeof spent, quantity: number) => {
      const { secret } = await createKey(db, one.id);
      const event = usageEvent(one.product.slug, 'e', { quantity });
      expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
    };
    await addGrant(db, spent.id, { amount: '5' }, now);
    await burn(spent, 5);
    await burn(overdrawn, 1);
    // A grant that expired long ago is not reported.
    const startsAt = new Date(clock.now() - 60 * DAY_MS);
    const expiresAt = new Date(clock.now() - 30 * DAY_MS);
    await addGrant(db, unused.id, { amount: '5', startsAt, expiresAt }, now);
    await addGrant(db, covered.id, { amount: '5' }, now);
    await burn(covered, 4);
    const page = await openLater('/console?signal=credits');
    expect(slugsOn(page).sort()).toEqual([spent.slug, overdrawn.slug].sort());
    expect(page).toContain(`href="/console/customers/${spent.slug}/credits">Out of credits</a>`);
    // The bars count what the number beside them counts.
    expect(page).toMatch(/<strong>5<\/strong>\s+<svg[^>]*aria-label="Credits by day, [^"]*: at most 5 a day/);
    const { slug, id } = await customer();
    await createListener(db, id);
    expect(slugsOn(await openLater('/console?signal=webhooks'))).toEqual([]);
    await db.orm
      .update(webhookEndpoints)
      .set({ isEnabled: false, disabledReason: 'failing' })
      .where(eq(webhookEndpoints.orgId, id));
    const failing = await openLater('/console?signal=webhooks');
    expect([slugsOn(failing), failing.includes('1 webhook failing')]).toEqual([[slug], true]);
  });

  it('shows the owner, an open invitation for one, or that there is none', async () => {
    const { db } = service.context;
    const { slug, id } = await customer();
    const page = await openLater(`/console?search=${slug}&signal=ownerless`);
    expect([slugsOn(page), page.includes('/people">No owner</a>')]).toEqual([[slug], true]);
    const invite = (email: string, role: string) =>
      post(`/console/customers/${slug}/invite`, { email, role, days: '7' });
    await invite('boss@zz.example', 'owner');
    await invite('aide@zz.example', 'member');
    const invited = await open(`/console?search=${slug}`);
    expect(invited).toMatch(/Invited:<\/span> <bdi>boss<wbr>@zz\.example/);
    expect(invited).toContain('/people">Owner invited</a>');
    const { text: file } = await operator.browser.get(`/console/customers.csv?search=${slug}`, html);
    expect(file).toMatch(/,,"boss@zz\.example","[^"]*Owner invited"/);
    expect(file).not.toContain('No owner');
    for (const absent of ['aide@zz.example', '>No owner</a>']) expect(invited).not.toContain(absent);
    expect(slugsOn(await openLater('/console?search=boss@zz'))).toEqual([slug]);
    expect(slugsOn(await open('/console?search=aide@zz'))).toEqual([]);
    const [first, second] = [await createUser(db), await createUser(db)];
    for (const user of [first, second]) await addMember(db, id, user.id, 'owner');
    expect(slugsOn(await openLater(`/console?search=${slug}&signal=ownerless`))).toEqual([]);
    const owned = await open(`/console?search=${slug}`);
    const [shown] = [first, second].sort((a, b) => (a.email < b.email ? -1 : 1));
    expect(owned).toContain(`<bdi title="${shown!.email}">${shown!.name}</bdi>`);
    expect(await open(`/console/customers/${slug}`)).toContain(
      `<bdi class="figure-note">${shown!.email.replace('@', '<wbr>@')}</bdi>`,
    );
    expect([owned.includes('and 1 more'), owned.includes('boss@zz.example')]).toEqual([true, false]);
  });

  it('begins with figures of all customers, each of which filters or sorts the list', async () => {
    await customer({ used: '90', cap: '100' });
    const page = await openLater('/console');
    const [tiles] = page.split('aria-label="All customers"')[1]!.split('</section>');
    const figure = (label: string) =>
      new RegExp(
        `href="([^"]+)">\\s*<span class="figure-label">${label}</span>\\s*<span class="figure-number">([^<]+)`,
      )
        .exec(tiles!)!
        .slice(1);
    const nearPage = await open('/console?signal=near');
    expect(nearPage).toMatch(/data-tone="warn" aria-current="true" href="\/console\?signal=near"/);
    expect(tiles).toMatch(/aria-current="true" href="\/console">/);
    expect((await open('/console?search=a')).split('id="field-search"')[0]).not.toContain(
      'class="figure" aria-current',
    );
    expect(nearPage).not.toContain('data-tone="warn" data-sorts');
    expect(await open('/console?sort=-month')).toMatch(
      /data-sorts aria-current="true" href="\/console\?sort=-month"/,
    );
    const near = slugsOn(nearPage);
    expect(figure('Near cap or limit')).toEqual(['/console?signal=near', String(near.length)]);
    expect(figure('Webhooks failing')).toEqual(['/console?signal=webhooks', '1']);
    expect(figure('Credits this month')[0]).toBe('/console?sort=-month');
    const rows = await database.db.orm.select().from(organizations);
    const current = rows.filter(({ archivedAt }) => archivedAt === null);
    expect(figure('Customers')).toEqual(['/console', String(current.length)]);
  });

  it('begins with customers that need attention, the most urgent first', async () => {
    const calm = await customer();
    const near = await customer({ used: '85', cap: '100' });
    const failing = await customer();
    const { db } = service.context;
    const quiet = await customer();
    const longAgo = new Date(service.clock.now() - 20 * DAY_MS);
    await db.orm.update(organizations).set({ createdAt: longAgo }).where(eq(organizations.id, quiet.id));
    const nearer = await customer({ used: '95', cap: '100' });
    await db.orm.update(organizations).set({ name: 'zz' }).where(eq(organizations.id, nearer.id));
    for (const { id } of [calm, near, nearer, failing])
      await addMember(db, id, (await createUser(db)).id, 'owner');
    for (const _ of [1, 2]) await createListener(db, failing.id);
    await db.orm
      .update(webhookEndpoints)
      .set({ isEnabled: false, disabledReason: 'failing' })
      .where(eq(webhookEndpoints.orgId, failing.id));
    const page = await openLater('/console');
    const places = [failing, nearer, near, quiet, calm].map(({ slug }) => slugsOn(page).indexOf(slug));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(page).toMatch(/aria-sort="descending"><a href="[^"]+">Attention/);
    // Reversed, the list begins with those that need none.
    const reversed = slugsOn(await open('/console?sort=attention'));
    const own = [calm, quiet, near, nearer, failing].map(({ slug }) => slug);
    const shown = own.filter((slug) => reversed.includes(slug));
    expect(shown).toContain(calm.slug);
    expect(shown.toSorted((a, b) => reversed.indexOf(a) - reversed.indexOf(b))).toEqual(shown);
    expect(page).toContain('2 webhooks failing');
    expect(page).toMatch(/<option value="" selected>\s*Attention ↓/);
    expect(await open('/console?sort=-share')).toMatch(/<option value="-share" selected>\s*Cap or limit ↓/);
    const rows = await db.orm.select().from(webhookEndpoints);
    const count = new Set(rows.filter((row) => row.disabledReason !== null).map(({ orgId }) => orgId)).size;
    expect(page).toMatch(new RegExp(`Webhooks failing</span>\\s*<span class="figure-number">${count}<`));
  });

  it('orders customers by what their rows show, although the figures of all are older', async () => {
    const { db } = service.context;
    const [calm, urgent] = [await customer({ cap: '100' }), await customer({ used: '1', cap: '100' })];
    for (const [i, { id }] of [calm, urgent].entries()) {
      await addMember(db, id, (await createUser(db)).id, 'owner');
      await db.orm
        .update(organizations)
        .set({ name: `stale ${'ab'[i]}` })
        .where(eq(organizations.id, id));
    }
    expect(slugsOn(await openLater('/console?search=stale'))).toEqual([calm.slug, urgent.slug]);
    await db.orm.update(usageTotals).set({ quantity: '101' }).where(eq(usageTotals.orgId, urgent.id));
    expect(slugsOn(await open('/console?search=stale'))).toEqual([urgent.slug, calm.slug]);
    expect(slugsOn(await open('/console?search=stale&sort=share'))).toEqual([calm.slug, urgent.slug]);
    // The first figures are still being read.
    const release = holdFigures();
    expect((await post('/console/new-customer', { name: 'stale c', slug: uniqueSlug('stale') })).status).toBe(
      303,
    );
    const first = await open('/console?search=stale');
    release();
    expect(first).toContain('The figures of all customers are being read');
    expect(slugsOn(first)[0]).toBe(urgent.slug);
  });

  it('shows trials and their ends, and who has sent nothing for 14 days', async () => {
    const { db, clock } = service.context;
    const made = [await customer(), await customer(), await customer()];
    const plan = uniqueSlug('tried');
    const definition = 'entitlements: []\ntrial: { days: 30 }';
    expect(
      (await post('/console/new-plan', { name: 'Tried', slug: plan, definition, step: 'save' })).status,
    ).toBe(303);
    for (const [i, { id, slug }] of made.entries()) {
      expect(
        (await post(`/console/customers/${slug}/plan`, { plan, trial: plan, step: 'save' })).status,
      ).toBe(303);
      const trialEndsAt = new Date(clock.now() + [8.5, 6.5, -1][i]! * DAY_MS);
      await db.orm.update(organizationPlans).set({ trialEndsAt }).where(eq(organizationPlans.orgId, id));
    }
    const [later, soon, over] = made as [(typeof made)[0], (typeof made)[0], (typeof made)[0]];
    const trials = await openLater('/console?signal=trial');
    expect(slugsOn(trials).sort()).toEqual([soon.slug, over.slug].sort());
    for (const flag of ['Trial ends soon', 'Trial over'])
      expect(trials).toMatch(new RegExp(`/plan">${flag}</a>`));
    for (const path of [`/console?search=${later.slug}`, `/console/customers/${later.slug}`])
      expect(await open(path)).toContain('Trial, 9 days left');
    expect(slugsOn(await open('/console?search=trie')).sort()).toEqual(made.map(({ slug }) => slug).sort());

    await db.orm
      .update(organizations)
      .set({ createdAt: new Date(clock.now() - 13 * DAY_MS) })
      .where(eq(organizations.id, soon.id));
    expect(await open(`/console/customers/${soon.slug}`)).toMatch(
      /data-tone="info"[^>]+\/keys">No events yet</,
    );
    const { secret } = await createKey(db, over.id);
    const sent = await sendUsage(service.url, secret, [usageEvent(over.product.slug, 'e')]);
    expect(sent.status).toBe(202);
    const silent = slugsOn(await openLater('/console?signal=silent'));
    expect(made.map(({ slug }) => silent.includes(slug))).toEqual([true, false, false]);
    expect(await open(`/console/customers/${later.slug}`)).toMatch(
      /data-tone="info"[^>]+\/keys">No events yet</,
    );
  });

  it('counts a new customer at once', async () => {
    const countOn = (page: string) =>
      Number(/figure-label">Customers<\/span>\s*<span class="figure-number">(\d+)/.exec(page)![1]);
    const before = countOn(await openLater('/console'));
    const slug = uniqueSlug('counted');
    expect((await post('/console/new-customer', { name: slug, slug })).status).toBe(303);
    expect(countOn(await open('/console'))).toBe(before + 1);
  });

  it('shows older figures and their age while they are read again', async () => {
    const near = await customer({ used: '80', cap: '100' });
    await openLater('/console');
    const release = holdFigures();
    const late = await customer({ used: '80', cap: '100' });
    service.clock.advance(60_000);
    const older = await open('/console?signal=near');
    expect(older).toMatch(/Figures read <time[^>]*>1 minute ago</);
    expect(slugsOn(older)).toContain(near.slug);
    expect(slugsOn(older)).not.toContain(late.slug);
    // The figures above agree with the rows.
    const nearOn = (page: string) =>
      Number(/figure-label">Near cap or limit<\/span>\s*<span [^>]*>(\d+)/.exec(page)![1]);
    await database.db.orm.update(usageTotals).set({ quantity: '1' }).where(eq(usageTotals.orgId, near.id));
    expect(nearOn(await open(`/console?search=${near.slug}`))).toBe(nearOn(older) - 1);
    release();
    const newer = await openLater('/console?signal=near');
    expect(slugsOn(newer)).toContain(late.slug);
  });

  it('shows which customers are near or over a limit, of all usage or of one subject', async () => {
    const { db, clock } = service.context;
    const week = { window: 'P7D', enforcement: 'warn' } as const;
    const terms = {
      calm: [{ ...week, quantity: '100' }],
      near: [
        { ...week, quantity: '10' },
        { ...week, quantity: '100' },
      ],
      over: [{ window: 'calendar_month', enforcement: 'warn', quantity: '7' }],
      subject: [{ ...week, quantity: '6', per: 'subject' }],
      subjects: [{ ...week, quantity: '8', per: 'subject' }],
    } as const;
    const made = new Map<string, Awaited<ReturnType<typeof customer>>>();
    for (const [name, limits] of Object.entries(terms)) {
      const one = await customer({ cap: '1000' });
      await db.orm
        .update(products)
        .set({ subjectsSince: new Date(0) })
        .where(eq(products.id, one.product.id));
      await db.orm
        .update(entitlements)
        .set({ limits: [...limits] })
        .where(eq(entitlements.orgId, one.id));
      const { secret } = await createKey(db, one.id);
      for (const [subject, quantity] of [
        ['app', 5],
        ['web', 3],
      ] as const) {
        const event = usageEvent(one.product.slug, subject, { quantity, subject });
        expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
      }
      made.set(name, one);
    }
    const slugOf = (name: string) => made.get(name)!.slug;
    const all = [...made.keys()];
    const nears = slugsOn(await openLater('/console?signal=near'));
    expect(all.filter((name) => nears.includes(slugOf(name)))).toEqual(['near', 'over', 'subject']);
    const overs = slugsOn(await open('/console?signal=over'));
    expect(all.filter((name) => overs.includes(slugOf(name)))).toEqual(['over']);
    const row = await open(`/console?search=${slugOf('subject')}`);
    expect(row).toMatch(
      /<span>83\.3%<\/span>[^]*83\.3% of the limit used[^]*<bdi>app, \w+ 7\u00a0days<\/bdi>/,
    );
    const ofSubject = made.get('subject')!;
    expect(await open(`/console/customers/${ofSubject.slug}`)).toContain(
      `/entitlement?product=${ofSubject.product.slug}">Near a limit</a>`,
    );
    // Ended terms limit nothing.
    await db.orm
      .update(entitlements)
      .set({ endsAt: new Date(clock.now()) })
      .where(eq(entitlements.orgId, ofSubject.id));
    expect(await open(`/console/customers/${ofSubject.slug}`)).not.toContain('>Near a limit</a>');
  });

  it('is sorted by each column in both directions, with customers that lack it last', async () => {
    const { db, clock } = service.context;
    // Far from a month's end.
    const today = new Date(clock.now());
    service.clock.set(new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + 1, 10)).toISOString());
    const made = [
      await customer({ used: '9', cap: '10' }),
      await customer({ used: '2', cap: '1000' }),
      await customer(),
    ];
    const [full, half, none] = made as [(typeof made)[0], (typeof made)[0], (typeof made)[0]];
    for (const [i, { id }] of made.entries())
      await db.orm
        .update(organizations)
        .set({ name: `sorted ${'bca'[i]}` })
        .where(eq(organizations.id, id));
    for (const [one, amount] of [
      [full, '100'],
      [half, '30'],
    ] as const) {
      await db.orm
        .update(products)
        .set({ creditPrice: '1', creditEnforcement: 'block' })
        .where(eq(products.id, one.product.id));
      await addGrant(db, one.id, { amount }, new Date(clock.now()));
      const { secret } = await createKey(db, one.id);
      await sendUsage(service.url, secret, [
        usageEvent(one.product.slug, 'e', { quantity: one === full ? 0.5 : 20 }),
      ]);
      service.clock.advance(1_000);
    }
    // The pace needs a day.
    service.clock.advance(2 * DAY_MS);
    operator = await signedInOperator(service);
    const order = async (sort: string) => {
      const text = await openLater(`/console?search=sorted&sort=${sort}`);
      expect(text.match(/aria-sort="(\w+)"/)![1]).toBe(sort.startsWith('-') ? 'descending' : 'ascending');
      return slugsOn(text);
    };
    const [a, b, c] = [full.slug, half.slug, none.slug];
    const cases: Record<string, string[]> = {
      name: [c, a, b],
      '-name': [b, a, c],
      share: [b, a, c],
      '-share': [a, b, c],
      '-month': [b, a, c],
      month: [c, a, b],
      left: [b, a, c],
      '-left': [a, b, c],
      end: [b, a, c],
      last: [a, b, c],
      '-last': [b, a, c],
    };
    for (const [sort, slugs] of Object.entries(cases))
      expect([sort, await order(sort)]).toEqual([sort, slugs]);
    const file = await operator.browser.get('/console/customers.csv?search=sorted&sort=-share', html);
    expect(file.text.split('\r\n').map((line) => line.split(',')[0])).toEqual([
      'slug',
      `"${a}"`,
      `"${b}"`,
      `"${c}"`,
      '',
    ]);
    expect(file.text).toContain(
      `"${a}","sorted b",,,"Near a cap; No owner",,0.5,2,0.95,"${full.product.slug}",,,99.5,,`,
    );
    const soon = await open('/console?search=sorted&signal=soon');
    expect(slugsOn(soon)).toEqual([b]);
    expect(soon).toContain('/credits">Credits run out soon</a>');
    const row = (await open(`/console?search=${b}`)).split('class="row-link"')[1]!;
    expect(row).toMatch(/title="10"/);
    expect(await open(`/console/customers/${b}`)).toMatch(
      /a day · <a href="[^"]+\/credits\/grant">Grant credits</,
    );
    expect(row).toMatch(/>[\d.]+ a day</);
    const startsAt = new Date(clock.now() + DAY_MS / 2);
    await addGrant(db, half.id, { amount: '1500', startsAt }, new Date(clock.now()));
    const day = startsAt.toLocaleDateString('en-GB', {
      day: 'numeric',
      month: 'short',
      timeZone: 'UTC',
    });
    expect(await open(`/console?search=${b}`)).toContain(`>with 1,500 on ${day}<`);
    operator = await signedInOperator(service);
  });

  it('says that the plan covers the usage, unless the credits end before it refills them', async () => {
    const { db, clock } = service.context;
    const { id, slug, product } = await customer();
    await db.orm
      .update(products)
      .set({ creditPrice: '1', creditEnforcement: 'warn' })
      .where(eq(products.id, product.id));
    const plan = uniqueSlug('refills');
    const definition =
      'entitlements: []\ngrants: [{ key: credits, amount: 100, every: month, expires: period }]';
    await post('/console/new-plan', { name: 'Refills', slug: plan, definition, step: 'save' });
    expect((await post(`/console/customers/${slug}/plan`, { plan, step: 'save' })).status).toBe(303);
    const { secret } = await createKey(db, id);
    const send = (quantity: number) =>
      sendUsage(service.url, secret, [usageEvent(product.slug, `e${quantity}`, { quantity })]);
    await send(3);
    service.clock.advance(2 * DAY_MS);
    operator = await signedInOperator(service);
    // The list would be too long with a tooltip for each bar.
    const bar = /<g data-label="\d+ \w+: 3"><rect [^>]*pointer-events="all"/;
    expect(await open(`/console/customers/${slug}`)).toMatch(bar);
    expect(await open(`/console?search=${slug}`)).not.toMatch(bar);
    expect(await open(`/console?search=${slug}`)).toMatch(/Covered by the plan.*?>100 on \d+ \w+</s);
    expect(await open(`/console/customers/${slug}`)).toMatch(
      /Covered by the plan.*?>[\d.]+ a day · 100 on \d+ \w+</s,
    );
    expect(await open(`/console/customers/${slug}/credits`)).toContain('the plan covers the usage.');
    await send(30);
    service.clock.advance(DAY_MS);
    const end = /Runs out.*?<span class="nowrap[^"]*">([^<]+)</s.exec(
      await open(`/console/customers/${slug}`),
    );
    // 33 credits in three days at most, and 67 are left.
    expect(Date.parse(end![1]!) - clock.now()).toBeLessThan(7 * DAY_MS);
    operator = await signedInOperator(service);
  });

  it('shows customers of a plan, or of none, among those that the other filters find', async () => {
    const { db, clock } = service.context;
    const [on, off, ended, near] = [
      await customer(),
      await customer(),
      await customer(),
      await customer({ used: '9', cap: '10' }),
    ];
    const plan = uniqueSlug('chosen');
    await post('/console/new-plan', {
      name: `Chosen ${plan}`,
      slug: plan,
      definition: 'entitlements: []',
      step: 'save',
    });
    for (const { id, slug } of [on, ended, near, off]) {
      await db.orm
        .update(organizations)
        .set({ name: `planned ${slug}` })
        .where(eq(organizations.id, id));
      if (slug !== off.slug)
        expect((await post(`/console/customers/${slug}/plan`, { plan, step: 'save' })).status).toBe(303);
    }
    await db.orm
      .update(organizationPlans)
      .set({ endedAt: new Date(clock.now()) })
      .where(eq(organizationPlans.orgId, ended.id));
    const found = async (query: string) => slugsOn(await openLater(`/console?${query}`)).sort();
    expect(await found(`plan=${plan}`)).toEqual([on.slug, near.slug].sort());
    expect(await found(`plan=${plan}&signal=near`)).toEqual([near.slug]);
    expect(await found(`plan=${plan}&search=${on.slug}`)).toEqual([on.slug]);
    expect(await found('plan=-&search=planned')).toEqual([off.slug, ended.slug].sort());
    expect(await found('plan=unknown&search=planned')).toHaveLength(4);
    const page = await open(`/console?plan=${plan}`);
    expect(page).toMatch(new RegExp(`<option value="${plan}" selected>\\s*Chosen`));
    expect(page).toContain(`href="/console?plan=${plan}&amp;sort=name"`);
    expect(page).not.toContain('class="figure" aria-current');
    const csv = /href="(\/console\/customers\.csv[^"]+)"/.exec(page)![1]!;
    const { text } = await operator.browser.get(csv.replaceAll('&amp;', '&'), html);
    expect(text.trim().split('\r\n')).toHaveLength(3);
    expect(await open(`/console/plans/${plan}`)).toContain(`href="/console?plan=${plan}"`);
  });

  it('names the only condition that no customer meets', async () => {
    const plan = uniqueSlug('lonely');
    await post('/console/new-plan', { name: plan, slug: plan, definition: 'entitlements: []', step: 'save' });
    for (const [query, words] of [
      ['signal=archived', 'No archived customers'],
      [`plan=${plan}`, `No customers under “${plan}”`],
      ['search=zzzzz', 'No customers match “zzzzz”'],
      [`plan=${plan}&signal=archived`, 'No customers match'],
      ['page=900', 'No customers on this page'],
    ])
      expect(await open(`/console?${query}`)).toContain(`<h2>${words}</h2>`);
    await database.db.orm.delete(webhookEndpoints);
    expect(await openLater('/console?signal=webhooks')).toContain(
      '<h2>No customers with webhooks failing</h2>',
    );
    await database.db.orm.delete(entitlements);
    expect(await openLater('/console?signal=near')).toContain(
      '<h2>No customers are near a cap or limit</h2>',
    );
  });

  it('leads the page of a customer with its own usage and latest changes', async () => {
    const { db } = service.context;
    const own = await customer({ used: '12', cap: '10' });
    const other = await customer({ used: '7777' });
    const limits = [
      { quantity: '20', window: 'calendar_day', enforcement: 'block' },
      { quantity: '25', window: 'calendar_month', enforcement: 'warn' },
      { quantity: '30', window: 'P7D', enforcement: 'warn', per: 'subject' },
    ] as const;
    await db.orm
      .update(entitlements)
      .set({ limits: [...limits] })
      .where(eq(entitlements.orgId, own.id));
    const settings = { name: 'Renamed <b>', marketAccess: 'none' };
    expect((await post(`/console/customers/${own.slug}/settings`, settings)).status).toBe(303);
    const text = await open(`/console/customers/${own.slug}`);
    expect(text).not.toContain('name="marketAccess"');
    expect(text).toContain('aria-label="12 of 10 used"');
    expect(text).toMatch(/<bdi>calls<\/bdi> <span class="badge">Warns<.*Over the cap by.*· resets <time/s);
    expect(text).toMatch(/Each subject, rolling 7\sdays: at most 30/);
    expect(text).toContain('aria-label="0% of the limit used or held"');
    expect(text.match(/>Change the (cap|limit)</g)).toHaveLength(4);
    for (const limit of ['20', '25']) expect(text).toMatch(new RegExp(`of ${limit} <bdi>`));
    for (const effect of ['Blocks', 'Warns']) expect(text).toContain(effect);
    const granted = await open(`/console/customers/${own.slug}/entitlements`);
    expect(granted).toContain('aria-label="0% of the limit used or held"');
    expect(granted).toMatch(/Each subject, rolling 7\sdays: at most 30/);
    expect(text.split('id="changes"')[1]).toMatch(/class="changes">\s*<li>.*Renamed &lt;b&gt;/s);
    expect(text).not.toContain('<b>');
    for (const foreign of ['7,777', other.product.slug]) expect(text).not.toContain(foreign);
    await db.orm.delete(entitlements).where(eq(entitlements.orgId, own.id));
    expect(await open(`/console/customers/${own.slug}`)).toContain('No entitlement is in effect.');
  });

  it('tells on a customer’s page what happened to it alone, newest first', async () => {
    const { db, clock } = service.context;
    const [own, other] = [await customer({ used: '1' }), await customer()];
    for (const [one, url] of [
      [own, 'https://own.example/'],
      [other, 'https://other.example/'],
    ] as const) {
      const { secret } = await createKey(db, one.id);
      await createListener(db, one.id, { url });
      await sendUsage(service.url, secret, [usageEvent(one.product.slug, 'first')]);
      service.clock.advance(1_000);
      const at = new Date(clock.now());
      await db.orm.insert(webhookMessages).values({
        orgId: one.id,
        id: newId(clock.now()),
        type: 'usage.threshold_reached',
        livemode: true,
        data: { productSlug: one.product.slug, threshold: 80 },
        createdAt: at,
      });
      service.clock.advance(1_000);
      await db.orm
        .update(webhookEndpoints)
        .set({ failingSince: new Date(clock.now()) })
        .where(eq(webhookEndpoints.orgId, one.id));
      service.clock.advance(1_000);
      await post(`/console/customers/${one.slug}/settings`, {
        name: `Later ${one.slug}`,
        marketAccess: 'none',
      });
    }
    const [states, latest, text] = (await open(`/console/customers/${own.slug}`))
      .split('id="states"')[1]!
      .split('</section>') as [string, string, string];
    expect(latest).toMatch(
      new RegExp(`href="/console/customers/${own.slug}/usage\\?mode=live&amp;event=first"[^>]*><bdi>`),
    );
    expect(latest.match(/event=/g)).toHaveLength(1);
    expect(latest).toContain(`href="/console/customers/${own.slug}/usage">All events</a>`);
    expect(states.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ')).toMatch(
      /People None API keys 1 live key (?:never called|last call .+) Trading No access Webhooks 1 endpoint 1 failing/,
    );
    const order = [`Later ${own.slug}`, 'https://own.example/', 'reached 80% of', 'First live usage'];
    const places = order.map((words) => text.indexOf(words));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places[0]).toBeGreaterThan(0);
    expect(text).toMatch(
      new RegExp(
        `#icon-usage"/></svg>\\s+First live usage of\\s+<a href="/console/customers/${own.slug}/usage\\?product=${own.product.slug}">`,
      ),
    );
    expect(text).toMatch(
      new RegExp(`<a href="/console/customers/${own.slug}/webhooks/[\\w-]{36}"><bdi>https://own.example/`),
    );
    const [granted] = await db.orm.select().from(entitlements).where(eq(entitlements.orgId, own.id));
    const notice = {
      orgId: own.id,
      productId: granted!.productId,
      period: '2031-01-01',
      at: new Date(clock.now()),
    };
    await db.orm.insert(capNotices).values([80, 100].map((level) => ({ ...notice, level })));
    for (const _ of [1, 2]) await post(`/console/customers/${own.slug}/view`, {});
    const timeline = async (query: string) => {
      const page = await open(`/console/customers/${own.slug}${query}`);
      return page.split('id="changes"')[1]!.split('</section>')[0]!;
    };
    expect(await timeline('')).not.toContain('Viewed the portal');
    const usage = await timeline('?kind=usage');
    expect(usage).toMatch(/#icon-warning"\/><\/svg>\s+Usage of/);
    for (const absent of ['https://own.example/', `Later ${own.slug}`]) expect(usage).not.toContain(absent);
    for (let n = 0; n < 13; n++)
      await post(`/console/customers/${own.slug}/settings`, { name: `Name ${n}`, marketAccess: 'none' });
    const first = await timeline('');
    expect([first.includes('Name 12'), first.includes('First live usage')]).toEqual([true, false]);
    expect(await timeline(/href="[^"?]+(\?entries=24)#changes"/.exec(first)![1]!)).toContain(
      'First live usage',
    );
    for (const query of ['kind=x', 'entries=1e9', 'entries=13'])
      expect((await operator.browser.get(`/console/customers/${own.slug}?${query}`, html)).status).toBe(400);
    const page = await timeline('?kind=all&entries=24');
    const later = page.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
    expect(later).toMatch(/Usage of .{1,60} reached 100% of its cap/);
    expect(later).toContain('Viewed the portal as the customer');
    for (const foreign of ['other.example', other.product.slug]) expect(text).not.toContain(foreign);
    const whole = await open(`/console/customers/${own.slug}?kind=all&entries=48`);
    const links = new Set([...whole.matchAll(/href="(\/[^"#]*)/g)].map(([, link]) => link!));
    expect(links.size).toBeGreaterThan(30);
    for (const link of links)
      expect([link, (await operator.browser.get(link.replaceAll('&amp;', '&'))).status]).toEqual([link, 200]);
  });

  it('shows grants among the highlights of a customer, but no keys, people, tests or grants that follow from its plan', async () => {
    const { id, slug } = await customer();
    const details = { livemode: true, after: { amount: '7', reason: 'By hand' } };
    for (const target of ['plan:credits:2026-01-01', 'by-hand'])
      await writeRows(database.db, id, 1, { action: 'credits.granted', target, details });
    const tested = { ...details, livemode: false };
    await writeRows(database.db, id, 1, { action: 'credits.granted', target: 'tested', details: tested });
    await post(`/console/customers/${slug}/invite`, {
      email: 'soon@owner.example',
      role: 'owner',
      days: '7',
    });
    const changes = async (query: string) =>
      (await open(`/console/customers/${slug}${query}`)).split('id="changes"')[1]!.split('</section>')[0]!;
    const terms = { before: { unitCap: '50' }, after: { unitCap: '60' } };
    await writeRows(database.db, id, 1, { action: 'entitlement.changed', target: 'x', details: terms });
    expect((await changes('')).match(/Granted 7|Invited|Changed the entitlement/g)).toEqual([
      'Changed the entitlement',
      'Granted 7',
    ]);
    expect(await changes('?kind=people')).toMatch(/Invited\s+<a [^>]+><bdi>soon@owner\.example/);
    expect((await changes('?kind=all')).match(/Granted 7/g)).toHaveLength(3);
  });

  it('pages through all customers, and ignores an unknown order or filter', async () => {
    for (let n = 0; n < 55; n++) await createOrganization(service.context.db, { slug: `page-${100 + n}` });
    const first = await open('/console?search=page-');
    expect(slugsOn(first)).toHaveLength(25);
    const slugs = slugsOn(first);
    let text = first;
    for (const count of [25, 5]) {
      text = await open(/rel="next" href="([^"]+)"/.exec(text)![1]!.replaceAll('&amp;', '&'));
      expect(slugsOn(text)).toHaveLength(count);
      slugs.push(...slugsOn(text));
    }
    expect([new Set(slugs).size, text.includes('rel="next"')]).toEqual([55, false]);
    for (const query of ['signal=x', 'page=0', 'page=1e9', 'sort=x', "sort=name'--"])
      expect([query, slugsOn(await open(`/console?search=page-&${query}`))]).toEqual([
        query,
        slugs.slice(0, 25),
      ]);
    const { status } = await operator.browser.get('/console?search=a&search=b', html);
    expect(status).toBe(400);
  });
});

it('creates a customer, but never the same one twice', async () => {
  const made = await post('/console/new-customer', { name: ' Initech ', slug: 'initech' });
  expect([made.status, made.headers.get('location')]).toEqual([
    303,
    '/console/customers/initech?done=created',
  ]);
  const again = await post('/console/new-customer', { name: 'Other', slug: 'initech' });
  expect([again.status, again.text.includes('Taken by another customer')]).toEqual([400, true]);
  const wrong = await post('/console/new-customer', { name: 'x', slug: 'initech', email: 'a@b' });
  expect([wrong.text.includes('Taken by another'), wrong.text.includes('#field-email')]).toEqual([
    true,
    true,
  ]);
  expect((await post('/console/new-customer', { name: 'x', slug: 'Ünicode' })).status).toBe(400);
  const email = 'owner@polaris.example';
  const invited = await post('/console/new-customer', { name: 'Polaris', slug: 'polaris', email });
  expect(invited.text).toMatch(/class="alert"\s+data-tone="good"[^]*?Polaris was created\./);
  expect(invited.text).toContain(
    'primary" href="/console/customers/polaris"><span>Open <bdi>Polaris</bdi></span></a>',
  );
  const form = await open('/console/new-customer');
  expect(form).not.toContain('Positions stay until they settle');
  expect(await open('/console/customers/polaris/settings')).toMatch(
    /Positions stay until they settle[^]*>Reduce only</,
  );
  expect(form.indexOf('name="plan"')).toBeLessThan(form.indexOf('name="marketAccess"'));
  const [row] = await database.db.orm.select().from(organizations).where(eq(organizations.slug, 'initech'));
  expect(row).toMatchObject({ name: 'Initech', marketAccess: 'none' });
  const [entry] = await auditOf(database.db, row!.id);
  expect(entry).toMatchObject({ action: 'organization.created', actor: `operator:${operator.email}` });
});

it('gives a new customer the simulated markets, and real ones only by choice', async () => {
  const accessOf = async (slug: string) =>
    (await database.db.orm.select().from(organizations).where(eq(organizations.slug, slug)))[0]!.marketAccess;
  for (const [env, first] of [
    [{ MARKET_SOURCE: 'kalshi' }, 'none'],
    [{ MARKETS: 'off' }, undefined],
  ] as const) {
    const other = await startTestService(database.db, { env });
    const { browser } = await signedInOperator(other);
    const { text } = await browser.get('/console/new-customer', html);
    expect(/name="marketAccess"\s+value="(\w+)"\s+checked/.exec(text)?.[1]).toBe(first);
    const make = (slug: string, fields = {}) =>
      post('/console/new-customer', { name: 'New', slug, ...fields }, browser);
    const [left, chosen] = [`left-${first ?? 'off'}`, `chosen-${first ?? 'off'}`];
    expect((await make(left)).status).toBe(303);
    expect((await make(chosen, { marketAccess: 'trade' })).status).toBe(303);
    expect([await accessOf(left), await accessOf(chosen)]).toEqual(['none', 'trade']);
    await other.stop();
  }
});

describe('a customer', () => {
  it('is shown on each of its pages, and an unknown name is not found', async () => {
    const { slug, product } = await customer({ used: '5', cap: '10' });
    for (const tab of [
      '',
      '/people',
      '/entitlements',
      '/keys',
      '/webhooks',
      '/webhooks/new',
      '/trading',
      '/audit-log',
      '/invite',
      '/archive',
      '/entitlement',
    ])
      expect((await open(`/console/customers/${slug}${tab}`)).split('class="page-head"')[1]).toMatch(
        /Change plan<.*Grant credits<.*View the portal<.*Credits left<.*Runs out<.* this month<.*Plan<.*Owner<.*Health</s,
      );
    expect(await open(`/console/customers/${slug}/entitlements`)).toContain(product.slug);
    // Without the figures, other tabs still open, and the log says why.
    const read = vi.spyOn(customerSummary, 'read').mockRejectedValue(new Error('away'));
    const warn = vi.spyOn(service.context.log, 'warn');
    onTestFinished(() => [read, warn].forEach((spy) => spy.mockRestore()));
    expect(await open(`/console/customers/${slug}/people`)).not.toContain('Credits left');
    expect(warn.mock.calls.map(([fields]) => fields)).toEqual([
      expect.objectContaining({ organization: slug }),
    ]);
    read.mockRestore();
    for (const name of ['nobody', 'Ünicode', '%00', "a'b"]) {
      const { status } = await operator.browser.get(`/console/customers/${encodeURIComponent(name)}`, html);
      expect([name, status]).toEqual([name, 404]);
    }
  });

  it('is renamed and required to use second factors, and its audit log names the author', async () => {
    const { id, slug } = await customer();
    const { status } = await post(`/console/customers/${slug}/settings`, {
      name: '<i>New</i>',
      requireSecondFactor: 'yes',
    });
    expect(status).toBe(303);
    expect((await post(`/console/customers/${slug}/settings`, { name: ' ' })).status).toBe(400);
    const text = await open(`/console/customers/${slug}/audit-log`);
    expect(text).toContain('&lt;i&gt;New&lt;/i&gt;');
    // The head has only its own buttons.
    const [head] = /<header class="page-head">.*?<\/header>/s.exec(text)!;
    expect(head.match(/<a class="button" href="[^"]+/g)).toEqual(
      ['plan', 'credits/grant'].map((path) => `<a class="button" href="/console/customers/${slug}/${path}`),
    );
    expect(text).toContain(operator.email);
    const [row] = await database.db.orm.select().from(organizations).where(eq(organizations.id, id));
    expect(row).toMatchObject({ name: '<i>New</i>', requireSecondFactor: true });
  });

  it('gains and loses access to markets, and its audit log names the author', async () => {
    const { id, slug } = await customer();
    const customerPath = `/console/customers/${slug}`;
    const path = `${customerPath}/settings`;
    const chosen = async () =>
      /value="(\w+)"\s+checked/.exec((await open(path)).split('id="field-marketAccess"')[1]!)![1];
    const stored = async () => {
      const [row] = await database.db.orm.select().from(organizations).where(eq(organizations.id, id));
      return row!.marketAccess;
    };
    expect(await chosen()).toBe('trade');
    for (const marketAccess of ['read', 'none', 'trade'] as const) {
      expect((await post(path, { name: 'Acme', marketAccess })).status).toBe(303);
      expect([await chosen(), await stored()]).toEqual([marketAccess, marketAccess]);
      expect(await open(`${customerPath}/audit-log`)).toContain(
        `et market access to ${marketAccess === 'read' ? 'reduce only' : marketAccess}`,
      );
    }
    const rows = await auditOf(database.db, id);
    expect(rows.map(({ actor }) => actor)).toEqual(rows.map(() => `operator:${operator.email}`));
    await post(path, { name: 'Acme' });
    expect(await stored()).toBe('trade');
    for (const marketAccess of ['all', 'TRADE', '<i>', '\u0000']) {
      const { status } = await post(path, { name: 'Acme', marketAccess });
      expect([marketAccess, status, await stored()]).toEqual([marketAccess, 400, 'trade']);
    }
  });

  it('gets, changes and loses entitlements with their own caps', async () => {
    const { slug } = await customer();
    const { slug: product } = await createProduct(service.context.db, { unitCap: '7' });
    const path = `/console/customers/${slug}/entitlement`;
    const bad = await post(path, { product, kind: 'live', cap: 'own', unitCap: '' });
    expect([bad.status, bad.text.includes('Required for a custom cap')]).toEqual([400, true]);
    expect((await post(path, { product, kind: 'live', cap: 'own', unitCap: '-1' })).status).toBe(400);
    expect((await post(path, { product, kind: 'live', cap: 'own', unitCap: '012.50' })).status).toBe(303);
    expect(await open(`/console/customers/${slug}/entitlements`)).toMatch(/of 12\.5\b/);
    expect(await open(`${path}?product=${product}`)).toContain('value="12.5"');
    const ends = { product, kind: 'read_only', cap: 'none', endsAt: '2000-01-01T00:00' };
    expect((await post(`${path}?product=${product}`, ends)).status).toBe(400);
    const again = await post(path, { ...ends, endsAt: '2999-01-01T00:00' });
    expect([again.status, again.text.includes('Already granted')]).toEqual([400, true]);
    const ended = { ...ends, endsAt: '2999-01-01T00:00', step: 'save' };
    expect((await post(`${path}?product=${product}`, ended)).status).toBe(303);
    expect(await open(`/console/customers/${slug}/entitlements`)).toContain('Read-only');
  });

  it.each(['product', 'none'])('cannot get a typed cap with the choice “%s”', async (cap) => {
    const { id, slug, product } = await customer();
    const before = await database.db.orm.select().from(entitlements).where(eq(entitlements.orgId, id));
    const path = `/console/customers/${slug}/entitlement?product=${product.slug}`;
    const sent = await post(path, { product: product.slug, kind: 'live', cap, unitCap: '1000' });
    expect([sent.status, sent.text.includes('href="#field-unitCap"')]).toEqual([400, true]);
    expect(sent.text).toContain('another option is selected: choose the custom cap, or clear this field');
    expect(sent.text).toMatch(/name="unitCap"[^>]*value="1000"/);
    expect(await database.db.orm.select().from(entitlements).where(eq(entitlements.orgId, id))).toEqual(
      before,
    );
  });

  it('loses an entitlement only after a confirmation page', async () => {
    const { slug, product } = await customer();
    const path = `/console/customers/${slug}/entitlement`;
    const question = `${path}/withdraw?product=${product.slug}`;
    const page = await open(`${path}?product=${product.slug}`);
    expect(page).toContain(`href="${question}"`);
    expect(page).not.toContain(`action="${path}/withdraw`);
    const asked = await open(question);
    expect([asked.includes(product.name), asked.includes('Withdraw entitlement')]).toEqual([true, true]);
    expect((await post(question, { product: product.slug })).status).toBe(303);
    expect((await post(question, { product: product.slug })).status).toBe(404);
    for (const [query, status] of [
      ['', 400],
      ['?product=none', 404],
      [`?product=${product.slug}`, 404],
    ] as const)
      expect([query, (await operator.browser.get(`${path}/withdraw${query}`, html)).status]).toEqual([
        query,
        status,
      ]);
  });

  it('gets members by invitation, whose roles can change until they are removed', async () => {
    const { id, slug } = await customer();
    const base = `/console/customers/${slug}`;
    const roleOf = async () =>
      /name="role" value="(\w+)"[^>]*checked/.exec(await open(`${base}/invite`))?.[1];
    expect(await roleOf()).toBe('owner');
    const invited = await post(`${base}/invite`, { email: ' Owner@ACME.example ', role: 'owner', days: '7' });
    expect([invited.status, invited.text.includes('/dashboard/join#')]).toEqual([201, true]);
    expect(await open(`${base}/people`)).toContain('owner@acme.example');
    const people = await open(`${base}/people`);
    const again = /href="([^"]+)">New link…/.exec(people)![1]!.replaceAll('&amp;', '&');
    expect(await open(again)).toMatch(/name="email"[^>]*value="owner@acme\.example"/);
    expect(people).toMatch(/<details>\s*<summary>Revoke….*<form[^>]+\/revoke">/s);
    const invitation = /invitations\/([\da-f-]{36})\/revoke/.exec(await open(`${base}/people`))![1]!;
    expect((await post(`${base}/invitations/${invitation}/revoke`)).status).toBe(303);
    const user = await createUser(service.context.db);
    await addMember(service.context.db, id, user.id, 'owner');
    expect(await roleOf()).toBe('member');
    expect(await open(`${base}/people`)).toMatch(
      new RegExp(
        `<a[^>]* href="/console/people/${user.id}">.*"Second factor"><div><bdi class="quiet">Off<.*"Last seen"><div><span class="quiet">Not in 90 days<`,
        's',
      ),
    );
    expect(await open(`${base}/people/${user.id}`)).toContain('the only owner');
    expect((await post(`${base}/people/${user.id}/role`, { role: 'boss' })).status).toBe(400);
    expect((await post(`${base}/people/${user.id}/role`, { role: 'billing' })).status).toBe(303);
    expect((await post(`${base}/people/${user.id}/remove`)).status).toBe(303);
    expect((await post(`${base}/people/${user.id}/remove`)).status).toBe(404);
    const rows = await auditOf(database.db, id);
    expect(rows.map(({ action }) => action)).toEqual([
      'member.invited',
      'invitation.revoked',
      'member.role_changed',
      'member.removed',
    ]);
    expect(new Set(rows.map(({ actor }) => actor))).toEqual(new Set([`operator:${operator.email}`]));
  });

  it('has its own keys revoked, and no other customer’s keys can be revoked through its address', async () => {
    const { db } = service.context;
    const own = await customer();
    const other = await customer();
    const key = await createKey(db, own.id, { name: '<b>key' });
    const text = await open(`/console/customers/${own.slug}/keys`);
    expect([text.includes('&lt;b&gt;key'), text.includes(key.secret)]).toEqual([true, false]);
    expect(text).toMatch(/data-label="Created"><div><span class="nowrap">\d+ \w+ \d{4}</);
    const successor = await createKey(db, own.id);
    await db.orm.update(apiKeys).set({ rotatedFromId: key.id }).where(eq(apiKeys.id, successor.id));
    expect(await open(`/console/customers/${own.slug}/keys`)).toMatch(/<bdi>replaces \S+…<\/bdi>/);
    expect((await post(`/console/customers/${other.slug}/keys/${key.id}/revoke`)).status).toBe(404);
    expect((await post(`/console/customers/${own.slug}/keys/${key.id}/revoke`)).status).toBe(303);
    const { status } = await fetch(`${service.url}/api/key`, {
      headers: { authorization: `Bearer ${key.secret}` },
    });
    expect(status).toBe(401);
    const [entry] = await auditOf(db, own.id);
    expect(entry).toMatchObject({
      action: 'api_key.revoked',
      actor: `operator:${operator.email}`,
      target: key.id,
    });
  });

  it('gets risk limits and a switch', async () => {
    const { slug } = await customer();
    const unknown = await operator.browser.get('/console/customers/nope', html);
    expect(unknown.text).toContain('There is no customer “nope”.');
    const path = `/console/customers/${slug}/trading`;
    expect((await post(`${path}/limits`, { maxOpenOrders: '-1' })).text).toContain(
      'Must be a whole number from 0.',
    );
    expect(await open(path)).toContain('All open: the whole service’s');
    expect(await open(path)).toContain('>see and trade markets</a>');
    expect((await post(`${path}/limits`, { maxOpenOrders: '7', maxDailyLoss: '50' })).status).toBe(303);
    expect(await open(path)).toContain('value="50.0000"');
    expect(await open(path)).toContain(`class="button danger" href="${path}/switch?state=halt"`);
    const asked = await open(`${path}/switch?state=halt`);
    expect(asked).toMatch(/Halt trading for .+\?<\/h1>/);
    expect(asked).toContain('<button class="button danger">Halt trading</button>');
    expect((await post(`${path}/switch`, { state: 'halt', reason: '' })).status).toBe(400);
    expect((await post(`${path}/switch`, { state: 'halt', reason: 'why <x>' })).status).toBe(303);
    expect(await open(path)).toContain('why &lt;x&gt;');
    expect((await post(`${path}/limits/withdraw`)).status).toBe(303);
  });
});

it('keeps its settings when it is archived and restored', async () => {
  const { db, clock } = service.context;
  const { id, slug, product } = await customer();
  const key = await createKey(db, id);
  const revoked = await createKey(db, id, { revokedAt: new Date(clock.now()) });
  const other = await createKey(db, (await customer()).id);
  const user = await createUser(db);
  await addMember(db, id, user.id, 'owner');
  const member = new Browser(service.url);
  await member.signIn(user.email);
  const ask = async (secret: string) => {
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
    const answers = await Promise.all([
      fetch(`${service.url}/api/key`, { headers }),
      fetch(`${service.url}/api/entitlements/${product.slug}`, { headers }),
      fetch(`${service.url}/api/usage/events`, {
        method: 'POST',
        headers,
        body: JSON.stringify({
          events: [
            {
              idempotencyKey: `${slug} ${++counter}`,
              productSlug: product.slug,
              metric: 'calls',
              quantity: 1,
            },
          ],
        }),
      }),
      fetch(`${service.url}/portfolio`, { headers }),
    ]);
    const bodies = (await Promise.all(answers.map((answer) => answer.json()))) as {
      code?: string;
      detail?: string;
    }[];
    return { statuses: answers.map(({ status }) => status), bodies };
  };
  expect((await ask(key.secret)).statuses.slice(0, 3)).toEqual([200, 200, 202]);

  const archived = await post(`/console/customers/${slug}/archive`, { archived: 'yes' });
  expect(archived.headers.get('location')).toBe(`/console/customers/${slug}?done=archived`);
  const { statuses, bodies } = await ask(key.secret);
  expect(statuses).toEqual([401, 401, 401, 401]);
  for (const { code, detail } of bodies)
    expect([code, detail]).toEqual(['key_revoked', expect.stringContaining('was archived')]);
  expect((await ask(other.secret)).statuses[0]).toBe(200);
  const page = await member.get('/dashboard', html);
  expect([page.status, page.text.includes('is archived')]).toEqual([403, true]);
  expect(
    (await member.send('POST', '/dashboard/api-keys', { json: { name: 'x', livemode: true } })).status,
  ).toBe(403);
  expect((await member.get('/dashboard/account', html)).status).toBe(200);
  expect(slugsOn(await open(`/console?search=${slug}`))).toEqual([]);
  expect(slugsOn(await open(`/console?search=${slug}&signal=archived`))).toEqual([slug]);
  expect(await open(`/console/customers/${slug}`)).toContain(
    `/console/customers/${slug}/archive">Restore…</a>`,
  );

  expect((await post(`/console/customers/${slug}/archive`, { archived: 'no' })).status).toBe(303);
  expect((await ask(key.secret)).statuses.slice(0, 3)).toEqual([200, 200, 202]);
  expect((await ask(revoked.secret)).bodies[0]).toMatchObject({
    code: 'key_revoked',
    detail: expect.stringContaining('has been revoked'),
  });
  expect((await member.get('/dashboard', html)).status).toBe(200);
  const rows = await auditOf(db, id);
  expect(rows.map(({ action }) => action).toSorted()).toEqual([
    'organization.archived',
    'organization.restored',
  ]);
});

it('a change that an operator did not finish is in no log', async () => {
  const before = await database.db.orm.select().from(operatorLog).orderBy(operatorLog.seq);
  await post('/console/new-customer', { name: '', slug: '' });
  expect(await database.db.orm.select().from(operatorLog).orderBy(operatorLog.seq)).toHaveLength(
    before.length,
  );
});
