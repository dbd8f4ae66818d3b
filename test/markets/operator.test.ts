import { describe, expect, it } from 'vitest';
import { isEmbedded } from '../support/database.js';
import { hostileSlugs, operatorClient, unique } from '../support/operator.js';
import { useService } from '../support/use.js';

const { service } = useService();

const call = operatorClient(() => service);

async function setUp() {
  const slug = unique('org');
  await call('PUT', `/organizations/${slug}`, { name: 'Org' });
  const path = `/organizations/${slug}/trading`;
  return { slug, limits: `${path}/limits`, own: `${path}/switch` };
}
const audit = async (slug: string): Promise<any[]> =>
  (await call('GET', `/organizations/${slug}/audit-log`)).body.auditLog;
const now = () => new Date(service.clock.now()).toISOString();

const defaults = {
  maxOrderContracts: 1000,
  maxOrderCost: '250.0000',
  maxPositionContracts: 1000,
  maxEventLoss: '500.0000',
  maxDailyLoss: '200.0000',
  maxOpenOrders: 20,
  priceCollar: '0.1000',
};
const none = Object.fromEntries(Object.keys(defaults).map((name) => [name, null]));

describe.runIf(isEmbedded)('the limits of an Organization', () => {
  it('are the defaults until declared, and again after withdrawal', async () => {
    const { limits } = await setUp();
    const untouched = { effective: defaults, declared: none, updatedAt: null };
    expect(await call('GET', limits)).toMatchObject({ status: 200, body: untouched });
    expect((await call('DELETE', limits)).status).toBe(404);
    await call('PUT', limits, { maxOpenOrders: 3 });
    expect((await call('DELETE', limits)).status).toBe(204);
    expect((await call('DELETE', limits)).status).toBe(404);
    expect((await call('GET', limits)).body).toEqual(untouched);
  });

  it('are replaced in full, with defaults for omitted and null values', async () => {
    const { limits } = await setUp();
    const all = {
      maxOrderContracts: 0,
      maxOrderCost: '12.345678',
      maxPositionContracts: 10_000_000,
      maxEventLoss: '999999999',
      maxDailyLoss: '0',
      maxOpenOrders: 1,
      priceCollar: '0.05',
    };
    const written = {
      ...all,
      maxOrderCost: '12.345678',
      maxEventLoss: '999999999.0000',
      maxDailyLoss: '0.0000',
      priceCollar: '0.0500',
    };
    const put = await call('PUT', limits, all);
    expect(put).toMatchObject({
      status: 201,
      body: { effective: written, declared: written, updatedAt: now() },
    });
    expect((await call('GET', limits)).body).toEqual(put.body);
    const less = await call('PUT', limits, { maxOpenOrders: 7, maxOrderCost: null });
    expect(less).toMatchObject({
      status: 200,
      body: { effective: { ...defaults, maxOpenOrders: 7 }, declared: { ...none, maxOpenOrders: 7 } },
    });
    expect((await call('PUT', limits, {})).body.effective).toEqual(defaults);
  });

  it('change nothing and leave no audit entry when declared again unchanged', async () => {
    const { slug, limits } = await setUp();
    const first = await call('PUT', limits, { maxDailyLoss: '50' });
    service.clock.advance(1000);
    const again = await call('PUT', limits, { maxDailyLoss: '50.00' });
    expect(again).toMatchObject({ status: 200, body: first.body });
    await call('PUT', limits, { maxDailyLoss: '40', maxOrderContracts: 5 });
    await call('DELETE', limits);
    expect(await audit(slug)).toMatchObject([
      { action: 'trading_limits.withdrawn', details: { before: { maxDailyLoss: '40.0000' } } },
      {
        action: 'trading_limits.declared',
        actor: 'operator',
        target: slug,
        details: {
          before: { maxDailyLoss: '50.0000', maxOrderContracts: null },
          after: { maxDailyLoss: '40.0000', maxOrderContracts: '5' },
        },
      },
      {
        action: 'trading_limits.declared',
        details: { before: { maxDailyLoss: null }, after: { maxDailyLoss: '50.0000' } },
      },
      { action: 'organization.created' },
    ]);
  });

  it.each<[unknown, string]>([
    [{ maxOrderContracts: -1 }, '/maxOrderContracts'],
    [{ maxOrderContracts: 1.005 }, '/maxOrderContracts'],
    [{ maxOrderContracts: 10_000_001 }, '/maxOrderContracts'],
    [{ maxOrderContracts: '5' }, '/maxOrderContracts'],
    [{ maxDailyLoss: 50 }, '/maxDailyLoss'],
    [{ maxDailyLoss: '-1' }, '/maxDailyLoss'],
    [{ maxDailyLoss: '1e3' }, '/maxDailyLoss'],
    [{ maxDailyLoss: '' }, '/maxDailyLoss'],
    [{ maxDailyLoss: '1.1234567' }, '/maxDailyLoss'],
    [{ maxDailyLoss: '9'.repeat(300) }, '/maxDailyLoss'],
    [{ maxDailyLoss: '5\u0000' }, '/maxDailyLoss'],
    [{ maxDailyLoss: 'NaN' }, '/maxDailyLoss'],
    [{ maxLoss: '5' }, '/maxLoss'],
    [[], ''],
    ['text', ''],
    [null, ''],
  ])('refuse %j', async (body, pointer) => {
    const { limits } = await setUp();
    const sent = typeof body === 'string' ? JSON.stringify(body) : body;
    const answer = await call('PUT', limits, sent ?? 'null');
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request', errors: [{ pointer }] } });
    expect((await call('GET', limits)).body.updatedAt).toBeNull();
  });
});

