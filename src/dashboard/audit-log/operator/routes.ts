import { Router } from 'express';
import { z } from 'zod';
import type { Context } from '../../../core/http/context.js';
import { readSlug } from '../../../identity/operator/http.js';
import { getOrganization } from '../../../identity/organizations/operator/organizations.js';
import { readRange, sendPage } from '../../../core/http/page.js';
import { listAuditLog, listOperatorLog, type AuditRow, type OperatorRow } from './queries.js';

const idSchema = z.uuid();

/** What was changed, by whom and from where, newest first. */
export function auditLogRoutes({ db }: Context): Router {
  const router = Router();

  router.get('/audit-log', async (req, res) => {
    const range = readRange(req, idSchema);
    const rows = await listOperatorLog(db.orm, range);
    sendPage(res, 'auditLog', { rows, limit: range.limit, keyOf: (row) => row.id, present: chainedJson });
  });

  router.get('/organizations/:slug/audit-log', async (req, res) => {
    const range = readRange(req, idSchema);
    const { id } = await getOrganization(db.orm, readSlug(req));
    const rows = await listAuditLog(db.orm, id, range);
    sendPage(res, 'auditLog', { rows, limit: range.limit, keyOf: (row) => row.id, present: chainedJson });
  });

  return router;
}

const auditJson = ({ id, at, action, actor, target, details, ip, requestId }: OperatorRow) => ({
  id,
  at,
  action,
  actor,
  target,
  details,
  ip,
  requestId,
});

const chainedJson = (row: AuditRow | OperatorRow) => ({ ...auditJson(row), seq: row.seq, hash: row.hash });
