import { z } from 'zod';
import { MAX_PASSWORD } from '../password.js';
import { text } from '../../../core/http/validate.js';
import { assertionSchema } from '../second-factor/passkeys.js';
import type { FormFields } from '../../../core/pages/form.js';

const password = text(MAX_PASSWORD);

/** Required if a second factor is on. */
const factorFields = { code: text(100).optional(), passkey: assertionSchema.optional() };

export const nameSchema = z.strictObject({ name: text(100) });

export const noticesSchema = z.strictObject({
  organization: text(100),
  notices: z.enum(['on', 'off'], 'must be on or off'),
});

export const passwordSchema = z.strictObject({
  currentPassword: password.optional(),
  // The password rules have their own error messages.
  newPassword: z.string(),
  newPasswordAgain: z.string(),
  ...factorFields,
});

export const confirmSchema = z.strictObject({ currentPassword: password });

export const setupSchema = z.strictObject({ code: text(100) });

/** The issuer may have just confirmed the person's identity. */
export const proofSchema = z.strictObject({ currentPassword: password.optional(), ...factorFields });

export const confirmBothSchema = z.strictObject({ currentPassword: password, ...factorFields });

/** Reports empty fields as missing, not as invalid. */
export const filledIn = (fields: FormFields): FormFields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''));
