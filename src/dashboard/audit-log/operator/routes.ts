import { z } from 'zod';
import { listAuditRows, listOperatorRows, type OperatorRow } from '../../../accounts/audit/queries.js';
import { readRange, sendPage } from '../../../core/http/page.js';
import { listParts, operatorRoute } from '../../../accounts/identity/operator/define-route.js';
import { readSlug } from '../../../accounts/identity/operator/http.js';
import { chainedAuditEntrySchema } from '../../../accounts/identity/operator/schema.js';
import { getOrganization } from '../../../accounts/identity/organizations/organizations.js';

const idSchema = z.uuid();

export const auditLogRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/audit-log',
    operationId: 'listOperatorLog',
    ...listParts('auditLog', chainedAuditEntrySchema, 'Newest first.'),
    handler: (deps) => async (req, res) => {
      const range = readRange(req, idSchema);
      const rows = await listOperatorRows(deps.db.orm, {}, { before: range.after, limit: range.limit + 1 });
      sendPage(res, 'auditLog', { rows, limit: range.limit, keyOf: (row) => row.id, present: entryJson });
    },
  }),
  operatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/audit-log',
    operationId: 'listAuditLog',
    ...listParts('auditLog', chainedAuditEntrySchema, 'Newest first.'),
    handler: (deps) => async (req, res) => {
      const range = readRange(req, idSchema);
      const { id } = await getOrganization(deps.db.orm, readSlug(req));
      const rows = await listAuditRows(deps.db.orm, id, {}, { before: range.after, limit: range.limit + 1 });
      sendPage(res, 'auditLog', { rows, limit: range.limit, keyOf: (row) => row.id, present: entryJson });
    },
  }),
];

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
