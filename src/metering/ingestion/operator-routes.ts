import { operatorRoute } from '../../accounts/identity/operator/define-route.js';
import { readSlug, sourceOf } from '../../accounts/identity/operator/http.js';
import { getOrganization } from '../../accounts/identity/organizations/organizations.js';
import { byOperator } from '../../accounts/identity/session/authority.js';
import { byService, change, recordAudit } from '../../accounts/audit/audit.js';
import { AppError } from '../../core/errors.js';
import { flagInput } from '../../core/http/fields.js';
import { parseQuery } from '../../core/http/page.js';
import { operatorSender } from './batch.js';
import {
  otherFormats,
  readBatch,
  record,
  recordParts,
  recordQuerySchema,
  sendAnswer,
  type RecordingDeps,
} from './routes.js';
import { MAX_BODY_BYTES, usageBatchSchema } from './schema.js';

const querySchema = recordQuerySchema.extend({
  livemode: flagInput
    .optional()
    .meta({ description: '`false`: the events are test usage. Default: `true`.' }),
});

export const operatorUsageRoutes = [
  operatorRoute({
    at: 'POST /operator/organizations/{slug}/usage/events',
    operationId: 'recordCustomerUsageEvents',
    query: querySchema,
    ...recordParts,
    body: usageBatchSchema,
    otherFormats,
    maxBytes: MAX_BODY_BYTES,
    handler: (deps: RecordingDeps) => async (req, res) => {
      const { db, clock } = deps;
      const receivedAtMs = clock.now();
      const { id: orgId, slug, archivedAt } = await getOrganization(db.orm, readSlug(req));
      if (archivedAt !== null) throw new AppError('not_found', `The Organization "${slug}" is archived.`);
      const { dryRun, livemode } = parseQuery(querySchema, req.query);
      const isLive = livemode !== 'false';
      const sender = { hashedSecret: operatorSender(orgId, isLive), orgId, receivedAtMs };
      const sent = await readBatch(deps, req, res, sender, () => Promise.resolve(orgId));
      await byOperator(res).confirm(db.orm, new Date(receivedAtMs));
      const answer = await record(deps, sent, dryRun === 'true');
      const { accepted, deduped } = answer;
      // After the commit, and for repeats too, so that every 202 has a row even if the service stopped between the two.
      if (dryRun !== 'true' && accepted + deduped > 0)
        await change(deps, byService, (tx) =>
          recordAudit(tx, orgId, {
            ...sourceOf(req, res, clock),
            action: 'usage.events_sent',
            target: sent.batch.keys[0]!,
            details: { livemode: isLive, events: accepted, repeats: deduped },
          }),
        );
      sendAnswer(res, sent.batch, answer);
    },
  }),
];
