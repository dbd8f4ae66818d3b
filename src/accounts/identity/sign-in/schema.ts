import { z } from 'zod';
import { text } from '../../../core/http/validate.js';
import { assertionSchema } from '../second-factor/passkeys.js';

export const HOME = '/dashboard';

/** Lets the URL parser resolve a path as a browser would. */
const here = 'http://here.invalid';

/** Keeps the browser on this site. */
export function toLocalPath(value: unknown, fallback: string): string {
  if (typeof value !== 'string' || !value.startsWith('/') || value.length > 2000) return fallback;
  if (!URL.canParse(value, here)) return fallback;
  const { origin, pathname, search, hash } = new URL(value, here);
  // `/.//elsewhere` looks local until the URL parser normalizes it.
  return origin === here && !pathname.startsWith('//') ? pathname + search + hash : fallback;
}

/** `next` is validated separately, so that an invalid value does not fail the sign-in. */
export const signInSchema = z
  .strictObject({
    email: text(320).describe('Not case-sensitive.'),
    password: text(1024),
    next: z.string().optional().describe('Where to continue: a path of this service. Default: `/dashboard`.'),
  })
  .meta({ id: 'SignIn' });

export type SignIn = z.infer<typeof signInSchema>;

export const codeSchema = z.strictObject({
  code: text(100).optional(),
  passkey: assertionSchema.optional(),
  next: z.string().optional(),
  with: z.string().optional(),
});

export const passkeySchema = z.strictObject({ passkey: assertionSchema, next: z.string().optional() });
