import { beforeAll, expect, it } from 'vitest';
import { browserWorld } from '../support/browser.js';
import { signedInOperator, type TestOperator } from '../support/operators.js';
import { hostileNames, populate, type Populated } from '../support/populated.js';
import { consoleRoutes } from '../pages/matrix.js';
import { countInjected, findAllBarriers } from './barriers.js';

const world = browserWorld();

let customer: Populated;
let operator: TestOperator;
beforeAll(async () => {
  customer = await populate(world.service, hostileNames);
  operator = await signedInOperator(world.service);
});

/** Where a route of the console is, for the customer and what belongs to it. */
function toConsolePath(route: string): string {
  const isOfPeople = route.startsWith('get /console/people') || route.startsWith('get /console/operators');
  return route
    .slice('get '.length)
    .replace('{slug}', route.includes('/products/') ? customer.productSlugs[0]! : customer.slug)
    .replace('{userId}', isOfPeople && route.includes('operators') ? operator.id : customer.people.admin.id)
    .replace('{id}', customer.keyIds[0]!);
}

it.each(consoleRoutes.filter((route) => route.startsWith('get ')))(
  '%s: text stays text, and nothing is in the way',
  async (route) => {
    const page = await world.visit({ as: operator.browser });
    const response = await page.goto(toConsolePath(route));
    expect(response!.status()).toBe(200);
    expect(await countInjected(page)).toBe(0);
    expect(await findAllBarriers(page)).toEqual([]);
  },
);
