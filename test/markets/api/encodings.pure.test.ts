import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseEncoding, encodeBeginning, MAX_END_BYTES } from '../../../src/core/http/cached-answer.js';

const decoders = {
  identity: (bytes: Buffer) => bytes,
  gzip: (bytes: Buffer) => gunzipSync(bytes),
  br: (bytes: Buffer) => brotliDecompressSync(bytes),
};

describe.each(['identity', 'gzip', 'br'] as const)('a beginning encoded as %s', (encoding) => {
  const decode = decoders[encoding];

  it('completes to the same text wherever it was split', () => {
    fc.assert(
      fc.property(fc.json(), fc.nat(), (json, at) => {
        const bytes = Buffer.from(json);
        const split = at % (bytes.length + 1);
        const complete = encodeBeginning[encoding](bytes.subarray(0, split));
        expect(decode(Buffer.concat(complete(bytes.subarray(split)))).toString()).toBe(json);
      }),
      { numRuns: 200 },
    );
  });

  it('can be completed repeatedly with different ends', () => {
    const complete = encodeBeginning[encoding](Buffer.from('{"list":[1,2,3],'));
    const [shared] = complete(Buffer.from('}'));
    for (const end of ['"age":0}', '"age":1}', '"age":31,"stale":true}']) {
      expect(decode(Buffer.concat(complete(Buffer.from(end)))).toString()).toBe(`{"list":[1,2,3],${end}`);
      // The beginning is shared, never copied.
      expect(complete(Buffer.from(end))[0]).toBe(shared);
    }
  });

  it('takes an end of the maximum length', () => {
    const end = Buffer.alloc(MAX_END_BYTES, 'x');
    const beginning = Buffer.alloc(200_000, 'abc');
    const parts = encodeBeginning[encoding](beginning)(end);
    expect(decode(Buffer.concat(parts)).equals(Buffer.concat([beginning, end]))).toBe(true);
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
    ['gzip;q=2', 'identity'],
    ['gzip;q=abc, br', 'br'],
    [',,;q=1,gzip', 'gzip'],
  ])('for Accept-Encoding %j is %s', (header, encoding) => {
    expect(chooseEncoding(header)).toBe(encoding);
  });
});
