import { AppError } from '../core/errors.js';
import { parseJson } from '../core/http/json-body.js';
import { parseInput } from '../core/http/validate.js';
import { entitlementCheckSchema, MAX_SLUGS } from './schema.js';

const MAX_REMEMBERED = 500;
const MAX_REMEMBERED_LENGTH = 4_096;
/** Bodies and what they say: at most 500 of 4 KB. It depends on the body alone, so it never goes out of date. */
const remembered = new Map<string, string[]>();

/**
 * The slugs that a check asks about. A runtime asks the same from morning to evening, so that parsing and validating
 * the body would be done over and over; and the same list is the same object, by which equal questions are found.
 * @throws AppError invalid_json, batch_too_large, invalid_request
 */
export function parseCheck(text: string): string[] {
  let slugs = remembered.get(text);
  if (slugs === undefined) {
    slugs = validate(parseJson(text));
    if (text.length <= MAX_REMEMBERED_LENGTH) {
      if (remembered.size >= MAX_REMEMBERED) remembered.delete(remembered.keys().next().value!);
      remembered.set(text, slugs);
    }
  }
  return slugs;
}

function validate(value: unknown): string[] {
  const sent = (value as { productSlugs?: unknown } | null)?.productSlugs;
  if (Array.isArray(sent) && sent.length > MAX_SLUGS) {
    throw new AppError(
      'batch_too_large',
      `A check takes at most ${MAX_SLUGS} slugs; this one has ${sent.length}.`,
    );
  }
  return parseInput(entitlementCheckSchema, value).productSlugs;
}
