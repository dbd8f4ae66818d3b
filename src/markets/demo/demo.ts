import { z } from 'zod';
import { addMembersKey } from '../../accounts/api-keys/api-keys.js';
import type { DemoPart } from '../../demo/demo.js';
import { openPaperAccount } from '../ledger/queries.js';
import { findFirstStep } from './trading.js';

const schema = z.object({
  keys: z.object({
    /** A test key, so it trades only on paper. */
    trading: z.string(),
  }),
});

type MarketsKeys = z.infer<typeof schema>['keys'];

declare module '../../demo/demo.js' {
  interface DemoKeys extends MarketsKeys {}
}

export const demo: DemoPart = {
  schema,
  async seed(tx, [first], source, { trading: { marketSource, paperCash: cash } }, nowMs) {
    const scopes = ['trading:read', 'trading:write'];
    const key = { name: 'paper trader', livemode: false, scopes, now: source.at };
    const owner = { orgId: first.id, userId: first.ownerId };
    // Reading the portfolio would open the account with a deposit of today, which would count as a loss on earlier
    // days.
    if (marketSource === 'simulated')
      await openPaperAccount(tx, { orgId: first.id, cash, at: new Date(findFirstStep(nowMs)) });
    return { keys: { trading: (await addMembersKey(tx, owner, key)).secret } };
  },
};
