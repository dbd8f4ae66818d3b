import { eq, sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { beforeAll, describe, expect, it } from 'vitest';
import { usageHours, usageTotals } from '../../../src/metering/ingestion/table.js';
import { toJson } from '../../../src/core/http/json.js';
import { driftJson } from '../../../src/metering/reconciliation/drift-report.js';
import { compare, hasDrift, repair } from '../../../src/metering/reconciliation/reconcile.js';
import { asMaintained } from '../../support/database.js';
import { ANY_QUANTITY, createProduct, grant } from '../support/products.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { TestClock } from '../../support/service.js';
import { useService } from '../../support/use.js';
import { auditOf, operatorLogOf } from '../../support/audit.js';

const { database, service } = useService();

const clock = new TestClock();
beforeAll(async () => {
  // Early in a month, so that the previous week, from which events are still accepted, spans two months.
  service.clock.set('2026-03-05T12:34:56.789Z');
});

/** Creates an Organization with live and test events from two keys, in two months and several hours. */
async function used() {
  const organization = await createOrganization(database.db);
  const product = await createProduct(database.db, { maxQuantity: ANY_QUANTITY });
  await grant(database.db, organization.id, product.id);
  const live = await createKey(database.db, organization.id);
  const test = await createKey(database.db, organization.id, { livemode: false });
  const times = ['2026-02-28T23:59:59.999Z', '2026-03-01T00:00:00Z', '2026-03-05T12:00:00Z', undefined];
  for (const [name, key] of Object.entries({ live, test })) {
    const events = times.flatMap((occurredAt, i) =>
      ['0.1', '12345678901234567890.5'].map((quantity) => ({
        quantity,
        occurredAt,
        id: `${name} ${i} ${quantity}`,
      })),
    );
    const body = events.map(({ quantity, occurredAt, id }) => {
      const time = occurredAt ? `"occurredAt":"${occurredAt}",` : '';
      return `{"productSlug":"${product.slug}","metric":"calls",${time}"quantity":${quantity},"idempotencyKey":"${id}"}`;
    });
    const response = await fetch(`${service.url}/api/usage/events`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
      body: `{"events":[${body.join(',')}]}`,
    });
    expect(await response.json()).toMatchObject({ accepted: 8 });
  }
  return { organization, product, live, test };
}

const orm = () => database.db.orm;
const totalsOf = (orgId: string) =>
  orm()
    .select()
    .from(usageTotals)
    .where(eq(usageTotals.orgId, orgId))
    .orderBy(usageTotals.period, usageTotals.livemode);
const hoursOf = (orgId: string) =>
  orm()
    .select()
    .from(usageHours)
    .where(eq(usageHours.orgId, orgId))
    .orderBy(usageHours.hour, usageHours.livemode);

/** Breaks the sums in every way: wrong, missing, superfluous, and wrong only in the count. */
async function breakSums(orgId: string) {
  const march = sql`org_id = ${orgId} and period = '2026-03-01'`;
  const february = sql`org_id = ${orgId} and period = '2026-02-01'`;
  await orm().execute(sql`update usage_totals set quantity = quantity + 0.05 where ${march} and livemode`);
  await orm().execute(sql`update usage_totals set events = events + 1 where ${march} and not livemode`);
  await orm().execute(sql`delete from usage_totals where ${february} and livemode`);
  await orm().execute(
    sql`insert into usage_totals (org_id, period, livemode, product_id, metric, quantity, events) select org_id, '2025-01-01', livemode, product_id, metric, 7, 1 from usage_totals where ${march} and livemode`,
  );
  await orm().execute(
    sql`update usage_hours set quantity = 0 where org_id = ${orgId} and hour = '2026-03-05T12:00:00Z' and livemode`,
  );
}

it('finds no drift in what the service recorded', async () => {
  const { organization } = await used();
  expect(await totalsOf(organization.id)).toHaveLength(4);
  expect(await hoursOf(organization.id)).toHaveLength(6);
  expect(await compare(orm(), { orgId: organization.id })).toEqual({
    totals: [],
    hours: [],
    subjects: [],
    settlements: [],
  });
});

