import { beforeEach, describe, expect, it } from 'vitest';
import { createApiKey, revokeApiKey, rotateApiKey } from '../../../src/accounts/api-keys/api-keys.js';
import { byService } from '../../../src/accounts/audit/audit.js';
import type { AnyType } from '../../../src/accounts/webhooks/types.js';
import { createOrganization } from '../../support/fixtures.js';
import { createListener, readWebhookData } from '../../support/webhook-messages.js';
import { useService } from '../../support/use.js';

const START = '2026-05-14T10:00:00.000Z';

const { database, service } = useService();
beforeEach(() => service.clock.set(START));

const dataOf = (orgId: string, type: AnyType) => readWebhookData(database.db, orgId, type);

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
