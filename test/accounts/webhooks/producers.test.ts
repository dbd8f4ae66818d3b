import { eq } from 'drizzle-orm';
import { beforeEach, describe, expect, it } from 'vitest';
import { createApiKey, revokeApiKey, rotateApiKey } from '../../../src/accounts/api-keys/api-keys.js';
import { byService } from '../../../src/accounts/audit/audit.js';
import { createEndingMessages } from '../../../src/metering/notices/endings.js';
import { apiKeys, entitlements, organizations } from '../../../src/tables.js';
import { recordGates } from '../../../src/markets/scores/keeper.js';
import { unjudged, type Gate } from '../../../src/markets/signals/signal.js';
import type { AnyType } from '../../../src/accounts/webhooks/types.js';
import { createKey, createOrganization, createProduct, grant } from '../../support/fixtures.js';
import { operatorClient, unique } from '../../support/operator.js';
import { createListener, readTold } from '../../support/webhook-messages.js';
import { useService } from '../../support/use.js';

const START = '2026-05-14T10:00:00.000Z';
const at = (time: string) => new Date(time);

const { database, service } = useService();
beforeEach(() => service.clock.set(START));
const operator = operatorClient(() => service);

const dataOf = async (orgId: string, type: AnyType) =>
  (await readTold(database.db, orgId, type)).map(({ data }) => data);

/** An Organization with one endpoint per mode. */
async function listener(type: AnyType, livemodes = [true]) {
  const organization = await createOrganization(database.db, { slug: unique('org') });
  for (const livemode of livemodes)
    await createListener(database.db, organization.id, { types: [type], livemode });
  return organization;
}

describe('entitlement.changed', () => {
  it('notifies both modes of grants, changes and withdrawals, but not of unchanged ones', async () => {
    const type = 'entitlement.changed';
    const { id, slug } = await listener(type, [true, false]);
    const { slug: productSlug } = await createProduct(database.db, { unitCap: '12.50' });
    const path = `/organizations/${slug}/entitlements/${productSlug}`;
    const limits = '[{"quantity": 0.1000000000000000000005, "window": "PT5H"}]';
    for (let i = 0; i < 2; i++) await operator('PUT', path, `{"kind": "live", "limits": ${limits}}`);
    await operator('PUT', path, { kind: 'read_only', thresholds: [90] });
    await operator('DELETE', path);
    await operator('DELETE', path);
    const told = await readTold(database.db, id);
    expect(told.filter(({ livemode }) => !livemode)).toHaveLength(3);
    const live = told.filter(({ livemode }) => livemode).map(({ data }) => data);
    expect(new Map(live.map((data) => [data.change, data]))).toEqual(
      new Map([
        [
          'granted',
          {
            productSlug,
            change: 'granted',
            entitlement: {
              kind: 'live',
              startsAt: START,
              endsAt: null,
              unitCap: 12.5,
              limits: [{ quantity: 0.1, window: 'PT5H', enforcement: 'warn' }],
              thresholds: [50, 80, 100],
            },
          },
        ],
        [
          'changed',
          {
            productSlug,
            change: 'changed',
            entitlement: {
              kind: 'read_only',
              startsAt: START,
              endsAt: null,
              unitCap: 12.5,
              limits: [],
              thresholds: [90],
            },
          },
        ],
        ['withdrawn', { productSlug, change: 'withdrawn', entitlement: null }],
      ]),
    );
    const [stored] = await database.db.run(
      {
        name: 'test_exact',
        text: `select data #>> '{entitlement,limits,0,quantity}' from webhook_messages
where org_id = $1 and data ->> 'change' = 'granted' limit 1`,
      },
      [id],
    );
    expect(stored).toEqual(['0.1000000000000000000005']);
  });
});

describe('api_key messages', () => {
  it('report creation, rotation and revocation once each, in the key’s mode', async () => {
    const { id: orgId } = await createOrganization(database.db);
    await createListener(database.db, orgId);
    const actor = { orgId, userId: null, by: byService };
    const input = { name: 'Runtime', livemode: true };
    const { key, secret } = await createApiKey(service.context, actor, input);
    const rotated = await rotateApiKey(service.context, actor, key.id, 30);
    await revokeApiKey(service.context, actor, rotated.key.id);
    await revokeApiKey(service.context, actor, rotated.key.id);
    await createApiKey(service.context, actor, { ...input, livemode: false });
    const shown = { name: 'Runtime', scopes: ['usage:write'], livemode: true };
    expect(await dataOf(orgId, 'api_key.created')).toEqual([
      { apiKey: { ...shown, id: key.id, prefix: secret.slice(0, 12), expiresAt: null } },
    ]);
    expect(await dataOf(orgId, 'api_key.rotated')).toMatchObject([
      {
        apiKey: { ...shown, id: rotated.key.id, expiresAt: null },
        previous: { ...shown, id: key.id, expiresAt: '2026-05-14T10:30:00.000Z' },
      },
    ]);
    expect(await dataOf(orgId, 'api_key.revoked')).toMatchObject([
      { apiKey: { id: rotated.key.id }, revokedAt: START },
    ]);
  });
});

