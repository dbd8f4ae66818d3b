import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { buildDocument } from '../../src/core/reference/document.js';
import { describeService } from '../../src/reference.js';

it('the types of the client match the current document (if not: npm run client)', () => {
  const types = readFileSync(new URL('../../src/client/api.d.ts', import.meta.url), 'utf8');
  const hash = createHash('sha256')
    .update(JSON.stringify(buildDocument(describeService(true))))
    .digest('hex');
  expect(types.split('\n', 1)[0]).toContain(hash);
});
