import { sendJson, toJson } from '../../../../core/http/json.js';
import { listMembers, type Member } from '../queries.js';
import { json } from '../../../../core/reference/define-route.js';
import { emailSchema, memberAnswerSchema, memberSchema } from '../../operator/schema.js';
import { deletedResponses, listParts, operatorRoute, putResponses } from '../../operator/define-route.js';
import {
  changeAsOperator,
  readEmail,
  readInput,
  readSlug,
  sendDeleted,
  sendPut,
} from '../../operator/http.js';
import { getOrganization } from '../../organizations/organizations.js';
import { readRange, sendPage } from '../../../../core/http/page.js';
import { getMember, putMember, removeMemberByEmail } from '../members.js';

export const memberRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/members',
    operationId: 'listMembers',
    ...listParts('members', memberAnswerSchema, 'Ordered by `email`.'),
    handler: (deps) => async (req, res) => {
      const range = readRange(req, emailSchema);
      const { id } = await getOrganization(deps.db.orm, readSlug(req));
      const rows = await listMembers(deps.db.orm, id, range);
      sendPage(res, 'members', {
        rows,
        limit: range.limit,
        keyOf: (row) => row.email,
        present: memberJson,
      });
    },
  }),
  operatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/members/{email}',
    operationId: 'getMember',
    responses: {
      200: json('The membership.', memberAnswerSchema),
    },
    handler: (deps) => async (req, res) => {
      sendJson(res, 200, toJson(memberJson(await getMember(deps.db.orm, readSlug(req), readEmail(req)))));
    },
  }),
  operatorRoute({
    method: 'put',
    path: '/operator/organizations/{slug}/members/{email}',
    operationId: 'putMember',
    body: memberSchema,
    responses: putResponses(memberAnswerSchema),
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const email = readEmail(req);
      const input = await readInput(req, res, memberSchema);
      const put = await changeAsOperator(deps, req, res, (tx, source) =>
        putMember(tx, slug, email, input, source),
      );
      sendPut(res, put, memberJson);
    },
  }),
  operatorRoute({
    method: 'delete',
    path: '/operator/organizations/{slug}/members/{email}',
    operationId: 'deleteMember',
    responses: deletedResponses,
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const email = readEmail(req);
      await changeAsOperator(deps, req, res, (tx, source) => removeMemberByEmail(tx, slug, email, source));
      sendDeleted(res);
    },
  }),
];

const memberJson = ({ userId, email, name, role, createdAt }: Member) => ({
  userId,
  email,
  name,
  role,
  createdAt,
});
