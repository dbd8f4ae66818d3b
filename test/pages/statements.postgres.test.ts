import { beforeAll, expect, it } from 'vitest';
import { createApp } from '../../src/app.js';
import { listPageRoutes } from '../openapi/support/mounted-routes.js';
import { signedInOperator } from '../support/operators.js';
import { useService } from '../support/use.js';
import { matrix, type Row } from './matrix.js';
import { ordinaryNames, populate, type Populated } from './populated.js';

/** The page tests run on the embedded database; here, each page's statements run on a real Postgres. */
const { service } = useService({
  env: { LIMIT_KEY_CHANGES_PER_HOUR: '1000' },
  app: { signInLimits: { perAddress: 10_000 } },
});
let own: Populated;
beforeAll(async () => {
  own = await populate(service, ordinaryNames);
});

const html = { accept: 'text/html' };

it.each(Object.entries<Row>(matrix))('%s answers the owner', async (address, row) => {
  const [method, route] = address.split(' ') as [string, string];
  const path = (await row.path?.(own, 'owner')) ?? route;
  const form = (await row.form?.(own)) ?? {};
  const { browser, email } = own.people.owner;
  const answer = await browser.send(method.toUpperCase(), path, {
    headers: html,
    ...(method === 'post' && { form }),
  });
  expect([answer.status, answer.status >= 500 ? answer.text : '']).toEqual([row.own[4], '']);
  if (row.endsSession) {
    browser.cookies.clear();
    expect((await browser.signIn(email)).status).toBe(303);
  }
});

it('each console page answers an operator', async () => {
  const { browser } = await signedInOperator(service);
  const routes = listPageRoutes(createApp(service.context, service.running));
  const paths = routes.flatMap((route) => route.match(/(?<=^get )\/console.*/) ?? []);
  expect(paths.length).toBeGreaterThan(20);
  const statuses: [path: string, status: number][] = [];
  for (const path of paths)
    statuses.push([path, (await browser.get(path.replace('{slug}', own.slug), html)).status]);
  // Parameters other than `{slug}` are not filled in, so those paths may respond with 404.
  expect(statuses.filter(([, status]) => status >= 500)).toEqual([]);
  expect(statuses.filter(([, status]) => status === 200).length).toBeGreaterThan(15);
});
