import { z } from 'zod';
import { addMembersKey } from '../../accounts/api-keys/api-keys.js';
import type { DemoPart } from '../../demo/demo.js';

const schema = z.object({
  keys: z.object({
    /** May read the portfolio and place orders; a test key, so it trades only on paper. */
    trading: z.string(),
  }),
});

type MarketsKeys = z.infer<typeof schema>['keys'];

declare module '../../demo/demo.js' {
  interface DemoKeys extends MarketsKeys {}
}

/** A key that trades on paper. */
export const demo: DemoPart = {
  schema,
  async seed(tx, [first], source) {
    const scopes = ['trading:read', 'trading:write'];
    const key = { name: 'paper trader', livemode: false, scopes, now: source.at };
    const owner = { orgId: first.id, userId: first.ownerId };
    return { keys: { trading: (await addMembersKey(tx, owner, key)).secret } };
  },
};
