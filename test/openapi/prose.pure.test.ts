import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { readFeatureFiles } from '../../src/core/feature-files.js';
import { readProse } from '../../src/core/reference/prose.js';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';

const routeFields = ['summary', 'description', 'python', 'good', 'examples'];
const exampleFields = ['summary', 'circumstance', 'before', 'request', 'status', 'answer', 'answerHeaders'];
const problemFields = ['problem', 'at', 'index', 'lead', 'detail', 'errors', 'members'];

it('every route has its words in one reference.yaml, and no words are left over', async () => {
  const { routes } = await describeService(products);
  const described = readFeatureFiles('reference.yaml').flatMap((text) =>
    Object.keys(parse(text, { logLevel: 'silent' }) as object),
  );
  const ids = routes.filter(({ sameAs }) => sameAs === undefined).map(({ operationId }) => operationId);
  expect(described.toSorted()).toEqual(ids.toSorted());
  for (const { sameAs } of routes) if (sameAs !== undefined) expect(ids).toContain(sameAs);
});

it('every field of a reference.yaml is one that is read', () => {
  for (const text of readFeatureFiles('reference.yaml')) {
    const routes = parse(text, { logLevel: 'silent' }) as Record<string, { examples: object }>;
    for (const [id, route] of Object.entries(routes)) {
      expect(routeFields, id).toEqual(expect.arrayContaining(Object.keys(route)));
      for (const [name, example] of Object.entries(route.examples))
        expect([...exampleFields, ...problemFields], `${id} ${name}`).toEqual(
          expect.arrayContaining(Object.keys(example as object)),
        );
    }
  }
});

it('every error code is explained in an errors.yaml, and no other code is', async () => {
  const { errors, statuses } = await describeService(products);
  expect(Object.keys(errors).toSorted()).toEqual(Object.keys(statuses).toSorted());
});

it('tags become what the tests of the examples know', async () => {
  const { putCreditGrant, listMarkets } = await readProse();
  const tooMany = putCreditGrant!.examples.find(({ name }) => name === 'tooManyGrants')!;
  expect(tooMany.before!.map(({ params }) => params!.grantKey).slice(0, 2)).toEqual(['order-0', 'order-1']);
  const granted = putCreditGrant!.examples[0]!.answer as { grant: { id: object } };
  expect(granted.grant.id.constructor.name).toBe('Generated');
  const { markets } = listMarkets!.examples[0]!.answer as { markets: { shown: object[] } };
  expect(markets.constructor.name).toBe('Beginning');
  expect(markets.shown[0]!.constructor.name).toBe('Excerpt');
});
