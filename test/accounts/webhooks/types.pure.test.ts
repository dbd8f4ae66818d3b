import { expect, it } from 'vitest';
import { serviceTypes } from '../../../src/accounts/webhooks/types.js';
import { indentJson } from '../../../src/accounts/webhooks/view.js';
import { webhookTypes } from '../../../src/products.js';

it.each(Object.entries({ ...webhookTypes, ...serviceTypes }))(
  'the example of %s has exactly the fields of its schema',
  (_, type) => {
    expect(type.schema.strict().parse(type.example)).toEqual(type.example);
  },
);

it('a body to read keeps all digits and what strings contain', () => {
  expect(indentJson('{"a": [1234567890123456789.10,{}],"b":"x: {\\"y\\", [z]}"}')).toBe(
    '{\n  "a": [\n    1234567890123456789.10,\n    {}\n  ],\n  "b": "x: {\\"y\\", [z]}"\n}',
  );
});