describe('an approaching end', () => {
  it('is announced 7 days and 1 day before, once, whichever instance looks', async () => {
    const organization = await listener('api_key.expiring');
    const { id: orgId } = organization;
    await createListener(database.db, orgId, { types: ['entitlement.ending'], livemode: false });
    const key = await createKey(database.db, orgId, { expiresAt: at('2026-05-21T11:00:00.000Z') });
    const revoked = await createKey(database.db, orgId, { expiresAt: at('2026-05-15T11:00:00.000Z') });
    await database.db.orm
      .update(apiKeys)
      .set({ revokedAt: at(START) })
      .where(eq(apiKeys.id, revoked.id));
    await createKey(database.db, orgId, { expiresAt: at('2026-05-15T11:00:00.000Z'), livemode: false });
    const product = await createProduct(database.db);
    await grant(database.db, orgId, product.id, { endsAt: at('2026-05-21T12:00:00.000Z') });
    const looks = [createEndingMessages(service.context), createEndingMessages(service.context)];
    const look = () => Promise.all(looks.map((one) => one()));
    await look();
    expect(await readTold(database.db, orgId)).toEqual([]);
    service.clock.set('2026-05-14T13:00:00.000Z');
    await look();
    await look();
    const ending = { productSlug: product.slug, kind: 'live', endsAt: '2026-05-21T12:00:00.000Z' };
    expect(await dataOf(orgId, 'entitlement.ending')).toEqual([{ ...ending, daysBefore: 7 }]);
    expect(await dataOf(orgId, 'api_key.expiring')).toMatchObject([
      { apiKey: { id: key.id, expiresAt: '2026-05-21T11:00:00.000Z' }, daysBefore: 7 },
    ]);
    service.clock.set('2026-05-20T12:30:00.000Z');
    await look();
    expect(await dataOf(orgId, 'entitlement.ending')).toEqual([
      { ...ending, daysBefore: 7 },
      { ...ending, daysBefore: 1 },
    ]);
    expect(await dataOf(orgId, 'api_key.expiring')).toHaveLength(2);
    // A changed end is announced again.
    await database.db.orm
      .update(entitlements)
      .set({ endsAt: at('2026-05-27T12:00:00.000Z') })
      .where(eq(entitlements.orgId, orgId));
    await look();
    expect(await dataOf(orgId, 'entitlement.ending')).toHaveLength(3);
    service.clock.set('2026-06-01T00:00:00.000Z');
    await look();
    expect(await readTold(database.db, orgId)).toHaveLength(5);
  });
});

describe('trading.halted', () => {
  it('reports when an Organization’s switch stops more or less, and the service’s switch wherever markets are traded', async () => {
    const { id, slug } = await listener('trading.halted', [true, false]);
    const other = await listener('trading.halted');
    const barred = await listener('trading.halted');
    const { orm } = database.db;
    await orm.update(organizations).set({ marketAccess: 'none' }).where(eq(organizations.id, barred.id));
    const own = `/organizations/${slug}/trading/switch`;
    await operator('PUT', own, { state: 'halt', reason: 'Unexplained fills.' });
    await operator('PUT', own, { state: 'halt', reason: 'Unexplained fills!' });
    await operator('PUT', own, { state: 'open' });
    const halted = { owner: 'operator', state: 'halt', reason: 'Unexplained fills.', changedAt: START };
    expect(await dataOf(id, 'trading.halted')).toEqual([halted, halted]);
    service.clock.advance(1_000);
    await operator('PUT', '/trading/switch', { state: 'reduce_only', reason: 'Maintenance.' });
    await operator('PUT', '/trading/switch', { state: 'open' });
    const ofService = { owner: 'service', state: 'reduce_only', reason: 'Maintenance.' };
    expect(await dataOf(other.id, 'trading.halted')).toMatchObject([ofService]);
    expect((await dataOf(id, 'trading.halted')).slice(2)).toMatchObject([ofService, ofService]);
    expect(await readTold(database.db, barred.id)).toEqual([]);
  });
});

describe('signal.gate_changed', () => {
  it('reports once that a gate opens or closes, whichever instance judges it', async () => {
    const { id } = await listener('signal.gate_changed');
    const sources = { marketSource: unique('market'), forecastSource: 'test' };
    const judged = async (isOpen: boolean, madeAt: string) => {
      const gate: Gate = {
        kind: 'daily_maximum',
        stationId: 'KNYC',
        leadHours: 12,
        isOpen,
        ...unjudged,
        n: 62,
        reason: 'For a test.',
      };
      const book = { madeAt: at(madeAt), gates: [{ ...gate, stationId: 'KMIA', isOpen: false }, gate] };
      await Promise.all([1, 2].map(() => recordGates(service.context, sources, book)));
    };
    await judged(false, '2026-05-14T10:00:00.000Z');
    await judged(false, '2026-05-14T10:05:00.000Z');
    expect(await readTold(database.db, id)).toEqual([]);
    await judged(true, '2026-05-14T10:10:00.000Z');
    // A late instance.
    await judged(false, '2026-05-14T10:05:00.000Z');
    await judged(true, '2026-05-14T10:15:00.000Z');
    expect(await dataOf(id, 'signal.gate_changed')).toEqual([
      { kind: 'daily_maximum', station: 'KNYC', leadHours: 12, state: 'open', n: 62, reason: 'For a test.' },
    ]);
    await judged(false, '2026-05-14T10:20:00.000Z');
    expect((await dataOf(id, 'signal.gate_changed')).map(({ state }) => state)).toEqual(['open', 'closed']);
  });
});