describe.runIf(isEmbedded)('the switch of an Organization', () => {
  const untouched = { state: 'open', reason: null, changedAt: null };

  it('is open until set, gives the reason while closed, and opens again', async () => {
    const { slug, own } = await setUp();
    expect((await call('GET', own)).body).toEqual({
      state: 'open',
      service: untouched,
      operator: untouched,
      own: { ...untouched, by: null },
    });
    const halt = { state: 'halt', reason: 'bad fills' };
    const halted = await call('PUT', own, halt);
    expect(halted).toMatchObject({
      status: 200,
      body: { state: 'halt', operator: { ...halt, changedAt: now() }, own: { ...untouched, by: null } },
    });
    service.clock.advance(1000);
    expect((await call('PUT', own, halt)).body).toEqual(halted.body);
    expect((await call('GET', own)).body).toEqual(halted.body);
    expect((await call('PUT', own, { state: 'open' })).body).toMatchObject({
      state: 'open',
      operator: { state: 'open', reason: null, changedAt: now() },
    });
    expect(await audit(slug)).toMatchObject([
      { details: { before: halt, after: { state: 'open', reason: null } } },
      { action: 'trading_switch.changed', target: 'operator', actor: 'operator' },
      { action: 'organization.created' },
    ]);
  });

  it('is not the switch of another Organization', async () => {
    const [one, other] = [await setUp(), await setUp()];
    await call('PUT', one.own, { state: 'reduce_only', reason: 'r' });
    expect((await call('GET', other.own)).body.state).toBe('open');
  });
});

describe.runIf(isEmbedded)('the switch of the service', () => {
  it('overrides those of all Organizations, and is recorded in the operator’s log', async () => {
    const { own } = await setUp();
    expect((await call('GET', '/trading/switch')).body).toEqual({
      state: 'open',
      reason: null,
      changedAt: null,
    });
    const reduce = { state: 'reduce_only', reason: 'maintenance' };
    for (const _ of [1, 2])
      expect(await call('PUT', '/trading/switch', reduce)).toMatchObject({
        status: 200,
        body: { ...reduce, changedAt: now() },
      });
    expect((await call('GET', '/trading/switch')).body).toMatchObject(reduce);
    expect((await call('GET', own)).body).toMatchObject({
      state: 'reduce_only',
      service: reduce,
      operator: { state: 'open' },
    });
    // The strictest switch applies.
    expect((await call('PUT', own, { state: 'halt', reason: 'r' })).body.state).toBe('halt');
    await call('PUT', '/trading/switch', { state: 'open' });
    const { auditLog } = (await call('GET', '/audit-log')).body;
    expect(auditLog).toMatchObject([
      { action: 'trading_switch.changed', target: 'service', details: { after: { state: 'open' } } },
      { action: 'trading_switch.changed', target: 'service', details: { after: reduce } },
    ]);
  });
});

describe('each of these routes', () => {
  const switchBodies: unknown[] = [
    {},
    { state: 'closed', reason: 'r' },
    { state: 'halt' },
    { state: 'reduce_only', reason: null },
    { state: 'halt', reason: '' },
    { state: 'halt', reason: 'nul\u0000' },
    { state: 'halt', reason: 'x'.repeat(301) },
    { state: 'halt', reason: 5 },
    { state: 'halt', reason: 'r', until: 'tomorrow' },
    { state: ['halt'], reason: 'r' },
    [],
  ];

  it('refuses an invalid switch and leaves it unchanged', async () => {
    const { own } = await setUp();
    for (const path of [own, '/trading/switch'])
      for (const body of switchBodies) expect((await call('PUT', path, body)).status).toBe(400);
    expect((await call('GET', own)).body).toMatchObject({ state: 'open', operator: { changedAt: null } });
  });

  it('keeps a reason in any script verbatim', async () => {
    const { own } = await setUp();
    for (const reason of ['<script>alert(1)</script>', 'שלום ‮evil', '👩‍👩‍👧', "'; drop table x; --"])
      expect((await call('PUT', own, { state: 'halt', reason })).body.operator.reason).toBe(reason);
  });

  it('refuses a malformed slug', async () => {
    const halt = { state: 'halt', reason: 'r' };
    for (const part of ['limits', 'switch'] as const) {
      const body = part === 'limits' ? {} : halt;
      for (const slug of hostileSlugs) {
        const { status } = await call('PUT', `/organizations/${slug}/trading/${part}`, body);
        expect([400, 404]).toContain(status);
      }
    }
  });

  it('serialises concurrent changes of a switch into one state and one chain of audit entries', async () => {
    const { slug, own } = await setUp();
    const reasons = ['a', 'b', 'c', 'd', 'e', 'f'];
    const answers = await Promise.all(reasons.map((reason) => call('PUT', own, { state: 'halt', reason })));
    expect(answers.map(({ status }) => status)).toEqual(reasons.map(() => 200));
    const { body } = await call('GET', own);
    const log = (await audit(slug)).filter(({ action }) => action === 'trading_switch.changed');
    expect(log).toHaveLength(reasons.length);
    expect(log[0].details.after.reason).toBe(body.operator.reason);
  });
});
