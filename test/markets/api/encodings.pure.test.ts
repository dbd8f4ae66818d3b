import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createCachedAnswer } from '../../../src/core/http/cached-answer.js';
import { chooseEncoding } from '../../../src/core/http/encoding.js';

const decoders = {
  identity: (bytes: Buffer) => bytes,
  gzip: (bytes: Buffer) => gunzipSync(bytes),
  br: (bytes: Buffer) => brotliDecompressSync(bytes),
};

describe.each(['identity', 'gzip', 'br'] as const)('an answer encoded as %s', (encoding) => {
  const decode = async (bytes: Promise<Buffer>) => decoders[encoding](await bytes).toString();

  it('has all fields, the last ones at the end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string(), fc.jsonValue()), async (fields) => {
        const text = await decode(createCachedAnswer({ fields }).encode(encoding, { age: 1, stale: false }));
        expect(text).toBe(JSON.stringify({ fields, age: 1, stale: false }));
      }),
      { numRuns: 100 },
    );
  });

  it('shares its bytes until the last fields change', async () => {
    const answer = createCachedAnswer({ list: [1, 2, 3] });
    const first = answer.encode(encoding, { age: 0 });
    expect(answer.encode(encoding, { age: 0 })).toBe(first);
    expect(await decode(answer.encode(encoding, { age: 1 }))).toBe('{"list":[1,2,3],"age":1}');
  });
});

describe('the chosen encoding', () => {
  it.each([
    [undefined, 'identity'],
    ['', 'identity'],
    ['gzip', 'gzip'],
    ['gzip, deflate, br, zstd', 'br'],
    ['GZIP', 'gzip'],
    ['br;q=0.5, gzip', 'gzip'],
    ['br;q=0.5, gzip;q=0.5', 'br'],
    ['br;q=0, gzip;q=0.001', 'gzip'],
    ['*', 'br'],
    ['br;q=0, *;q=0.5', 'gzip'],
    ['gzip;q=0', 'identity'],
    ['identity;q=1, gzip;q=0.5', 'identity'],
    ['identity;q=0.5, gzip', 'gzip'],
    ['deflate, compress', 'identity'],
    ['identity;q=0', 'identity'],
    ['*;q=0', 'identity'],
    ['gzip ; q=0.3 , br ; Q=0.2', 'gzip'],
    ['gzip;q=abc, br', 'br'],
    [',,;q=1,gzip', 'gzip'],
  ])('for Accept-Encoding %j is %s', (header, encoding) => {
    expect(chooseEncoding({ headers: { 'accept-encoding': header } })).toBe(encoding);
  });
});
