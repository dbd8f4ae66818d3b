import { z } from 'zod';
import { nameField, text } from '../../../core/http/validate.js';
import { emailSchema } from '../operator/schema.js';
import { roles } from '../../organizations/table.js';

export const invitationDays = ['1', '7', '30'] as const;

const role = z.enum(roles, 'must be one of the roles');

export const invitationSchema = z.strictObject({
  id: z.uuidv7('the form was out of date. Send it again'),
  email: emailSchema,
  role,
  days: z.enum(invitationDays, `must be ${invitationDays.join(', ')} days`),
});

export const roleSchema = z.strictObject({ role, confirmed: z.literal('yes').optional() });

export const factorSchema = z.strictObject({ required: z.enum(['yes', 'no'], 'must be yes or no') });

export const listSchema = z.object({
  search: text(254).optional(),
  cursor: z
    .string()
    .regex(/^[\w-]{1,400}$/, 'is not a cursor from this list')
    .optional(),
});

/** The password's rules depend on the address. */
export const accountSchema = z.strictObject({
  invitation: z.string(),
  name: nameField,
  password: z.string(),
});
