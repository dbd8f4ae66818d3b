import { byService, change, type ChangeDeps } from '../../accounts/audit/audit.js';
import { lockOrganization } from '../../accounts/identity/organizations/queries.js';
import type { ReportedDatabase } from '../../core/db/shards.js';
import { FIRST, walk } from '../../core/db/walk.js';
import type { Context } from '../../core/http/context.js';
import { countAmounts } from './grants.js';
import { continuePlan } from './organization-plans.js';
import { listDue } from './queries.js';

/** Makes the grants of coming and of missed periods, and ends trials. Every instance may run it. */
export const createPlanJob = (deps: ChangeDeps & { db: ReportedDatabase } & Pick<Context, 'metrics'>) =>
  walk<{ orgId: string }, string>(
    FIRST,
    (after) => listDue(deps.db, after, new Date(deps.clock.now())),
    ({ orgId }) => orgId,
    async ({ orgId }) => {
      const at = new Date(deps.clock.now());
      const amounts = await change(deps, byService, async (tx) => {
        await lockOrganization(tx, { id: orgId });
        return continuePlan(tx, orgId, { actor: 'system', at });
      });
      countAmounts(deps.metrics, amounts);
    },
  );
