import { expect, it } from 'vitest';
import { allTypes, describeWebhooks } from '../../../src/accounts/webhooks/types.js';

it.each(Object.entries(allTypes))('the example of %s has exactly the fields of its schema', (_, type) => {
  expect(type.schema.strict().parse(type.example)).toEqual(type.example);
});

it('a service without markets describes no market types', () => {
  const left = describeWebhooks(false).map(({ type }) => type.split('.')[0]);
  expect(new Set(left)).toEqual(new Set(['usage', 'entitlement', 'api_key', 'webhook']));
});
