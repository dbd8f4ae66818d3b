import { expect, it } from 'vitest';
import { serviceTypes, type AnyType } from '../../../src/accounts/webhooks/types.js';
import { indentJson } from '../../../src/accounts/webhooks/view.js';
import { webhookTypes } from '../../../src/products.js';
import { exampleOf } from '../../support/webhook-examples.js';

it.each(Object.entries({ ...webhookTypes, ...serviceTypes }))(
  'the example of %s has exactly the fields of its schema',
  (type, { schema }) => {
    const example = exampleOf(type as AnyType);
    expect(schema.strict().parse(example)).toEqual(example);
  },
);

it('a body to read keeps all digits and what strings contain', () => {
  expect(indentJson('{"a": [1234567890123456789.10,{}],"b":"x: {\\"y\\", [z]}"}')).toBe(
    '{\n  "a": [\n    1234567890123456789.10,\n    {}\n  ],\n  "b": "x: {\\"y\\", [z]}"\n}',
  );
});
