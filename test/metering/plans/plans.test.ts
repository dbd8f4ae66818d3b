import { describe, expect, it } from 'vitest';
import { createPlanJob } from '../../../src/metering/plans/job.js';
import { DAY_MS, HOUR_MS } from '../../../src/core/time.js';
import type { components } from '../../../src/client/api.js';
import { createEndingMessages } from '../../../src/metering/notices/endings.js';
import { operatorClient, unique } from '../../support/operator.js';
import { createListeningOrganization, readWebhookData } from '../../support/webhook-messages.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

const call = operatorClient(() => service);
const job = () =>
  createPlanJob({ db: database.db, clock: service.clock, metrics: service.context.metrics })();
const iso = (ms: number) => new Date(ms).toISOString();

type Entitlement = components['schemas']['Grant'];
type CreditGrant = components['schemas']['CreditGrant'];
type LogEntry = components['schemas']['ChainedAuditEntry'];

async function product(more: object = {}) {
  const slug = unique('product');
  await call('PUT', `/products/${slug}`, { name: 'Product', usageMetric: 'calls', ...more });
  return slug;
}

async function organization() {
  const slug = unique('org');
  await call('PUT', `/organizations/${slug}`, { name: 'Org' });
  const path = `/organizations/${slug}`;
  return {
    slug,
    put: (body: object, query = '') => call('PUT', `${path}/plan${query}`, body),
    plan: () => call('GET', `${path}/plan`),
    end: () => call('DELETE', `${path}/plan`),
    declare: (productSlug: string, body: object) => call('PUT', `${path}/entitlements/${productSlug}`, body),
    entitlements: async () => (await call('GET', `${path}/entitlements`)).body.entitlements as Entitlement[],
    grants: async () =>
      ((await call('GET', `${path}/credits`)).body.grants as CreditGrant[]).toSorted((a, b) =>
        a.grantKey < b.grantKey ? -1 : 1,
      ),
    actions: async () =>
      ((await call('GET', `${path}/audit-log`)).body.auditLog as LogEntry[]).map(({ action }) => action),
  };
}

const credits = (amount: number, more: object = {}) => ({
  key: 'credits',
  amount,
  every: 'month',
  expires: 'period',
  ...more,
});

async function plan(body: object) {
  const slug = unique('plan').slice(0, 60);
  const put = (more: object) => call('PUT', `/plans/${slug}`, { name: 'Plan', entitlements: [], ...more });
  expect(await put(body)).toMatchObject({ status: 201, body: { version: 1 } });
  return { slug, put, get: () => call('GET', `/plans/${slug}`) };
}

