import { it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { createKey } from '../support/fixtures.js';
import { operatorClient } from '../support/operator.js';
import { signedInOperator } from '../support/operators.js';
import { sendUsage } from '../metering/support/usage.js';

const world = browserWorld();
const DAY = 86_400_000;
it('shots', async () => {
  const { service, db } = world;
  const put = operatorClient(() => service);
  const { browser, organization } = await signedIn(db, service.url);
  const op = await signedInOperator(service);
  const base = `/organizations/${organization.slug}`;
  const model = { price: 0.002, by: { dimension: 'model', prices: { large: 0.015, small: 0.0005 } }, enforcement: 'block' };
  console.log(await put('PUT', '/products/tokens', { name: 'Chat tokens', usageMetric: 'tokens', dimensions: ['model', 'region'], countsSubjects: true, credits: model }));
  await put('PUT', '/products/images', { name: 'Images', usageMetric: 'images', credits: { price: 4, enforcement: 'warn' } });
  for (const p of ['tokens', 'images']) await put('PUT', `${base}/entitlements/${p}`, { kind: 'live', startsAt: '2020-01-01T00:00:00Z' });
  const now = service.clock.now();
  const at = (days: number) => new Date(now + days * DAY).toISOString();
  const g = (key: string, body: object) => put('PUT', `${base}/credits/grants/${key}`, body);
  const { secret } = await createKey(db, organization.id);
  const shoot = async (name: string, path: string, as: typeof browser, act?: (page: any) => Promise<void>) => {
    for (const [suffix, viewport, scheme] of [['wide', { width: 1280, height: 900 }, 'light'], ['dark', { width: 1280, height: 900 }, 'dark'], ['phone', { width: 390, height: 844 }, 'light']] as const) {
      const page = await world.visit({ as, viewport, scheme });
      await page.goto(path);
      await act?.(page);
      await page.screenshot({ path: `/tmp/price-shots/${name}-${suffix}.png`, fullPage: true });
    }
  };
  await shoot('empty', '/dashboard/credits', browser);
  await g('welcome', { amount: 50, expiresAt: at(20), priority: 10, reason: 'Welcome' });
  await g('plan-2026-11', { amount: 1000, expiresAt: at(12), rollover: { percent: 50, for: 'P30D' }, reason: 'Monthly plan, November', productSlugs: ['tokens'] });
  await g('order-1201', { amount: 2500.5, reason: 'Invoice 1201' });
  await g('plan-2026-12', { amount: 1000, startsAt: at(12), expiresAt: at(43), reason: 'Monthly plan, December' });
  await g('old', { amount: 10, reason: 'Trial' });
  console.log(await put('POST', `${base}/credits/grants/old/void`, { reason: 'Superseded' }));
  let n = 0;
  for (let day = 9; day >= 0; day--) {
    const events = Array.from({ length: 12 }, (_, i) => ({ productSlug: 'tokens', metric: 'tokens', quantity: 1000 * (1 + ((n * 7) % 9)), idempotencyKey: `t${n++}`, subject: `team-${i % 5}`, dimensions: { model: ['large', 'small', 'medium'][i % 3]!, region: i % 2 ? 'eu' : 'us' } }));
    const r = await sendUsage(service.url, secret, [...events, ...(day % 3 === 0 ? [{ productSlug: 'images', metric: 'images', quantity: 7, idempotencyKey: `i${n++}` }] : [])] );
    if (day === 9) console.log(r.status, JSON.stringify(r.body).slice(0, 300));
  }
  await db.orm.execute("update credit_entries set at = at - interval '1 day' * (random() * 8)::int where kind = 'burn' and random() < 0.8" as any).catch((e: unknown) => console.log(String(e)));
  await shoot('credits', '/dashboard/credits?range=last30', browser);
  await shoot('ledger', '/dashboard/credits/ledger', browser);
  await shoot('event', '/dashboard/usage/events?idempotencyKey=t3', browser);
  await shoot('events', '/dashboard/usage/events?product=tokens', browser);
  await shoot('usage', '/dashboard/usage?product=tokens', browser);
  await shoot('entitlements', '/dashboard/entitlements', browser);
  const c = `/console/customers/${organization.slug}/credits`;
  await shoot('console', c, op.browser);
  await shoot('grant', `${c}/grant`, op.browser);
  await shoot('grant-preview', `${c}/grant`, op.browser, async (page) => {
    await page.getByLabel('Amount').fill('500');
    await page.getByLabel('Ends (UTC)').fill('2027-06-01T12:30');
    await page.getByLabel('Reason').fill('Invoice 1300');
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.getByText('Check this grant').waitFor();
  });
  await shoot('void', `${c}/void?grant=order-1201`, op.browser);
  await shoot('price', '/console/products/tokens/price', op.browser);
  await shoot('product', '/console/products/tokens', op.browser);
  await shoot('price-preview', '/console/products/tokens/price', op.browser, async (page) => {
    await page.getByRole('button', { name: 'Preview' }).last().click();
    await page.getByText('Check the new price').waitFor();
  });
  await sendUsage(service.url, secret, [{ productSlug: 'images', metric: 'images', quantity: 2000, idempotencyKey: 'big' }]);
  await shoot('overdraft', '/dashboard/credits', browser);
  await shoot('console-overdraft', c, op.browser);
  await shoot('forgive', `${c}/forgive?product=images`, op.browser);
}, 500_000);
