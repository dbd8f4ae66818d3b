import { z } from 'zod';
import { listAuditRows, listOperatorRows, type OperatorRow } from '../../../accounts/audit/queries.js';
import { readRange, sendPage } from '../../../core/http/page.js';
import { exampleWorld } from '../../../accounts/reference/example-world.js';
import {
  listParts,
  notFoundExample,
  operatorRoute,
} from '../../../accounts/identity/operator/define-route.js';
import { readSlug } from '../../../accounts/identity/operator/http.js';
import { chainedAuditEntrySchema } from '../../../accounts/identity/operator/schema.js';
import { getOrganization } from '../../../accounts/identity/organizations/organizations.js';

const idSchema = z.uuid();

const { operator, organization, source } = exampleWorld.audit;

export const auditLogRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/audit-log',
    operationId: 'listOperatorLog',
    summary: "List the operator's changes",
    description:
      "Changes outside any Organization, newest first: products, Users, sign-ins, people's changes to their own accounts, and refused operator tokens. Each entry is written in the transaction of its change and chained to the previous entry, so `npm run audit:verify` detects later alterations.",
    ...listParts('auditLog', chainedAuditEntrySchema, 'Newest first.'),
    examples: [
      {
        name: 'log',
        summary: 'One entry',
        request: {},
        answer: { auditLog: [{ ...operator, ...source }], nextCursor: null },
      },
    ],
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
    summary: 'List the changes in an Organization',
    description:
      'Changes of the Organization, its members, entitlements and keys, newest first, with actor and address. Each entry is written in the transaction of its change and chained to the previous entry, so `npm run audit:verify` detects later alterations.',
    ...listParts('auditLog', chainedAuditEntrySchema, 'Newest first.'),
    examples: [
      {
        name: 'log',
        summary: 'One entry',
        request: { params: { slug: 'acme' } },
        answer: { auditLog: [{ ...organization, ...source }], nextCursor: null },
      },
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
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