describe('a plan', () => {
  it('has a new version only if its definition changes', async () => {
    const slug = await product();
    const digits = '12345678901234567890.123456789';
    const body = `{"name":"Plan","entitlements":[{"productSlug":"${slug}","unitCap":${digits},"limits":[{"quantity":${digits},"window":"PT5H"}]}],"grants":[{"key":"a","amount":0.000000000001,"every":"day","expires":null}]}`;
    const address = `/plans/${unique('plan').slice(0, 60)}`;
    const made = await call('PUT', address, body);
    expect(made.status).toBe(201);
    expect(made.text.split(digits)).toHaveLength(3);
    expect((await call('GET', address)).text).toBe(made.text);
    expect(await call('PUT', address, body)).toMatchObject({ status: 200, body: { version: 1 } });
    expect(await call('PUT', address, body.replace('"Plan"', '"New name"'))).toMatchObject({
      body: { version: 1, name: 'New name' },
    });
    expect(await call('PUT', address, { name: 'Plan', entitlements: [] })).toMatchObject({
      status: 200,
      body: { version: 2, grants: [] },
    });
    expect((await call('GET', `${address}?version=1`)).text).toContain(digits);
    expect((await call('GET', `${address}?version=3`)).status).toBe(404);
    const log = (await call('GET', '/audit-log?limit=500')).body.auditLog as LogEntry[];
    expect(log.filter(({ target }) => address.endsWith(target)).map(({ action }) => action)).toEqual([
      'plan.changed',
      'plan.changed',
      'plan.created',
    ]);
  });

  it('names what is wrong with it, and changes nothing', async () => {
    const slug = await product();
    const { put, get } = await plan({});
    const before = (await get()).body;
    const cases: [object, string][] = [
      [
        { entitlements: [{ productSlug: slug }, { productSlug: 'nothing-here' }] },
        '/entitlements/1/productSlug',
      ],
      [{ entitlements: [{ productSlug: slug }, { productSlug: slug }] }, '/entitlements'],
      [{ entitlements: [{ productSlug: slug, startsAt: iso(0) }] }, '/entitlements/0/startsAt'],
      [{ entitlements: [{ productSlug: slug, features: { A: 1 } }] }, '/entitlements/0/features/A'],
      [
        { entitlements: [{ productSlug: slug, limits: [{ quantity: 1, window: 'PT5H', per: 'subject' }] }] },
        '/entitlements/0/limits/0/per',
      ],
      [{ grants: [credits(1), credits(2)] }, '/grants'],
      [{ grants: [credits(0)] }, '/grants/0/amount'],
      [{ grants: [credits(1, { every: 'year' })] }, '/grants/0/every'],
      [{ grants: [credits(1, { productSlugs: ['nothing-here'] })] }, '/grants/0/productSlugs/0'],
      [{ trial: { days: 0 } }, '/trial/days'],
      [
        { trial: { days: 1, grants: [credits(1, { productSlugs: ['nothing-here'] })] } },
        '/trial/grants/0/productSlugs/0',
      ],
      [{ grants: Array.from({ length: 9 }, (_, i) => credits(1, { key: `k${i}` })) }, '/grants'],
    ];
    for (const [body, pointer] of cases) {
      const answer = await put(body);
      expect([400, 422]).toContain(answer.status);
      expect(answer.body.errors[0].pointer).toBe(pointer);
    }
    expect((await get()).body).toEqual(before);
    expect(
      (await call('PUT', '/plans/nothing-made', { name: 'P', entitlements: [{ productSlug: 'no' }] })).status,
    ).toBe(422);
    expect((await call('GET', '/plans/nothing-made')).status).toBe(404);
  });
});

