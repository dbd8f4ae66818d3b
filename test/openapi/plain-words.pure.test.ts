import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { AppError } from '../../src/core/errors.js';
import { parseInput } from '../../src/core/http/validate.js';
import { asShown } from '../../src/core/reference/example-prose.js';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';

/** Words from the validator's own messages, which are meant for programmers. */
const validatorWords =
  /invalid|expected|received|unrecognized|too (small|big|short|long)|discriminator|\bint\b|NaN|undefined|ZodError|pattern/i;

const schemas = (await describeService(products)).routes.flatMap((route) =>
  (['body', 'query', 'params', 'headers'] as const).flatMap((part) => {
    const described = route[part];
    const schema = described && ('schema' in described && part === 'body' ? described.schema : described);
    if (!schema) return [];
    const good = route.examples.map(({ request }) => asShown(request[part as 'body'] ?? {}));
    return [{ name: `${part} of ${route.method} ${route.path}`, schema: schema as z.ZodType, good }];
  }),
);

const junk = fc.oneof(
  fc.constantFrom(null, true, '', 'x', ' ', -1, 0, 1.5, 1e300, 'a'.repeat(300), '2026-13-45', 'a@b', [], {}),
  fc.jsonValue(),
);

/** Generates the value with one random part replaced and perhaps an extra field. */
const broken = (good: unknown): fc.Arbitrary<unknown> =>
  fc.tuple(fc.nat(), junk, fc.boolean()).map(([seed, value, isWider]) => {
    const copy = structuredClone(good);
    const places: [Record<string, unknown>, string][] = [];
    const walk = (node: unknown) => {
      if (typeof node !== 'object' || node === null) return;
      for (const key of Object.keys(node)) {
        places.push([node as Record<string, unknown>, key]);
        walk((node as Record<string, unknown>)[key]);
      }
    };
    walk(copy);
    if (places.length === 0) return value;
    const [owner, key] = places[seed % places.length]!;
    owner[key] = value;
    if (isWider) owner.colour = 'red';
    return copy;
  });

describe('the message about bad input', () => {
  it.each(schemas)('is in plain words: $name', ({ schema, good }) => {
    const inputs = fc.oneof(junk, ...good.map(broken));
    fc.assert(
      fc.property(inputs, (input) => {
        for (const detail of detailsOf(schema, input)) expect(detail).not.toMatch(validatorWords);
      }),
      { numRuns: 150 },
    );
  });
});

function detailsOf(schema: z.ZodType, input: unknown): string[] {
  try {
    parseInput(schema, input);
    return [];
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return error.errors!.map(({ detail }) => detail);
  }
}
