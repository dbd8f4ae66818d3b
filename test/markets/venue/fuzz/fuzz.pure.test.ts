import fc from 'fast-check';
import { describe, it } from 'vitest';
import '../../../support/property-seed.js';
import { properties } from './properties.js';

describe('spoiled answers of the venue crash nothing and invent nothing, whatever is wrong with them', () => {
  it.each(Object.entries(properties))('%s', async (_, property) => {
    await fc.assert(property as fc.IAsyncProperty<unknown>, { numRuns: 150 });
  });
});
