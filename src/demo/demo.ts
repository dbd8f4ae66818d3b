import { z } from 'zod';
import { entitlementKinds } from '../entitlements/table.js';
import { roles } from '../organizations/table.js';

/** Everything about the demo that can be shown. It is known in clear only to whoever made it. */
export const demoSchema = z.strictObject({
  /** The embedded database is for trying; what is printed says so. */
  database: z.enum(['embedded', 'postgres']),
  logins: z.array(
    z.strictObject({
      email: z.string(),
      name: z.string(),
      organization: z.string(),
      role: z.enum(roles),
      password: z.string(),
    }),
  ),
  /** Keys of the first Organization. */
  keys: z.strictObject({
    live: z.string(),
    test: z.string(),
    /** May read the portfolio and place orders; a test key, so on paper only. */
    trading: z.string(),
  }),
  /** What the first Organization is entitled to. */
  products: z
    .array(
      z.strictObject({
        slug: z.string(),
        usageMetric: z.string(),
        unitCap: z.string().nullable(),
        kind: z.enum(entitlementKinds),
      }),
    )
    .min(1),
});

export type DemoData = z.infer<typeof demoSchema>;
