import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { buildDocument } from '../../src/core/reference/document.js';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';

it('the types of the client match the current document (if not: npm run client)', async () => {
  const types = readFileSync(new URL('../../src/client/api.d.ts', import.meta.url), 'utf8');
  const hash = createHash('sha256')
    .update(JSON.stringify(buildDocument(await describeService(products))))
    .digest('hex');
  expect(types.split('\n', 1)[0]).toContain(hash);
});
