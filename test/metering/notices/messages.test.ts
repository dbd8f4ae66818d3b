import { eq } from 'drizzle-orm';
import { beforeEach, describe, expect, it } from 'vitest';
import type { AnyType } from '../../../src/accounts/webhooks/types.js';
import { createEndingMessages } from '../../../src/metering/notices/endings.js';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { entitlements } from '../../../src/metering/entitlements/table.js';
import { createKey } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import {
  createListener,
  createListeningOrganization,
  readWebhookData,
  readWebhookMessages,
} from '../../support/webhook-messages.js';
import { useService } from '../../support/use.js';
import { createProduct, grant } from '../support/products.js';

const START = '2026-05-14T10:00:00.000Z';
const at = (time: string) => new Date(time);

const { database, service } = useService();
beforeEach(() => service.clock.set(START));
const operator = operatorClient(() => service);

const dataOf = (orgId: string, type: AnyType) => readWebhookData(database.db, orgId, type);

const listener = (type: AnyType, livemodes?: boolean[]) =>
  createListeningOrganization(database.db, type, livemodes);

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
    const told = await readWebhookMessages(database.db, id);
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
              features: {},
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
              features: {},
            },
          },
        ],
        ['withdrawn', { productSlug, change: 'withdrawn', entitlement: null }],
      ]),
    );
    const [stored] = await database.db.run(
      {
        name: 'test_exact',
        text: `select data #>> '{entitlement,limits,0,quantity}' as quantity from webhook_messages
where org_id = $1 and data ->> 'change' = 'granted' limit 1`,
      },
      [id],
    );
    expect(stored).toEqual({ quantity: '0.1000000000000000000005' });
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
    expect(await readWebhookMessages(database.db, orgId)).toEqual([]);
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
    // A changed end date is reported again.
    await database.db.orm
      .update(entitlements)
      .set({ endsAt: at('2026-05-27T12:00:00.000Z') })
      .where(eq(entitlements.orgId, orgId));
    await look();
    expect(await dataOf(orgId, 'entitlement.ending')).toHaveLength(3);
    service.clock.set('2026-06-01T00:00:00.000Z');
    await look();
    expect(await readWebhookMessages(database.db, orgId)).toHaveLength(5);
  });
});