describe('drift', () => {
  it('is found exactly, whether a row is wrong, missing, surplus or has only a wrong count', async () => {
    const { organization, product, live } = await used();
    await breakSums(organization.id);
    const { totals, hours } = await compare(orm(), { orgId: organization.id });
    const common = { organization: organization.slug, product: product.slug, metric: 'calls' };
    expect(totals).toMatchObject([
      {
        ...common,
        period: '2025-01-01',
        recordedQuantity: '7',
        actualQuantity: null,
        difference: '7',
        count: 4,
      },
      {
        ...common,
        period: '2026-02-01',
        livemode: true,
        recordedQuantity: null,
        actualQuantity: '12345678901234567890.6',
        difference: '-12345678901234567890.6',
        recordedEvents: null,
        actualEvents: '2',
      },
      { period: '2026-03-01', livemode: false, difference: '0', recordedEvents: '7', actualEvents: '6' },
      { period: '2026-03-01', livemode: true, difference: '0.05' },
    ]);
    expect(hours).toMatchObject([
      { ...common, period: '2026-03-05T12:00:00Z', livemode: true, recordedQuantity: '0', apiKeyId: live.id },
    ]);
    expect(hours[0]!.apiKey).toMatch(/^org_live_/);
    const json = toJson(driftJson({ totals, hours, subjects: [], settlements: [] }));
    expect(json).toContain(
      '"recorded":null,"sumOfEvents":12345678901234567890.6,"difference":-12345678901234567890.6',
    );
    expect(JSON.parse(json)).toMatchObject({
      drift: 5,
      hours: [{ hour: '2026-03-05T12:00:00Z', recorded: 0 }],
    });
  });

  it('is repaired to the exact sums, with an audit row of old and new values', async () => {
    const { organization } = await used();
    const other = await used();
    const [totals, hours] = [await totalsOf(organization.id), await hoursOf(organization.id)];
    await breakSums(organization.id);
    await breakSums(other.organization.id);
    const report = await repair(asMaintained(database), clock, { orgId: organization.id });
    expect(report).toEqual({ organizations: 1, totals: 4, hours: 1, subjects: 0 });
    expect(await totalsOf(organization.id)).toEqual(totals);
    expect(await hoursOf(organization.id)).toEqual(hours);
    expect(hasDrift(await compare(orm(), { orgId: organization.id }))).toBe(false);

    const audits = await auditOf({ orm: orm() }, organization.id);
    expect(audits).toMatchObject([
      {
        action: 'usage.totals_repaired',
        actor: 'system',
        target: organization.slug,
        at: new Date(clock.now()),
      },
    ]);
    const details = audits[0]!.details as { totals: { rows: number; changes: object[] }; hours: object };
    expect(details).toMatchObject({ totals: { rows: 4 }, hours: { rows: 1 } });
    expect(details.totals.changes).toContainEqual(
      expect.objectContaining({ period: '2025-01-01', old: { quantity: '7', events: 1 }, new: null }),
    );

    // The other Organization is untouched, and a second repair changes nothing.
    expect((await compare(orm(), { orgId: other.organization.id })).totals).toHaveLength(4);
    expect(await auditOf({ orm: orm() }, other.organization.id)).toEqual([]);
    expect(await repair(asMaintained(database), clock, { orgId: organization.id })).toEqual({
      organizations: 0,
      totals: 0,
      hours: 0,
      subjects: 0,
    });
    await repair(asMaintained(database), clock, {});
    expect(hasDrift(await compare(orm(), {}))).toBe(false);
  });

  it('of a nonexistent Organization is shown by id and repaired too', async () => {
    const orgId = uuid();
    const product = await createProduct(database.db);
    await orm().insert(usageTotals).values({
      orgId,
      period: '2026-03-01',
      livemode: true,
      productId: product.id,
      metric: 'calls',
      quantity: '1',
      events: 1,
    });
    expect((await compare(orm(), { orgId })).totals).toMatchObject([
      { organization: orgId, product: product.slug },
    ]);
    expect(await repair(asMaintained(database), clock, { orgId })).toEqual({
      organizations: 1,
      totals: 1,
      hours: 0,
      subjects: 0,
    });
    expect(await totalsOf(orgId)).toEqual([]);
    const logged = await operatorLogOf({ orm: orm() }, orgId);
    expect(logged).toMatchObject([{ action: 'usage.totals_repaired' }]);
  });
});
