import { z } from 'zod';
import { text } from '../../core/http/validate.js';

/** The sign-in form. `next` is where the person was going; it is judged apart, so that a bad one only loses the way. */
export const signInSchema = z
  .strictObject({
    email: text(320).describe('Upper and lower case are the same.'),
    password: text(1024),
    next: z.string().optional().describe('Where to go on: a path of this service; `/dashboard` if left out.'),
  })
  .meta({ id: 'SignIn' });

export type SignIn = z.infer<typeof signInSchema>;

/** The form for the second factor: a code of the app or a recovery code, as it was typed. */
export const codeSchema = z.strictObject({
  code: text(100),
  next: z.string().optional(),
  with: z.string().optional(),
});
