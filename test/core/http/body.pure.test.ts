import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { boundJson, usualBounds, type JsonBounds } from '../../../src/core/http/body.js';

const bounds: JsonBounds = { depth: 3, fields: 3, values: 9, tooManyValues: 'batch_too_large' };

/**
 * Measures a parsed value in the units of the limits. The first element of a list or object is not counted separately
 * from its container.
 */
function measure(value: unknown): { depth: number; fields: number; values: number } {
  if (typeof value !== 'object' || value === null) return { depth: 0, fields: 0, values: 0 };
  const inner = Object.values(value).map(measure);
  const count = inner.length;
  return {
    depth: 1 + Math.max(0, ...inner.map(({ depth }) => depth)),
    fields: Math.max(Array.isArray(value) ? 0 : count, ...inner.map(({ fields }) => fields)),
    values: 1 + Math.max(0, count - 1) + inner.reduce((sum, { values }) => sum + values, 0),
  };
}

const refusalOf = (text: string, by = bounds): string | undefined => {
  try {
    boundJson(Buffer.from(text), by);
    return undefined;
  } catch (error) {
    return (error as { code: string }).code;
  }
};

describe('the bounds of a JSON body', () => {
  it('refuse exactly what is deeper, wider or longer, whatever its strings contain', () => {
    const value = fc.jsonValue({ maxDepth: 5 });
    fc.assert(
      fc.property(value, fc.boolean(), (json, isSpaced) => {
        const { depth, fields, values } = measure(json);
        const isWithin = depth <= bounds.depth && fields <= bounds.fields && values <= bounds.values;
        const refusal = refusalOf(JSON.stringify(json, null, isSpaced ? 2 : undefined));
        expect(refusal === undefined).toBe(isWithin);
      }),
      { numRuns: 2_000 },
    );
  });

  it('leave invalid JSON to the parser', () => {
    for (const text of ['', '"', '"\\', '}]', ',,,,', '{"a', 'null', '"\\"'])
      expect(refusalOf(text)).toBeUndefined();
  });

  it('name the exceeded bound', () => {
    const say = (text: string) => () => boundJson(Buffer.from(text), bounds);
    expect(say('[[[[')).toThrow('more than 3 levels deep');
    expect(say('{"a":1,"b":1,"c":1,"d":1}')).toThrow('more than 3 fields');
    expect(say('[1,2,3,4,5,6,7,8,9,10]')).toThrow('more than 9 values');
    expect(refusalOf('[1,2,3,4,5,6,7,8,9,10]')).toBe('batch_too_large');
  });

  it('ignore the contents of strings', () => {
    expect(refusalOf(JSON.stringify(['[[[[[{,,,,,,,,,,', '\\"[[[[', '"\\\\"']), usualBounds)).toBeUndefined();
  });
});
