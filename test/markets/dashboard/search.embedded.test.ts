import { beforeAll, expect, it } from 'vitest';
import { eq } from 'drizzle-orm';
import { organizations } from '../../../src/accounts/organizations/table.js';
import { signedIn } from '../../support/accounts.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();
let member: Awaited<ReturnType<typeof signedIn>>;
beforeAll(async () => {
  await service.trading.refresher.refresh();
  member = await signedIn(database.db, service.url, 'member');
});

async function search(q: string): Promise<string[]> {
  const { text } = await member.browser.get(`/dashboard/search?q=${encodeURIComponent(q)}`, {
    accept: 'text/html',
  });
  const [, results = ''] = text.split('data-search-results');
  return [...results.matchAll(/<li><a href="(\/dashboard[^"]+)"/g)].map((match) => match[1]!);
}

it('cities and open markets are found by any part of their name, and only with access to markets', async () => {
  const market = [...service.trading.snapshots.current!.markets.values()].find(
    ({ status }) => status === 'active',
  )!;
  const ticket = `/dashboard/markets/${encodeURIComponent(market.ticker)}`;
  expect(await search('ew yor')).toContain('/dashboard/markets?station=KNYC');
  expect(await search('knyc')).toContain('/dashboard/markets?station=KNYC');
  expect(await search(market.ticker.toLowerCase())).toContain(ticket);
  for (const name of ['portfolio', 'orders', 'settlements', 'risk', 'execution', 'knyc', market.ticker])
    for (const link of await search(name))
      expect([link, (await member.browser.get(link, { accept: 'text/html' })).status]).toEqual([link, 200]);
  expect(await search('kill switch')).toEqual(['/dashboard/portfolio/risk']);
  await database.db.orm
    .update(organizations)
    .set({ marketAccess: 'none' })
    .where(eq(organizations.id, member.organization.id));
  for (const q of ['ew yor', 'knyc', market.ticker, 'portfolio', 'settlements', 'risk'])
    expect([q, await search(q)]).toEqual([q, []]);
});
