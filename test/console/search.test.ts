import { beforeAll, expect, it } from 'vitest';
import { createUser, type Browser } from '../support/accounts.js';
import { createOrganization } from '../support/fixtures.js';
import { signedInOperator } from '../support/operators.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
const html = { accept: 'text/html' };
let operator: Browser;
beforeAll(async () => {
  operator = (await signedInOperator(service)).browser;
});

async function search(q: string) {
  const { status, text } = await operator.get(`/console/search?q=${encodeURIComponent(q)}`, html);
  const [, results = ''] = text.split('data-search-results');
  return { status, text, links: [...results.matchAll(/<li><a href="([^"]+)"/g)].map((match) => match[1]!) };
}

it('finds customers, people and pages by any part of their name', async () => {
  const { slug } = await createOrganization(database.db, { name: 'Nordic 100%_Weather' });
  const { id } = await createUser(database.db, { name: 'Nils Weatherby' });
  const both = [`/console/customers/${slug}`, `/console/people/${id}`];
  expect((await search('WEATHER')).links).toEqual(expect.arrayContaining(both));
  expect((await search('%_w')).links).toContain(both[0]);
  expect((await search('%%')).links).toEqual(['/docs/search?q=%25%25']);
  expect((await search('operators')).links[0]).toBe('/console/operators');
});

it('refuses what it cannot search for', async () => {
  for (const q of ['x'.repeat(10_000), 'a\u0000b']) expect((await search(q)).status).toBe(400);
  for (const q of ["' or 1=1 --", '\\', '"><script>alert(1)</script>']) {
    const { status, text } = await search(q);
    expect([q, status]).toEqual([q, 200]);
    expect(text).not.toContain('<script>alert');
  }
});
