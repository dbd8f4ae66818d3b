import { and, eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { usageBackfillEvents, usageBackfills } from '../../../src/metering/backfills/table.js';
import { products } from '../../../src/metering/entitlements/table.js';
import { usageArchives, usageEvents, usageTotals } from '../../../src/metering/ingestion/table.js';
import { createBackfillRunner } from '../../../src/metering/backfills/runner.js';
import { compare } from '../../../src/metering/reconciliation/reconcile.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { createTenant, sendUsage, usageEvent } from '../support/usage.js';
import { useService } from '../../support/use.js';
import { auditOf } from '../../support/audit.js';

const { database, service } = useService();
beforeAll(async () => {
  service.clock.set('2031-03-20T12:00:00Z');
});

const operate = operatorClient(() => service);
const orm = () => database.db.orm;

async function arrive() {
  const tenant = await createTenant(database.db);
  const orgId = tenant.organization.id;
  const live = await createKey(database.db, orgId, {
    scopes: ['usage:write', 'usage:read', 'usage:correct'],
  });
  const root = `/organizations/${tenant.organization.slug}/usage/backfills`;
  const event = (key: string, more: object = {}) =>
    usageEvent(tenant.product.slug, key, { occurredAt: '2031-02-10T10:20:30.123456Z', ...more });
  const total = async () => {
    const rows = await orm()
      .select()
      .from(usageTotals)
      .where(eq(usageTotals.orgId, orgId))
      .orderBy(usageTotals.period);
    return rows.map(({ period, quantity, events }) => [period, Number(quantity), events]);
  };
  const drift = async () => {
    const { totals, hours } = await compare(orm(), { orgId });
    return [...totals, ...hours];
  };
  const open = async (more: object = {}) => {
    const answer = await operate('POST', root, {
      reason: 'A collector was down',
      from: '2031-01-01T00:00:00Z',
      to: '2031-03-10T00:00:00Z',
      ...more,
    });
    expect([answer.status, answer.text]).toEqual([201, expect.anything()]);
    const path = `${root}/${answer.body.id}`;
    const stage = (events: object[], headers = {}) => operate('POST', `${path}/events`, { events }, headers);
    const read = async () => (await operate('GET', path)).body;
    /** Runs the job until the current step is complete, `chunk` events at a time. */
    const finish = async (chunk = 3) => {
      const run = createBackfillRunner({ db: database.db, clock: service.clock }, { chunk, turnMs: 500 });
      for (;;) {
        await run();
        const { backfill } = await read();
        if (!backfill.state.endsWith('ing')) return backfill.state;
      }
    };
    const step = async (name: 'apply' | 'revert', chunk?: number) => {
      expect((await operate('POST', `${path}/${name}`)).status).toBe(202);
      return finish(chunk);
    };
    return { path, stage, read, finish, step };
  };
  return { ...tenant, orgId, live, event, total, drift, root, open };
}

const feb = (n: number) => `2031-02-${String((n % 28) + 1).padStart(2, '0')}T0${n % 10}:00:00Z`;

describe('a backfill', () => {
  it('counts nothing until it is applied, and then counts each event once, at the time it occurred', async () => {
    const { event, total, drift, live, open, product, orgId } = await arrive();
    await sendUsage(service.url, live.secret, [usageEvent(product.slug, 'now', { quantity: 1 })]);
    const { stage, read, step } = await open();
    const events = Array.from({ length: 20 }, (_, i) =>
      event(`e${i}`, { quantity: i + 0.5, occurredAt: feb(i) }),
    );
    const first = await stage(events.slice(0, 15));
    expect([first.status, first.body]).toEqual([202, { accepted: 15, deduped: 0, warnings: [] }]);
    expect((await stage(events.slice(10))).body).toEqual({ accepted: 5, deduped: 5, warnings: [] });
    await stage([event('jan', { quantity: 7, occurredAt: '2031-01-31T23:59:59.999999Z' })]);
    expect(await total()).toEqual([['2031-03-01', 1, 1]]);
    const staged = await read();
    expect(staged).toMatchObject({
      backfill: { state: 'open', progress: { done: 0, of: 21 } },
      changes: [
        {
          productSlug: product.slug,
          metric: 'calls',
          month: '2031-01',
          events: 1,
          quantity: 7,
          repeats: 0,
          countedEvents: 0,
        },
        { month: '2031-02', events: 20, quantity: 200, countedEvents: 0 },
      ],
    });
    expect(await step('apply')).toBe('applied');
    expect(await total()).toEqual([
      ['2031-01-01', 7, 1],
      ['2031-02-01', 200, 20],
      ['2031-03-01', 1, 1],
    ]);
    expect(await read()).toMatchObject({
      backfill: { state: 'applied', progress: { done: 21, of: 21 } },
      changes: [{ countedEvents: 1 }, { countedEvents: 20, countedQuantity: 200 }],
    });
    const [row] = await orm()
      .select()
      .from(usageEvents)
      .where(and(eq(usageEvents.orgId, orgId), eq(usageEvents.idempotencyKey, 'jan')));
    expect(row).toMatchObject({ apiKeyId: staged.backfill.id, receivedAt: new Date('2031-03-20T12:00:00Z') });
    expect(await drift()).toEqual([]);
    const rows = await auditOf({ orm: orm() }, orgId);
    expect(rows.map(({ action }) => action)).toEqual([
      'usage.backfill_opened',
      'usage.backfill_applying',
      'usage.backfill_applied',
    ]);
    expect(rows.at(-1)!.details).toMatchObject({ events: 21 });
  });

  it('treats a key recorded before or meanwhile as a repeat, and reports keys of different events', async () => {
    const { event, total, drift, live, open, product } = await arrive();
    const at = '2031-03-14T00:00:00Z';
    await sendUsage(service.url, live.secret, [
      usageEvent(product.slug, 'same', { quantity: 2, occurredAt: at }),
    ]);
    const { stage, read, step } = await open();
    await stage([
      event('same', { quantity: 5 }),
      event('late', { quantity: 5 }),
      event('own', { quantity: 5 }),
    ]);
    expect(await read()).toMatchObject({
      changes: [{ events: 3, repeats: 1, mismatches: 1 }],
      mismatches: ['same'],
    });
    await sendUsage(service.url, live.secret, [
      usageEvent(product.slug, 'late', { quantity: 3, occurredAt: at }),
    ]);
    expect(await step('apply', 1)).toBe('applied');
    expect(await total()).toEqual([
      ['2031-02-01', 5, 1],
      ['2031-03-01', 5, 2],
    ]);
    expect(await drift()).toEqual([]);
    expect((await read()).changes).toMatchObject([{ countedEvents: 1, countedQuantity: 5 }]);
  });

  it('warns of a key that was staged for a different event, also within a batch', async () => {
    const { event, open } = await arrive();
    const { stage, read } = await open();
    const { body } = await stage([event('a'), event('a', { quantity: 2 }), event('a'), event('b')]);
    expect(body).toEqual({ accepted: 2, deduped: 2, warnings: [{ code: 'duplicate_mismatch', index: 1 }] });
    expect((await stage([event('b', { quantity: 9 })])).body.warnings).toEqual([
      { code: 'duplicate_mismatch', index: 0 },
    ]);
    expect((await read()).changes).toMatchObject([{ events: 2, quantity: 2 }]);
  });

  it('is fully reverted whatever its events were corrected to, and leaves other events alone', async () => {
    const { event, total, drift, live, open, product, organization } = await arrive();
    await sendUsage(service.url, live.secret, [
      usageEvent(product.slug, 'own', { quantity: 4, occurredAt: '2031-03-14T00:00:00Z' }),
    ]);
    const { stage, read, step } = await open();
    await stage([
      event('own', { quantity: 9 }),
      ...[1, 2, 3, 4, 5].map((i) => event(`e${i}`, { quantity: i })),
    ]);
    await step('apply');
    const corrections = [
      { idempotencyKey: 'e1', quantity: 100, reason: 'More', correctionKey: '1' },
      { idempotencyKey: 'e2', quantity: 0, reason: 'None', correctionKey: '2' },
    ];
    const path = `/organizations/${organization.slug}/usage/corrections`;
    expect((await operate('POST', path, { corrections })).status).toBe(200);
    expect(await total()).toEqual([
      ['2031-02-01', 112, 5],
      ['2031-03-01', 4, 1],
    ]);
    expect(await step('revert', 2)).toBe('reverted');
    expect(await total()).toEqual([
      ['2031-02-01', 0, 5],
      ['2031-03-01', 4, 1],
    ]);
    expect((await read()).changes).toMatchObject([{ countedEvents: 5, revertedEvents: 5 }]);
    expect(await drift()).toEqual([]);
    const response = await fetch(`${service.url}/api/usage/events/e1`, {
      headers: { authorization: `Bearer ${live.secret}` },
    });
    expect(await response.json()).toMatchObject({
      corrections: [
        { quantity: 100, correctedBy: 'operator' },
        {
          previousQuantity: 100,
          quantity: 0,
          reason: 'Backfill reverted: A collector was down',
          correctedBy: 'operator',
        },
      ],
    });
  });

  it('is reverted whatever correction keys its customer has used', async () => {
    const { event, live, open, total } = await arrive();
    const { stage, step, path } = await open();
    await stage([event('a'), event('b')]);
    await step('apply');
    const correctionKey = `backfill ${path.split('/').at(-1)} b`;
    const response = await fetch(`${service.url}/api/usage/corrections`, {
      method: 'POST',
      headers: { authorization: `Bearer ${live.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        corrections: [{ idempotencyKey: 'a', quantity: 5, reason: 'More', correctionKey }],
      }),
    });
    expect(response.status).toBe(200);
    expect(await step('revert')).toBe('reverted');
    expect(await total()).toEqual([['2031-02-01', 0, 2]]);
  });

  it('is reported when it fails, and does not hold up the others', async () => {
    const broken = await arrive();
    const first = await broken.open();
    await first.stage([broken.event('a')]);
    // The sums reject a negative quantity, so applying this backfill fails.
    await orm()
      .update(usageBackfillEvents)
      .set({ quantity: '-1' })
      .where(eq(usageBackfillEvents.orgId, broken.orgId));
    expect((await operate('POST', `${first.path}/apply`)).status).toBe(202);
    const other = await arrive();
    const second = await other.open();
    await second.stage([other.event('a')]);
    expect((await operate('POST', `${second.path}/apply`)).status).toBe(202);
    const run = createBackfillRunner({ db: database.db, clock: service.clock });
    await expect(run()).rejects.toThrow();
    expect((await second.read()).backfill.state).toBe('applied');
    // Otherwise this backfill would keep failing in later tests.
    await orm().delete(usageBackfills).where(eq(usageBackfills.orgId, broken.orgId));
  });

  it('is worked on by several instances at once without counting twice', async () => {
    const { event, total, drift, open } = await arrive();
    const { stage, step, path } = await open();
    await stage(Array.from({ length: 200 }, (_, i) => event(`e${i}`, { occurredAt: feb(i) })));
    await operate('POST', `${path}/apply`);
    const runners = [1, 2, 3].map(() =>
      createBackfillRunner({ db: database.db, clock: service.clock }, { chunk: 7, turnMs: 200 }),
    );
    await Promise.all(runners.map((run) => run()));
    await step('apply', 50);
    expect(await total()).toEqual([['2031-02-01', 200, 200]]);
    await operate('POST', `${path}/revert`);
    await Promise.all(runners.map((run) => run()));
    await step('revert', 50);
    expect(await total()).toEqual([['2031-02-01', 0, 200]]);
    expect(await drift()).toEqual([]);
  });

  it('is discarded with its staged events while it is open', async () => {
    const { event, total, open, orgId } = await arrive();
    const { stage, finish, path, read } = await open();
    await stage(Array.from({ length: 10 }, (_, i) => event(`e${i}`)));
    expect((await operate('DELETE', path)).body).toMatchObject({ state: 'discarding' });
    expect(await finish()).toBe('discarded');
    expect((await operate('DELETE', path)).body).toMatchObject({ state: 'discarded' });
    expect(await total()).toEqual([]);
    expect(
      await orm().select().from(usageBackfillEvents).where(eq(usageBackfillEvents.orgId, orgId)),
    ).toEqual([]);
    expect((await read()).backfill.progress).toEqual({ done: 10, of: 10 });
  });

  it('starts each step only from the right state, and repeating a step changes nothing', async () => {
    const { event, open, orgId } = await arrive();
    const { stage, step, path } = await open();
    await stage([event('a')]);
    const refused = async (method: string, more: string, body?: object) => {
      const answer = await operate(method, `${path}${more}`, body);
      expect([answer.status, answer.body.code]).toEqual([409, 'backfill_state']);
    };
    await refused('POST', '/revert');
    await operate('POST', `${path}/apply`);
    expect((await operate('POST', `${path}/apply`)).body.state).toBe('applying');
    await refused('POST', '/revert');
    await step('apply');
    await refused('POST', '/events', { events: [event('b')] });
    await refused('DELETE', '');
    await step('revert');
    await refused('POST', '/apply');
    expect((await operate('POST', `${path}/revert`)).body.state).toBe('reverted');
    const rows = await auditOf({ orm: orm() }, orgId);
    expect(rows.length).toBe(5);
  });

  it('leaves an archived month unchanged', async () => {
    const { event, total, open, orgId } = await arrive();
    const { stage, read, step } = await open();
    const archive = { orgId, livemode: true, state: 'written' as const, file: 'f', sha256: 's', events: 0 };
    const writtenAt = new Date();
    await orm()
      .insert(usageArchives)
      .values({ ...archive, period: '2031-01-01', writtenAt });
    const { body } = await stage([event('a', { occurredAt: '2031-01-05T00:00:00Z' })]);
    expect([body.code, body.detail]).toEqual([
      'timestamp_out_of_range',
      'Nothing was staged. The month 2031-01 is archived. No events can be added to it.',
    ]);
    await stage([event('b'), event('c', { occurredAt: '2031-03-05T00:00:00Z' })]);
    await orm()
      .insert(usageArchives)
      .values({ ...archive, period: '2031-02-01', writtenAt });
    await step('apply');
    expect(await total()).toEqual([['2031-03-01', 1, 1]]);
    expect((await read()).changes).toMatchObject([
      { month: '2031-02', archivedEvents: 1, countedEvents: 0 },
      { month: '2031-03', archivedEvents: 0, countedEvents: 1 },
    ]);
  });
});

describe('staging', () => {
  it('names each broken rule and stages nothing, or stages the valid events in lenient mode', async () => {
    const { event, open, product } = await arrive();
    await orm().update(products).set({ maxQuantity: '100' }).where(eq(products.id, product.id));
    const { stage, read } = await open();
    const events = [
      event('good'),
      event('a', { metric: 'other' }),
      event('b', { occurredAt: '2031-03-10T00:00:00Z' }),
      event('c', { occurredAt: '2030-12-31T23:59:59.999Z' }),
      event('d', { occurredAt: undefined }),
      event('e', { quantity: 101 }),
      { ...event('f'), productSlug: 'none' },
    ];
    const strict = await stage(events);
    expect([strict.status, strict.body.code]).toEqual([404, 'not_found']);
    expect(
      strict.body.errors.map(({ index, code }: { index: number; code: string }) => [index, code]),
    ).toEqual([
      [1, 'unknown_metric'],
      [2, 'timestamp_out_of_range'],
      [3, 'timestamp_out_of_range'],
      [4, 'timestamp_out_of_range'],
      [5, 'quantity_out_of_range'],
      [6, 'not_found'],
    ]);
    expect((await read()).changes).toEqual([]);
    const lenient = await stage(events, { prefer: 'handling=lenient' });
    expect([lenient.status, lenient.body.accepted, lenient.body.rejected.length]).toEqual([202, 1, 6]);
  });

  it('accepts events more than 7 days old, and refuses those that can still be sent', async () => {
    const { event, open } = await arrive();
    const { stage } = await open({ to: '2032-01-01T00:00:00Z' });
    expect((await stage([event('a', { occurredAt: '2031-03-13T12:00:00Z' })])).status).toBe(202);
    const { status, body } = await stage([event('b', { occurredAt: '2031-03-13T12:00:00.001Z' })]);
    expect([status, body.code]).toEqual([422, 'timestamp_out_of_range']);
  });

  it.each([
    [{}, '/events'],
    [{ events: [] }, '/events'],
    [{ events: [{ productSlug: 'a' }] }, '/events/0/metric'],
    ['{', undefined],
  ])('refuses %j', async (body, pointer) => {
    const { open } = await arrive();
    const { path } = await open();
    const answer = await operate('POST', `${path}/events`, body);
    expect([answer.status, answer.body.errors?.[0].pointer]).toEqual([400, pointer]);
  });

  it('keeps exact quantities and keys as sent', async () => {
    const { open, product, total } = await arrive();
    const { path, step } = await open();
    const key = `'; drop table usage_events; --{"a"}\\\\ 🚀`;
    const body = `{"events":[{"productSlug":"${product.slug}","metric":"calls","quantity":12345678901234567890.000001,"occurredAt":"2031-02-01T00:00:00+01:00","idempotencyKey":${JSON.stringify(key)}},
      {"productSlug":"${product.slug}","metric":"calls","quantity":1e-3,"occurredAt":"2031-02-01T00:00:00Z","idempotencyKey":"b"}]}`;
    expect((await operate('POST', `${path}/events`, body)).body).toMatchObject({ accepted: 2 });
    await step('apply');
    expect((await total()).map(([period]) => period)).toEqual(['2031-01-01', '2031-02-01']);
    const [row] = await orm().select().from(usageEvents).where(eq(usageEvents.idempotencyKey, key));
    expect(row!.quantity).toBe('12345678901234567890.000001');
  });
});

describe('backfills of another Organization', () => {
  it('are not found', async () => {
    const { open, event } = await arrive();
    const { path } = await open();
    const other = await createOrganization(database.db);
    const id = path.split('/').at(-1)!;
    const foreign = `/organizations/${other.slug}/usage/backfills/${id}`;
    for (const [method, more, body] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/apply'],
      ['POST', '/revert'],
      ['POST', '/events', { events: [event('a')] }],
    ] as const) {
      expect((await operate(method, `${foreign}${more}`, body)).body.code).toBe('not_found');
      expect((await operate(method, `${foreign.replace(id, 'nonsense')}${more}`, body)).body.code).toBe(
        'not_found',
      );
      const stranger = await operate(method, `${path}${more}`, body, { authorization: 'Bearer wrong' });
      expect(stranger.status).toBe(401);
    }
    expect((await operate('GET', `/organizations/${other.slug}/usage/backfills`)).body.backfills).toEqual([]);
    const rows = await orm().select().from(usageBackfills).where(eq(usageBackfills.id, id));
    expect(rows).toMatchObject([{ state: 'open' }]);
  });

  it('are found by id alone with an operator token', async () => {
    const { open } = await arrive();
    const { path, read } = await open();
    const [, , organization] = path.split('/');
    const address = `/usage/backfills/${path.split('/').at(-1)}`;
    const found = await operate('GET', address);
    expect([found.status, found.body]).toEqual([200, { organization, backfill: (await read()).backfill }]);
    const unknown = await operate('GET', '/usage/backfills/00000000-0000-7000-8000-000000000000');
    expect([unknown.status, unknown.body.code]).toEqual([404, 'not_found']);
    expect((await operate('GET', '/usage/backfills/acme')).status).toBe(404);
  });

  it('are listed in pages', async () => {
    const { open, root } = await arrive();
    const paths: string[] = [];
    for (let i = 0; i < 3; i++) paths.push((await open()).path.split('/').at(-1)!);
    const first = (await operate('GET', `${root}?limit=2`)).body;
    const second = (await operate('GET', `${root}?limit=2&cursor=${first.nextCursor}`)).body;
    const ids = [...first.backfills, ...second.backfills].map(({ id }: { id: string }) => id);
    expect([ids, second.nextCursor]).toEqual([paths.toSorted(), null]);
  });
});

it.each([
  [{ reason: '', from: '2031-01-01T00:00:00Z', to: '2031-02-01T00:00:00Z' }, '/reason'],
  [{ reason: 'x'.repeat(201), from: '2031-01-01T00:00:00Z', to: '2031-02-01T00:00:00Z' }, '/reason'],
  [{ reason: 'x', from: '2031-01-01', to: '2031-02-01T00:00:00Z' }, '/from'],
  [{ reason: 'x', from: '2031-02-01T00:00:00Z', to: '2031-02-01T00:00:00Z' }, '/to'],
  [{ reason: 'x', from: '2031-01-01T00:00:00Z', to: '2031-02-01T00:00:00Z', state: 'applied' }, '/state'],
])('a backfill is not opened as %j', async (body, pointer) => {
  const { root } = await arrive();
  const answer = await operate('POST', root, body);
  expect([answer.status, answer.body.errors[0].pointer]).toEqual([400, pointer]);
});
