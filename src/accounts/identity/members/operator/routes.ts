import { listMembers, type Member } from '../queries.js';
import { json } from '../../../../core/reference/define-route.js';
import { emailSchema, memberAnswerSchema, memberSchema } from '../../operator/schema.js';
import { deletedResponses, listParts, operatorRoute, putResponses } from '../../operator/define-route.js';
import { answerPut, readSlug } from '../../operator/http.js';
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
    answer: async ({ params: { slug, email } }, deps) =>
      memberJson(await getMember(deps.db.orm, slug, email)),
  }),
  operatorRoute({
    method: 'put',
    path: '/operator/organizations/{slug}/members/{email}',
    operationId: 'putMember',
    body: memberSchema,
    responses: putResponses(memberAnswerSchema),
    async answer({ params: { slug, email }, input, change, res }) {
      const put = await change((tx, source) => putMember(tx, slug, email, input, source));
      return answerPut(res, put, memberJson);
    },
  }),
  operatorRoute({
    method: 'delete',
    path: '/operator/organizations/{slug}/members/{email}',
    operationId: 'deleteMember',
    responses: deletedResponses,
    answer: ({ params: { slug, email }, change }) =>
      change((tx, source) => removeMemberByEmail(tx, slug, email, source)),
  }),
];

const memberJson = ({ userId, email, name, role, createdAt }: Member) => ({
  userId,
  email,
  name,
  role,
  createdAt,
});
