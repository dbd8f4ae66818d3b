import { z } from 'zod';
import { idField, namedObject, timeField } from '../../../core/http/fields.js';
import { nameField, text, withoutRepeats } from '../../../core/http/validate.js';
import type { FormFields } from '../../../core/pages/form.js';
import { marketAccesses, roles } from '../../organizations/table.js';

const createdAt = timeField('When it was created.');

export const userAnswerSchema = z
  .object({ id: idField('The id of the User.'), email: z.string(), name: z.string(), createdAt })
  .meta({ id: 'User', description: 'A person who can sign in. The password is never returned.' });

export const memberAnswerSchema = namedObject('Member', {
  userId: idField('The id of the User.'),
  email: z.string(),
  name: z.string(),
  role: z.enum(roles),
  createdAt: timeField('When the membership began.'),
});

const auditEntrySchema = namedObject('AuditEntry', {
  id: idField('The id of the entry. Ids sort by time.'),
  at: timeField('When it happened.'),
  action: z.string().describe('What happened, such as `product.created`.'),
  actor: z
    .string()
    .describe(
      'The actor: the id of a User, `operator` (`operator:` and a name where its token has one), `api_key:` and its id, `system`, or `unknown`.',
    ),
  target: z.string().describe('The target: an id, a slug or an address.'),
  details: z
    .record(z.string(), z.unknown())
    .describe('Details of the action. `before` and `after` have the changed fields.'),
  ip: z.string().nullable().describe('The address the request came from.'),
  requestId: z.string().nullable().describe('The `X-Request-Id` of the request.'),
});

export const chainedAuditEntrySchema = auditEntrySchema
  .extend({
    seq: z
      .int()
      .min(1)
      .nullable()
      .describe('1, 2, 3 … within the log; `null` for entries from before they were chained.'),
    hash: z
      .string()
      .regex(/^[\da-f]{64}$/)
      .nullable()
      .describe(
        'SHA-256 over the entry and the previous hash. A copy kept elsewhere proves the log up to this entry.',
      ),
  })
  .meta({ id: 'ChainedAuditEntry' });

/** Never changes. */
export const slugSchema = z
  .string()
  .regex(
    /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/,
    'must be 1 to 64 of a-z, 0-9, -, _ and ., beginning and ending with a letter or digit',
  );

/** NFKD does not decompose these letters. */
const latinLetters: Record<string, string> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  ł: 'l',
  đ: 'd',
  ð: 'd',
  þ: 'th',
  ı: 'i',
};

const toSlug = (name: string): string =>
  name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[ßæœøłđðþı]/g, (letter) => latinLetters[letter]!)
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, 64)
    .replace(/-$/, '');

/** A form shown again with errors includes the slug. `views/assets/slugs.js` does the same. */
export function fillInSlug(fields: FormFields, slug: string, name: string): void {
  if ((fields[slug] ?? '') === '' && typeof fields[name] === 'string') fields[slug] = toSlug(fields[name]);
}

/** For an address that is already trimmed and lower-cased. */
export const emailSchema = z.email('must be an e-mail address').max(254, 'must have at most 254 characters');

export const stripeCustomerField = z
  .string()
  .regex(/^cus_\w{1,96}$/, 'must be the id of a Stripe customer, which begins with cus_');

export const organizationSchema = z
  .strictObject({
    name: nameField.describe('For people.'),
    requireSecondFactor: z
      .boolean()
      .optional()
      .describe(
        'Whether members need a second factor for everything in the Organization. Default: unchanged, or false for a new Organization.',
      ),
    requireSingleSignOn: z
      .boolean()
      .optional()
      .describe(
        'Whether members must sign in with single sign-on for everything in the Organization. Needs `OIDC_ISSUER`. API keys are not affected. Default: unchanged, or false for a new Organization.',
      ),
    archived: z
      .boolean()
      .optional()
      .describe(
        'Whether its API keys and pages are closed. Default: unchanged, or false for a new Organization.',
      ),
    marketAccess: z
      .enum(marketAccesses)
      .optional()
      .describe(
        'Its access to markets: `none`, `read` (read markets and close positions) or `trade`. Default: unchanged, or `trade` for a new Organization. It has no effect if the service has no markets.',
      ),
    mayCorrect: z
      .boolean()
      .optional()
      .describe(
        'Whether its owners, admins and keys may correct the usage that it is billed for. Without it, only the operator can. Default: unchanged, or false for a new Organization.',
      ),
    stripeCustomerId: stripeCustomerField
      .nullish()
      .describe(
        "Stripe's id of the customer that pays for its usage, from the beginning of the hour in which it is first set. `null`: no usage is sent to Stripe. Default: unchanged, or `null` for a new Organization.",
      ),
    creditThresholds: withoutRepeats(z.array(z.int().min(0).max(100)).max(10), 'threshold')
      .nullish()
      .describe(
        'When webhooks report that credits run out: whole percentages of the granted amount of the open grants. `null`: 20, 10 and 0. Default: unchanged, or `null` for a new Organization.',
      ),
  })
  .meta({ id: 'OrganizationInput' });

export const userSchema = z
  .strictObject({
    name: nameField.describe('For people.'),
    password: text(256, 12).describe(
      'A password that is easy to guess is refused, unless it is the current one. Gauge stores only its argon2id hash. A new password ends every session of the User.',
    ),
  })
  .meta({ id: 'UserInput' });

export const memberSchema = z
  .strictObject({
    role: z
      .enum(roles)
      .describe('`owner` and `admin` can change keys; `member` and `billing` can only read.'),
  })
  .meta({ id: 'MemberInput' });
