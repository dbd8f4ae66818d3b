import { z } from 'zod';
import { configPart, urlField, wholeField, wholeNumber } from '../core/config.js';

interface MeteringConfig {
  /** Whole months from the end of the event's month. Undefined: forever. */
  dedupeHorizonMonths: number | undefined;
  /** A live key sends live usage, a test key test usage. */
  stripe: { key: string; livemode: boolean; url: string } | undefined;
}

/** Per API key. */
interface MeteringLimits {
  usagePerMinute: number;
  entitlementsPerMinute: number;
}

declare module '../core/config.js' {
  interface ServiceConfig extends MeteringConfig {}
  interface Limits extends MeteringLimits {}
}

export const meteringConfig = configPart(
  {
    // Even one month is longer than the maximum delay of an event.
    DEDUPE_HORIZON_MONTHS: wholeField(1_200).optional(),
    STRIPE_API_KEY: z
      .string()
      .regex(
        /^(sk|rk)_(live|test)_\w{8,}$/,
        'must be a secret or restricted key of Stripe, which begins with sk_live_, rk_live_, sk_test_ or rk_test_',
      )
      .optional(),
    STRIPE_URL: urlField(/^https?:$/, 'https://api.stripe.com').default('https://api.stripe.com'),
    LIMIT_USAGE_PER_MINUTE: wholeNumber(600),
    LIMIT_ENTITLEMENTS_PER_MINUTE: wholeNumber(1200),
  },
  (e): MeteringConfig & { limits: MeteringLimits } => ({
    dedupeHorizonMonths: e.DEDUPE_HORIZON_MONTHS,
    stripe:
      e.STRIPE_API_KEY === undefined
        ? undefined
        : { key: e.STRIPE_API_KEY, livemode: /^.k_live_/.test(e.STRIPE_API_KEY), url: e.STRIPE_URL },
    limits: {
      usagePerMinute: e.LIMIT_USAGE_PER_MINUTE,
      entitlementsPerMinute: e.LIMIT_ENTITLEMENTS_PER_MINUTE,
    },
  }),
);
