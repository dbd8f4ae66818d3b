import { z } from 'zod';
import { AppError, type ErrorPlace } from '../errors.js';

/** Unicode text without control characters and without halves of surrogate pairs, which no encoding can store. */
export const text = (maxLength: number) => {
  const pattern = `^[^\\p{Cc}\\p{Cs}]{1,${maxLength}}$`;
  return z
    .string()
    .regex(new RegExp(pattern, 'u'), `must be 1 to ${maxLength} characters without control characters`)
    .meta({ minLength: 1, maxLength, pattern });
};

/**
 * Parses outside input.
 * @throws AppError invalid_request whose `errors` name every offending place
 */
export function parseInput<T extends z.ZodType>(schema: T, input: unknown): z.output<T> {
  // With the input, which tells what is missing from what is of another type.
  const parsed = schema.safeParse(input, { reportInput: true });
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.flatMap(toPlaces);
  const first = errors[0]!;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more, see errors)` : '';
  throw new AppError(
    'invalid_request',
    `${first.pointer === '' ? 'The body' : first.pointer} ${first.detail}${more}`,
    { errors },
  );
}

function toPlaces(issue: z.core.$ZodIssue): ErrorPlace[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => place([...issue.path, key], 'is not a known field'));
  }
  const isMissing = issue.code === 'invalid_type' && issue.input === undefined;
  return [place(issue.path, isMissing ? 'is required' : issue.message)];
}

function place(path: PropertyKey[], detail: string): ErrorPlace {
  const index = path.find((part) => typeof part === 'number');
  const pointer = path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
  return { ...(index === undefined ? {} : { index }), pointer, code: 'invalid_request', detail };
}
