import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { assertionSchema } from '../../../../src/accounts/identity/second-factor/passkeys.js';

const ofLength = (bytes: number) => randomBytes(bytes).toString('base64url');

it.each([
  ['RS256 with the longest usual key', 512, true],
  ['ML-DSA-44', 2420, true],
  ['nothing known', 3001, false],
])('a signature as long as that of %s is valid: %s bytes, %s', (_, bytes, isValid) => {
  const id = ofLength(32);
  const response = {
    authenticatorData: ofLength(37),
    clientDataJSON: ofLength(100),
    signature: ofLength(bytes),
  };
  const text = JSON.stringify({ id, rawId: id, type: 'public-key', response });
  expect(assertionSchema.safeParse(text).success).toBe(isValid);
});
