import { expect, it } from 'vitest';
import { walk } from '../../../src/core/db/walk.js';

it('handles the rows after one that fails, then fails, and starts again', async () => {
  const handled: number[] = [];
  let fails = true;
  const run = walk<number, number>(
    0,
    (after) => Promise.resolve([1, 2, 3].filter((row) => row > after)),
    (row) => row,
    (row) => {
      if (row === 2 && fails) return Promise.reject(new Error('Row 2 is bad.'));
      handled.push(row);
      return Promise.resolve();
    },
  );
  await expect(run()).rejects.toThrow('Row 2 is bad.');
  expect(handled).toEqual([1, 3]);
  fails = false;
  await run();
  expect(handled).toEqual([1, 3, 1, 2, 3]);
});
