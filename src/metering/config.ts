import { configPart, wholeField, wholeNumber } from '../core/config.js';

interface MeteringConfig {
  /** Whole months for which an idempotency key is remembered after its event's month. Undefined: forever. */
  dedupeHorizonMonths: number | undefined;
}

/** Calls of each API key. */
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
    // Even one month is longer than events may be reported late, so an archived month is closed.
    DEDUPE_HORIZON_MONTHS: wholeField(1_200).optional(),
    LIMIT_USAGE_PER_MINUTE: wholeNumber(600),
    LIMIT_ENTITLEMENTS_PER_MINUTE: wholeNumber(1200),
  },
  (e): MeteringConfig & { limits: MeteringLimits } => ({
    dedupeHorizonMonths: e.DEDUPE_HORIZON_MONTHS,
    limits: {
      usagePerMinute: e.LIMIT_USAGE_PER_MINUTE,
      entitlementsPerMinute: e.LIMIT_ENTITLEMENTS_PER_MINUTE,
    },
  }),
);