describe("an Organization's plan", () => {
  it('sets entitlements and credits at once; a repeat changes nothing', async () => {
    const [first, second] = [await product({ features: { sso: true } }), await product()];
    const { slug } = await plan({
      entitlements: [
        { productSlug: first, unitCap: 5.5, features: { seats: 3 } },
        { productSlug: second, kind: 'read_only' },
      ],
      grants: [credits(100)],
    });
    const own = await organization();
    const at = service.clock.now();
    expect(await own.put({ plan: slug })).toMatchObject({
      status: 201,
      body: { plan: slug, version: 1, state: 'active', startsAt: iso(at), anchor: iso(at), setByHand: [] },
    });
    expect(await own.entitlements()).toMatchObject(
      [
        { productSlug: first, kind: 'live', unitCap: 5.5, features: { sso: true, seats: 3 }, plan: slug },
        { productSlug: second, kind: 'read_only', plan: slug },
      ].toSorted((a, b) => (a.productSlug < b.productSlug ? -1 : 1)),
    );
    expect(await own.grants()).toMatchObject([
      { grantKey: `plan:credits:${iso(at)}`, amount: 100, status: 'open', startsAt: iso(at) },
    ]);
    const actions = await own.actions();
    expect((await own.put({ plan: slug })).status).toBe(200);
    await job();
    expect(await own.actions()).toEqual(actions);
    expect(actions).toContain('plan.started');
    expect((await call('GET', `/plans/${slug}/organizations`)).body.organizations).toMatchObject([
      { organization: own.slug, version: 1 },
    ]);
  });

  it('leaves what was set by hand, until it is replaced', async () => {
    const first = await product();
    const { slug } = await plan({ entitlements: [{ productSlug: first, unitCap: 5 }] });
    const own = await organization();
    await own.declare(first, { kind: 'live', unitCap: 7 });
    expect((await own.put({ plan: slug })).body.setByHand).toEqual([first]);
    expect(await own.entitlements()).toMatchObject([{ unitCap: 7, plan: null }]);
    expect((await own.put({ plan: slug }, '?replace=true')).body.setByHand).toEqual([]);
    expect(await own.entitlements()).toMatchObject([{ unitCap: 5, plan: slug }]);
    await own.declare(first, { kind: 'live', unitCap: 7 });
    expect((await own.end()).status).toBe(204);
    expect(await own.entitlements()).toMatchObject([{ unitCap: 7, plan: null }]);
    expect((await own.plan()).status).toBe(404);
    expect((await own.end()).status).toBe(404);
  });

  it('changes in one transaction; credits of the running period stay, unless they are voided', async () => {
    const [first, second] = [await product(), await product()];
    const small = await plan({ entitlements: [{ productSlug: first }], grants: [credits(100)] });
    const large = await plan({ entitlements: [{ productSlug: second }], grants: [credits(500)] });
    const own = await organization();
    const anchor = iso(service.clock.now() - 30 * DAY_MS);
    await own.put({ plan: small.slug, anchor });
    // The next period has been granted ahead.
    expect((await own.grants()).map(({ amount, status }) => [amount, status])).toHaveLength(
      (await own.grants()).length,
    );
    await own.put({ plan: large.slug });
    expect(await own.entitlements()).toMatchObject([{ productSlug: second, plan: large.slug }]);
    const kept = (await own.grants()).filter(({ status }) => status !== 'voided');
    expect(kept[0]).toMatchObject({ amount: 100, status: 'open' });
    for (const { amount } of kept.slice(1)) expect(amount).toBe(500);
    await own.put({ plan: small.slug, voidGrants: true });
    const left = (await own.grants()).filter(({ status }) => status !== 'voided');
    expect(new Set(left.map(({ grantKey }) => grantKey)).size).toBe(left.length);
    for (const { amount } of left) expect(amount).toBe(100);
    expect(left[0]).toMatchObject({ grantKey: kept[0]!.grantKey, status: 'open' });
  });

  it('has a trial that ends read-only, and that is given once', async () => {
    const first = await product();
    const { slug } = await plan({
      entitlements: [{ productSlug: first }],
      grants: [credits(100)],
      trial: { days: 14, grants: [credits(5, { key: 'trial', every: 'week', expires: null })] },
    });
    const own = await organization();
    const at = service.clock.now();
    const tried = await own.put({ plan: slug, trial: true });
    expect(tried.body).toMatchObject({ state: 'trial', trialEndsAt: iso(at + 14 * DAY_MS) });
    expect((await own.put({ plan: slug, trial: true })).body).toEqual(tried.body);
    expect(await own.entitlements()).toMatchObject([{ kind: 'live', endsAt: iso(at + 14 * DAY_MS) }]);
    service.clock.advance(14 * DAY_MS);
    await job();
    expect(await own.entitlements()).toMatchObject([{ kind: 'read_only', endsAt: null }]);
    expect((await own.plan()).body.state).toBe('trial_over');
    expect((await own.grants()).map(({ grantKey }) => grantKey)).toEqual([
      `plan:trial:${iso(at)}`,
      `plan:trial:${iso(at + 7 * DAY_MS)}`,
    ]);
    expect((await own.put({ plan: slug })).body).toMatchObject({ state: 'active', trialEndsAt: null });
    expect(await own.entitlements()).toMatchObject([{ kind: 'live', endsAt: null }]);
    expect((await own.grants())[0]).toMatchObject({ grantKey: `plan:credits:${iso(at)}`, amount: 100 });
    expect(await own.put({ plan: slug, trial: true })).toMatchObject({
      status: 409,
      body: { code: 'trial_used' },
    });
    await own.end();
    expect(await own.put({ plan: slug, trial: true })).toMatchObject({
      status: 409,
      body: { code: 'trial_used' },
    });
    expect((await own.plan()).status).toBe(404);
  });

  it('announces the end of a trial, until it is confirmed', async () => {
    const { id, slug: organizationSlug } = await createListeningOrganization(
      database.db,
      'entitlement.ending',
      [true],
    );
    const productSlug = await product();
    const { slug } = await plan({ entitlements: [{ productSlug }], trial: { days: 14 } });
    const path = `/organizations/${organizationSlug}/plan`;
    const endsAt = iso(service.clock.now() + 14 * DAY_MS);
    await call('PUT', path, { plan: slug, trial: true });
    const look = createEndingMessages(service.context);
    const announced = () => readWebhookData(database.db, id, 'entitlement.ending');
    await look();
    expect(await announced()).toEqual([]);
    service.clock.advance(8 * DAY_MS);
    await look();
    expect(await announced()).toEqual([{ productSlug, kind: 'live', endsAt, daysBefore: 7 }]);
    await call('PUT', path, { plan: slug });
    service.clock.advance(5.5 * DAY_MS);
    await look();
    expect(await announced()).toHaveLength(1);
  });

  it('refuses an unknown plan, a trial that is not offered and another start', async () => {
    const { slug } = await plan({});
    const own = await organization();
    expect(await own.put({ plan: 'nothing-here' })).toMatchObject({
      status: 422,
      body: { code: 'unknown_plan' },
    });
    expect(await own.put({ plan: slug, trial: true })).toMatchObject({
      body: { errors: [{ pointer: '/trial' }] },
    });
    expect((await own.plan()).status).toBe(404);
    await own.put({ plan: slug });
    expect(await own.put({ plan: slug, startsAt: iso(0) })).toMatchObject({
      status: 400,
      body: { errors: [{ pointer: '/startsAt' }] },
    });
  });

  it('can begin later', async () => {
    const first = await product();
    const { slug } = await plan({ entitlements: [{ productSlug: first }], grants: [credits(100)] });
    const own = await organization();
    const startsAt = iso(service.clock.now() + 10 * DAY_MS);
    expect((await own.put({ plan: slug, startsAt })).body.state).toBe('scheduled');
    expect(await own.entitlements()).toMatchObject([{ startsAt }]);
    expect(await own.grants()).toMatchObject([{ startsAt, status: 'scheduled' }]);
    await own.end();
    expect(await own.grants()).toMatchObject([{ status: 'voided' }]);
    expect(await own.entitlements()).toEqual([]);
  });

  it('grants coming periods ahead, and voids them when it ends', async () => {
    const { slug } = await plan({ grants: [credits(1, { every: 'day' })] });
    const own = await organization();
    await own.put({ plan: slug });
    expect((await own.grants()).map(({ status }) => status)).toEqual(['open', 'scheduled', 'scheduled']);
    service.clock.advance(12 * HOUR_MS);
    await own.end();
    expect((await own.grants()).map(({ status }) => status)).toEqual(['open', 'voided', 'voided']);
    // The keys of voided grants are free again.
    await own.put({ plan: slug, anchor: iso(service.clock.now() - 12 * HOUR_MS) });
    const kept = (await own.grants()).filter(({ status }) => status !== 'voided');
    expect(kept.map(({ status }) => status)).toEqual(['open', 'scheduled', 'scheduled']);
  });
});

