import { beforeAll, describe, expect, it } from 'vitest';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import { consoleOf, consoleRoutes, isDangerous } from '../pages/matrix.js';
import { Browser, createUser } from '../support/accounts.js';
import {
  forgetConfirmation,
  makeOperator,
  signedInOperator,
  type TestOperator,
} from '../support/operators.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
let operator: TestOperator;
let withoutFactor: Browser;
beforeAll(async () => {
  operator = await signedInOperator(service);
  await forgetConfirmation(service, operator.browser);
  const { id, email } = await createUser(database.db);
  await makeOperator(service, id);
  withoutFactor = new Browser(service.url);
  await withoutFactor.signIn(email);
});

const send = async (browser: Browser, route: string) => {
  const [method, path] = route.split(' ') as [string, string];
  const { status, headers } = await browser.send(method.toUpperCase(), path, {
    headers: { accept: 'text/html' },
    ...(method === 'post' ? { form: {} } : {}),
  });
  return [status, headers.get('location')];
};

// The permission matrix tests members' roles, none of which may open the console.
describe.each(consoleRoutes)('%s', (route) => {
  const isPage = route.startsWith('get ');

  it('leads an operator without a second factor to set one up', async () => {
    expect(await send(withoutFactor, route)).toEqual(isPage ? [303, '/set-up'] : [403, null]);
  });

  it('admits an operator, with a fresh confirmation of identity where the action is dangerous', async () => {
    const [status, location] = await send(operator.browser, route);
    if (isDangerous(route)) expect([status, String(location).split('?')[0]]).toEqual([303, '/confirm']);
    // A database without shards has no page of them.
    else if (route.includes('{') || route.endsWith('/shards')) expect(status).toBe(404);
    else expect(status).toBe(isPage ? 200 : 400);
  });
});

it('has a page for everything that the operator API can do', async () => {
  expect(Object.keys(consoleOf).sort()).toEqual(
    (await describeService(products)).routes
      .filter(({ tag }) => tag === 'Operator')
      .map(({ operationId }) => operationId)
      .sort(),
  );
});
