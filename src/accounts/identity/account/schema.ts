import { z } from 'zod';
import { MAX_PASSWORD } from '../password.js';
import { text } from '../../../core/http/validate.js';
import { assertionSchema } from '../second-factor/passkeys.js';
import type { FormFields } from '../../../core/pages/form.js';

const password = text(MAX_PASSWORD);

/** One of them where a second factor is on. */
const factorFields = { code: text(100).optional(), passkey: assertionSchema.optional() };

export const nameSchema = z.strictObject({ name: text(100) });

export const noticesSchema = z.strictObject({
  organization: text(100),
  notices: z.enum(['on', 'off'], 'must be on or off'),
});

export const passwordSchema = z.strictObject({
  currentPassword: password,
  // Checked by the rules for passwords, which say what is missing.
  newPassword: z.string(),
  newPasswordAgain: z.string(),
  ...factorFields,
});

export const confirmSchema = z.strictObject({ currentPassword: password });

export const setupSchema = z.strictObject({ code: text(100) });

/** Where the second factor is on, changing it needs a code of it, or a passkey. */
export const confirmBothSchema = z.strictObject({ currentPassword: password, ...factorFields });

/** A form's fields without those that were left empty, which are missing and not wrong. */
export const filledIn = (fields: FormFields): FormFields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''));
