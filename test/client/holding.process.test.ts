import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { createGaugeClient } from '../../src/client/client.js';
import { holdUsage } from '../../src/client/hold.js';
import { createProduct, grant } from '../metering/support/products.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { ownScript } from '../support/own-build.js';
import { useService } from '../support/use.js';

const { database, service } = useService();

it('a process killed while its model works holds room for five minutes, then the room is back', async () => {
  const organization = await createOrganization(database.db);
  const product = await createProduct(database.db, { usageMetric: 'tokens', dimensions: ['model', 'kind'] });
  const limits = [{ quantity: '25', window: 'PT1H', enforcement: 'block' as const }];
  await grant(database.db, organization.id, product.id, { limits });
  const { secret } = await createKey(database.db, organization.id);
  const args = [...ownScript('test/client/holding'), service.url, secret, product.slug];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'close');

  const client = createGaugeClient({ baseUrl: service.url, apiKey: secret });
  const hold = () => holdUsage({ client }, { productSlug: product.slug, metric: 'tokens', quantity: 1 });
  service.clock.advance(299_000);
  await expect(hold()).rejects.toMatchObject({ problem: { code: 'limit_reached', limit: { held: 25 } } });
  service.clock.advance(1_000);
  const held = await hold();
  await held.settle();
  const { data } = await client.GET('/api/usage/reservations', {});
  expect(data!.reservations.map(({ status }) => status).toSorted((a, b) => a.localeCompare(b))).toEqual([
    'expired',
    'settled',
  ]);
});
