import { expect, it } from 'vitest';
import { serviceTypes } from '../../../src/accounts/webhooks/types.js';
import { webhookTypes } from '../../../src/products.js';

it.each(Object.entries({ ...webhookTypes, ...serviceTypes }))(
  'the example of %s has exactly the fields of its schema',
  (_, type) => {
    expect(type.schema.strict().parse(type.example)).toEqual(type.example);
  },
);
