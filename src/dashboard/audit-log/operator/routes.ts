import { listAuditRows, listOperatorRows, type OperatorRow } from '../../../accounts/audit/queries.js';
import { listRoute } from '../../../accounts/identity/operator/define-route.js';
import { chainedAuditEntrySchema } from '../../../accounts/identity/operator/schema.js';
import { getOrganization } from '../../../accounts/identity/organizations/organizations.js';

const entryJson = ({ id, at, action, actor, target, details, ip, requestId, seq, hash }: OperatorRow) => ({
  id,
  at,
  action,
  actor,
  target,
  details,
  ip,
  requestId,
  seq,
  hash,
});

export const auditLogRoutes = [
  listRoute('auditLog', chainedAuditEntrySchema, 'id', {
    at: 'GET /operator/audit-log',
    operationId: 'listOperatorLog',
    read: ({ db }, { after: before, limit }) => listOperatorRows(db.orm, {}, { before, limit: limit + 1 }),
    present: entryJson,
  }),
  listRoute('auditLog', chainedAuditEntrySchema, 'id', {
    at: 'GET /operator/organizations/{slug}/audit-log',
    operationId: 'listAuditLog',
    async read({ db: { orm } }, { after: before, limit }, { slug }) {
      const { id } = await getOrganization(orm, slug);
      return listAuditRows(orm, id, {}, { before, limit: limit + 1 });
    },
    present: entryJson,
  }),
];
