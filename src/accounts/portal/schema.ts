import { z } from 'zod';
import { namedObject, timeField } from '../../core/http/fields.js';
import { text, withoutRepeats } from '../../core/http/validate.js';
import { emailSchema } from '../identity/operator/schema.js';
import { contrastOf, hasContrast } from './accent.js';
import { portalPages } from './table.js';

export const DEFAULT_MINUTES = 60;

const accent = z
  .string()
  .regex(/^#[\da-fA-F]{6}$/, { error: 'must be a colour like #2456d6', abort: true })
  .refine(hasContrast, {
    error: ({ input }) =>
      `is too light for text: its contrast with white is ${contrastOf(String(input)).toFixed(1)} to 1, and at least 4.5 to 1 is needed`,
  });

const returnUrl = z
  .string()
  .max(2_000, 'must have at most 2,000 characters')
  .refine(
    (value) => URL.canParse(value) && /^https?:$/.test(new URL(value).protocol),
    'must be a URL like https://app.example.com/billing',
  );

export const portalSessionInputSchema = z
  .strictObject({
    expiresInMinutes: z
      .int()
      .min(5, 'must be 5 to 1440')
      .max(1_440, 'must be 5 to 1440')
      .default(DEFAULT_MINUTES)
      .describe('When the session ends.'),
    pages: withoutRepeats(z.array(z.enum(portalPages)).min(1, 'must name at least one page'), 'page')
      .optional()
      .describe('Default: all but `keys`; with `subject`, not `credits` either. `keys` needs `member`.'),
    subject: text(255).optional().describe('Shows only the usage of this subject.'),
    livemode: z.boolean().optional().describe('Shows only live or only test usage. Default: both.'),
    member: z
      .string()
      .trim()
      .toLowerCase()
      .pipe(emailSchema)
      .optional()
      .describe('The address of an owner or admin, who then manages API keys. Needs the page `keys`.'),
    returnUrl: returnUrl.optional().describe('Where the link back leads.'),
    accent: accent.optional().describe('The colour of links and buttons.'),
  })
  .refine(({ pages, member }) => member === undefined || pages?.includes('keys'), {
    error: 'is only for sessions with the page keys',
    path: ['member'],
  })
  .refine(({ pages, member }) => member !== undefined || !pages?.includes('keys'), {
    error: 'is required with the page keys',
    path: ['member'],
  })
  .refine(
    ({ pages, subject }) =>
      subject === undefined || !pages?.some((page) => page === 'credits' || page === 'keys'),
    {
      error: 'cannot be combined with credits or keys, which belong to the whole Organization',
      path: ['subject'],
    },
  )
  .meta({ id: 'PortalSessionInput' });

export const portalSessionSchema = namedObject('PortalSession', {
  url: z
    .url()
    .describe('Open it within 10 minutes, as a page or in an `iframe`. It works once and holds a secret.'),
  expiresAt: timeField('When the session ends.'),
});
