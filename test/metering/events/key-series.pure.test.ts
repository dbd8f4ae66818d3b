import { expect, it } from 'vitest';
import { toKeySeries } from '../../../src/metering/events/page-queries.js';

it('keys of one name, such as those of a rotation, are told apart by their prefixes', () => {
  const sum = (apiKeyId: string, keyName: string | null, keyPrefix: string | null) => ({
    apiKeyId,
    keyName,
    keyPrefix,
    start: '1970-01-01T00:00:00.000000Z',
    quantity: '1',
  });
  const sums = [
    sum('1', 'worker', 'gk_live_Aa1'),
    sum('2', 'nightly', 'gk_live_Cc3'),
    sum('3', 'worker', 'gk_live_Bb2'),
    sum('4', null, null),
    sum('5', 'worker', null),
  ];
  expect(toKeySeries(sums, [new Date(0)])).toEqual(
    ['worker (gk_live_Aa1…)', 'nightly', 'worker (gk_live_Bb2…)', 'Operator', 'worker (rotated)'].map(
      (name) => ({
        name,
        quantities: ['1'],
      }),
    ),
  );
});
