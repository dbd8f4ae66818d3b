import { z } from 'zod';
import { text } from '../../../core/http/validate.js';
import { assertionSchema } from '../second-factor/passkeys.js';

/** Where a person goes who was not going anywhere. */
export const HOME = '/dashboard';

/** Stands in for this service, so that the URL parser shows where a browser would end up. */
const here = 'http://here.invalid';

/** `value` if a browser that is sent there stays on this site, else `fallback`. */
export function toLocalPath(value: unknown, fallback: string): string {
  if (typeof value !== 'string' || !value.startsWith('/') || value.length > 2000) return fallback;
  if (!URL.canParse(value, here)) return fallback;
  const { origin, pathname, search, hash } = new URL(value, here);
  // `/.//elsewhere` is ours until it is normalised, and then it is not.
  return origin === here && !pathname.startsWith('//') ? pathname + search + hash : fallback;
}

/** The sign-in form. `next` is where the person was going; it is checked apart, so that a bad one only loses the way. */
export const signInSchema = z
  .strictObject({
    email: text(320).describe('Upper and lower case are the same.'),
    password: text(1024),
    next: z
      .string()
      .optional()
      .describe('Where to continue: a path of this service; `/dashboard` if left out.'),
  })
  .meta({ id: 'SignIn' });

export type SignIn = z.infer<typeof signInSchema>;

/** The form for the second factor: a code of the app or a recovery code, as it was typed, or a passkey. */
export const codeSchema = z.strictObject({
  code: text(100).optional(),
  passkey: assertionSchema.optional(),
  next: z.string().optional(),
  with: z.string().optional(),
});

/** The form for a passkey alone. */
export const passkeySchema = z.strictObject({ passkey: assertionSchema, next: z.string().optional() });