describe('POST /operator/plans/:slug/move', () => {
  it('moves everybody, or some, once', async () => {
    const [first, second] = [await product(), await product()];
    const { slug, put, get } = await plan({
      entitlements: [{ productSlug: first }],
      grants: [credits(1, { every: 'day' })],
    });
    const all = await Promise.all(Array.from({ length: 4 }, organization));
    for (const own of all) await own.put({ plan: slug });
    await put({
      entitlements: [{ productSlug: first, unitCap: 9 }, { productSlug: second }],
      grants: [credits(2, { every: 'day' })],
    });
    expect((await get()).body.versions).toMatchObject([
      { version: 2, organizations: 0 },
      { version: 1, organizations: 4 },
    ]);
    // A repeated PUT does not move.
    expect((await all[0]!.put({ plan: slug })).body.version).toBe(1);
    const move = (body: object) => call('POST', `/plans/${slug}/move`, body);
    expect(await move({ organizations: [all[0]!.slug, 'nothing-here'] })).toMatchObject({
      status: 404,
      body: { errors: [{ index: 1, pointer: '/organizations/1' }] },
    });
    expect((await move({ organizations: [all[0]!.slug] })).body).toEqual({
      version: 2,
      moved: 1,
      remaining: 0,
    });
    expect((await move({ from: 1 })).body).toEqual({ version: 2, moved: 3, remaining: 0 });
    expect((await move({})).body).toEqual({ version: 2, moved: 0, remaining: 0 });
    expect(await move({ from: 2 })).toMatchObject({ status: 400, body: { errors: [{ pointer: '/from' }] } });
    await job();
    for (const own of all) {
      expect((await own.actions()).filter((action) => action === 'credits.voided')).toHaveLength(2);
      expect((await own.actions()).filter((action) => action === 'plan.changed')).toHaveLength(1);
      expect((await own.plan()).body.version).toBe(2);
      expect(new Set((await own.entitlements()).map(({ productSlug }) => productSlug))).toEqual(
        new Set([first, second]),
      );
      expect(
        (await own.grants()).filter(({ status }) => status !== 'voided').map(({ amount }) => amount),
      ).toEqual([1, 2, 2]);
    }
    expect((await get()).body.versions).toMatchObject([{ version: 2, organizations: 4 }]);
  });
});
