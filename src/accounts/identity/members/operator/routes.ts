import { sendJson, toJson } from '../../../../core/http/json.js';
import { listMembers, type Member } from '../queries.js';
import { json } from '../../../../core/reference/define-route.js';
import { exampleWorld } from '../../../reference/example-world.js';
import { invalidExample } from '../../../../core/reference/problem-examples.js';
import { emailSchema, memberAnswerSchema, memberSchema } from '../../operator/schema.js';
import {
  createdAt,
  deletedResponses,
  listParts,
  notFoundExample,
  now,
  operatorRoute,
  putResponses,
} from '../../operator/define-route.js';
import {
  changeAsOperator,
  readEmail,
  readInput,
  readSlug,
  sendDeleted,
  sendPut,
} from '../../operator/http.js';
import { getOrganization } from '../../organizations/organizations.js';
import { readRange, sendPage, toCursor } from '../../../../core/http/page.js';
import { getMember, putMember, removeMemberByEmail } from '../members.js';

const { users } = exampleWorld;
const view = (name: keyof typeof users) => {
  const { id, ...rest } = users[name];
  return { userId: id, ...rest, createdAt };
};
const max = view('member');
const params = { slug: 'acme', email: max.email };
const outsider = { slug: 'acme', email: users.newcomer.email };
const outsiderDetail = `The user "${users.newcomer.email}" is not a member of the Organization "acme".`;

export const memberRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/organizations/{slug}/members',
    operationId: 'listMembers',
    summary: 'List members',
    description: 'The members of an Organization with their roles, ordered by address.',
    ...listParts('members', memberAnswerSchema, 'Ordered by `email`.'),
    examples: [
      {
        name: 'firstPage',
        summary: 'The first page, of one',
        request: { params: { slug: 'acme' }, query: { limit: '1' } },
        answer: { members: [max], nextCursor: toCursor(max.email) },
      },
      notFoundExample('There is no Organization "initech".', { params: { slug: 'initech' } }),
    ],
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
    summary: 'Read a membership',
    description: 'The role of a User in an Organization.',
    responses: {
      200: json('The membership.', memberAnswerSchema),
    },
    examples: [
      { name: 'member', summary: 'Max', request: { params }, answer: max },
      notFoundExample(outsiderDetail, { params: outsider }),
    ],
    handler: (deps) => async (req, res) => {
      sendJson(res, 200, toJson(memberJson(await getMember(deps.db.orm, readSlug(req), readEmail(req)))));
    },
  }),
  operatorRoute({
    method: 'put',
    path: '/operator/organizations/{slug}/members/{email}',
    operationId: 'putMember',
    summary: 'Declare a membership',
    description:
      'Makes a User a member of the Organization with the given role, from their next request on. The User and the Organization must exist.',
    body: memberSchema,
    responses: putResponses(memberAnswerSchema),
    good: { params, body: { role: 'member' } },
    examples: [
      {
        name: 'promoted',
        summary: 'Another role',
        request: { params, body: { role: 'admin' } },
        answer: { ...max, role: 'admin' },
      },
      {
        name: 'added',
        summary: 'A new member',
        request: { params: outsider, body: { role: 'billing' } },
        status: 201,
        answer: { ...view('newcomer'), role: 'billing', createdAt: now },
      },
      notFoundExample('There is no user "zoe@acme.example".', {
        params: { slug: 'acme', email: 'zoe@acme.example' },
        body: { role: 'member' },
      }),
      invalidExample('An unknown role', { params, body: { role: 'boss' } }),
    ],
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
    summary: 'End a membership',
    description:
      "Ends the membership, from the User's next request on. It also removes the last owner. The Organization's keys do not change.",
    responses: deletedResponses,
    examples: [
      { name: 'ended', summary: 'Ended', request: { params } },
      notFoundExample(outsiderDetail, { params: outsider }),
    ],
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
