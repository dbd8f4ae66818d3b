import { expect, it } from 'vitest';
import { toKeySeries, type KeyStep } from '../../../src/metering/events/page-queries.js';

it('keys of one name, such as those of a rotation, are told apart by their prefixes', () => {
  const step = (place: number, name: string | null, prefix: string | null): KeyStep => ({
    place,
    name,
    prefix,
    start: 0,
    quantity: '1',
  });
  const rows = [
    step(1, 'worker', 'gk_live_Aa1'),
    step(2, 'nightly', 'gk_live_Cc3'),
    step(3, 'worker', 'gk_live_Bb2'),
    step(4, null, null),
  ];
  expect(toKeySeries(rows, [new Date(0)]).map(({ name }) => name)).toEqual([
    'worker (gk_live_Aa1…)',
    'nightly',
    'worker (gk_live_Bb2…)',
    'Operator',
  ]);
});
