import { listMembers, type Member } from '../queries.js';
import { json } from '../../../../core/reference/define-route.js';
import { memberAnswerSchema, memberSchema } from '../../operator/schema.js';
import { deletedResponses, listRoute, operatorRoute, putResponses } from '../../operator/define-route.js';
import { answerPut } from '../../operator/http.js';
import { getOrganization } from '../../organizations/organizations.js';
import { getMember, putMember, removeMemberByEmail } from '../members.js';

const memberJson = ({ userId, email, name, role, createdAt }: Member) => ({
  userId,
  email,
  name,
  role,
  createdAt,
});

export const memberRoutes = [
  listRoute('members', memberAnswerSchema, 'email', {
    at: 'GET /operator/organizations/{slug}/members',
    operationId: 'listMembers',
    read: async ({ db: { orm } }, range, { slug }) =>
      listMembers(orm, (await getOrganization(orm, slug)).id, range),
    present: memberJson,
  }),
  operatorRoute({
    at: 'GET /operator/organizations/{slug}/members/{email}',
    operationId: 'getMember',
    responses: {
      200: json('The membership.', memberAnswerSchema),
    },
    answer: async ({ params: { slug, email } }, deps) =>
      memberJson(await getMember(deps.db.orm, slug, email)),
  }),
  operatorRoute({
    at: 'PUT /operator/organizations/{slug}/members/{email}',
    operationId: 'putMember',
    body: memberSchema,
    responses: putResponses(memberAnswerSchema),
    async answer({ params: { slug, email }, input, change, res }) {
      const put = await change((tx, source) => putMember(tx, slug, email, input, source));
      return answerPut(res, put, memberJson);
    },
  }),
  operatorRoute({
    at: 'DELETE /operator/organizations/{slug}/members/{email}',
    operationId: 'deleteMember',
    responses: deletedResponses,
    answer: ({ params: { slug, email }, change }) =>
      change((tx, source) => removeMemberByEmail(tx, slug, email, source)),
  }),
];
