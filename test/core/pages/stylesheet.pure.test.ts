import { readdirSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { expect, it } from 'vitest';
import { styleSheets } from '../../../src/core/pages/stylesheet.js';

it('every sheet has its place in the order', () => {
  const inFolder = readdirSync(dirname(styleSheets[0]!)).toSorted();
  expect(styleSheets.map((file) => basename(file)).toSorted()).toEqual(inFolder);
});
