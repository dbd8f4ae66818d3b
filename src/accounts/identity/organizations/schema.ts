import { z } from 'zod';
import { idField, namedObject, timeField } from '../../../core/http/fields.js';
import { text } from '../../../core/http/validate.js';
import { marketAccesses, roles } from '../../organizations/table.js';

export const MAX_BODY_BYTES = 16 * 1024;

export const chooseOrganizationSchema = z
  .strictObject({ organization: text(255).describe('The slug of one of your Organizations.') })
  .meta({ id: 'OrganizationChoice' });

export const organizationFields = {
  id: idField('The id of the Organization.'),
  slug: z.string(),
  name: z.string(),
};
const roleField = z
  .enum(roles)
  .describe('`owner` and `admin` can change keys; `member` and `billing` can only read.');

export const sessionSchema = z
  .object({
    user: z.object({ id: idField('The id of the person.'), email: z.string(), name: z.string() }),
    organization: z.object(organizationFields).describe('The current one.'),
    role: roleField,
    organizations: z
      .array(z.object({ ...organizationFields, role: roleField }))
      .describe('All Organizations of the person, by name, at most 1,000.'),
  })
  .meta({ id: 'Session', description: 'Who is signed in, and their current Organization.' });

export const organizationAnswerSchema = namedObject('Organization', {
  ...organizationFields,
  requireSecondFactor: z.boolean().describe('Members need a second factor.'),
  requireSingleSignOn: z.boolean().describe('Members must sign in with single sign-on.'),
  archivedAt: timeField('When it was archived; `null` if it is not.').nullable(),
  marketAccess: z
    .enum(marketAccesses)
    .describe('Its access to markets: `none`, `read` (read and close positions) or `trade`.'),
  mayCorrect: z.boolean().describe('Its owners, admins and keys may correct its usage.'),
  stripeCustomerId: z
    .string()
    .nullable()
    .describe("Stripe's id of the customer that pays for its usage; `null`: no usage is sent to Stripe."),
  stripeSince: timeField('First hour whose usage is sent to Stripe; `null` without a customer.').nullable(),
  creditThresholds: z
    .array(z.int())
    .nullable()
    .describe('When webhooks report that credits run out, in percent; `null`: 20, 10 and 0.'),
  createdAt: timeField('When it was created.'),
});
