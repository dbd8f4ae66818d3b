import { retryOnConflict } from '../../../core/db/sql.js';
import { hangUpSignal } from '../../../core/http/request.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { json } from '../../../core/reference/define-route.js';
import { exampleWorld } from '../../reference/example-world.js';
import { invalidExample, problemExample } from '../../../core/reference/problem-examples.js';
import { emailSchema, userAnswerSchema, userSchema } from '../operator/schema.js';
import {
  createdAt,
  deletedResponses,
  listParts,
  madeId,
  notFoundExample,
  now,
  operatorRoute,
  putResponses,
} from '../operator/define-route.js';
import { changeAsOperator, readEmail, readInput, sendDeleted, sendPut } from '../operator/http.js';
import { readRange, sendPage, toCursor } from '../../../core/http/page.js';
import { mailAccountNotice } from './notices.js';
import { listUsers, type User } from './queries.js';
import {
  choosePassword,
  endSessions,
  getUser,
  PasswordChanged,
  putUser,
  removeSecondFactor,
  removeUser,
} from './users.js';

const { role: _role, ...owner } = exampleWorld.users.owner;
const { role: _memberRole, ...member } = exampleWorld.users.member;
const { secured } = exampleWorld.users;
const olivia = { ...owner, createdAt };
const max = { ...member, createdAt };
const params = { email: owner.email };
const stranger = { params: { email: 'zoe@acme.example' } };
const strangerDetail = 'There is no user "zoe@acme.example".';
const declared = { name: owner.name, password: exampleWorld.password };

export const userRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/users',
    operationId: 'listUsers',
    summary: 'List Users',
    description: 'All Users, ordered by address, without passwords.',
    ...listParts('users', userAnswerSchema, 'Ordered by `email`.'),
    examples: [
      {
        name: 'firstPage',
        summary: 'The first page, of one',
        request: { query: { limit: '1' } },
        answer: { users: [max], nextCursor: toCursor(max.email) },
      },
    ],
    handler: (deps) => async (req, res) => {
      const range = readRange(req, emailSchema);
      const rows = await listUsers(deps.db.orm, range);
      sendPage(res, 'users', { rows, limit: range.limit, keyOf: (row) => row.email, present: userJson });
    },
  }),
  operatorRoute({
    method: 'get',
    path: '/operator/users/{email}',
    operationId: 'getUser',
    summary: 'Read a User',
    description: 'A person who can sign in, without the password.',
    responses: { 200: json('The User.', userAnswerSchema) },
    examples: [
      { name: 'user', summary: 'Olivia', request: { params }, answer: olivia },
      notFoundExample(strangerDetail, stranger),
    ],
    handler: (deps) => async (req, res) => {
      sendJson(res, 200, toJson(userJson(await getUser(deps.db.orm, readEmail(req)))));
    },
  }),
  operatorRoute({
    method: 'put',
    path: '/operator/users/{email}',
    operationId: 'putUser',
    summary: 'Declare a User',
    description:
      'Creates or updates the User as declared. The address never changes. A new password ends every session of the User at once; repeating the current password changes nothing.',
    body: userSchema,
    responses: putResponses(userAnswerSchema),
    examples: [
      {
        name: 'unchanged',
        summary: 'Repeated: nothing changes, no session ends',
        request: { params, body: declared },
        answer: olivia,
      },
      {
        name: 'created',
        summary: 'A new User',
        request: { ...stranger, body: { name: 'Zoë Zander', password: 'a long enough password' } },
        status: 201,
        answer: { id: madeId, email: 'zoe@acme.example', name: 'Zoë Zander', createdAt: now },
      },
      invalidExample('A password that is too short', {
        ...stranger,
        body: { name: 'Zoë Zander', password: 'short' },
      }),
    ],
    handler: (deps) => async (req, res) => {
      const email = readEmail(req);
      const { name, password } = await readInput(req, res, userSchema);
      const choose = async () => {
        const choice = await choosePassword(deps.db.orm, email, password, hangUpSignal(res));
        return changeAsOperator(deps, req, res, async (tx, source) => {
          const put = await putUser(tx, email, { name, ...choice }, source);
          if (!put.isNew && choice.seenHash !== choice.passwordHash)
            await mailAccountNotice(tx, deps, email, 'password', source, true);
          return put;
        });
      };
      const put = await retryOnConflict(choose, (error) => error instanceof PasswordChanged);
      sendPut(res, put, userJson);
    },
  }),
  operatorRoute({
    method: 'delete',
    path: '/operator/users/{email}',
    operationId: 'deleteUser',
    summary: 'Remove a User',
    description:
      'Removes the User, their memberships and their sessions at once. Keys that the User created keep working, because keys belong to Organizations; their `createdBy` becomes `null`.',
    responses: deletedResponses,
    examples: [
      { name: 'removed', summary: 'Removed', request: { params } },
      notFoundExample(strangerDetail, stranger),
    ],
    handler: (deps) => async (req, res) => {
      const email = readEmail(req);
      await changeAsOperator(deps, req, res, (tx, source) => removeUser(tx, email, source));
      sendDeleted(res);
    },
  }),
  operatorRoute({
    method: 'delete',
    path: '/operator/users/{email}/sessions',
    operationId: 'deleteUserSessions',
    summary: 'Sign a User out everywhere',
    description:
      'Ends every session of the User, effective on the next request. 404 if the User has no session.',
    responses: { 204: { description: 'Signed out everywhere.' } },
    examples: [
      { name: 'signedOut', summary: 'Signed out', request: { params: { email: max.email } } },
      notFoundExample(strangerDetail, stranger),
    ],
    handler: (deps) => async (req, res) => {
      const email = readEmail(req);
      await changeAsOperator(deps, req, res, (tx, source) => endSessions(tx, email, source));
      sendDeleted(res);
    },
  }),
  operatorRoute({
    method: 'delete',
    path: '/operator/users/{email}/second-factor',
    operationId: 'deleteUserSecondFactor',
    summary: "Remove a User's second factor",
    description:
      'For a User who lost both the authenticator app and the recovery codes. First verify that the request is really theirs. Afterwards the password is enough to sign in, and every session of the User ends. 404 if the User has no second factor.',
    responses: { 204: { description: 'The second factor was removed.' } },
    examples: [
      { name: 'removed', summary: 'Removed', request: { params: { email: secured.email } } },
      notFoundExample(strangerDetail, stranger),
      problemExample('not_found', {
        name: 'noSecondFactor',
        summary: 'A User without a second factor',
        detail: `The user "${owner.email}" has no second factor.`,
        request: { params },
      }),
    ],
    handler: (deps) => async (req, res) => {
      const email = readEmail(req);
      await changeAsOperator(deps, req, res, async (tx, source) => {
        await removeSecondFactor(tx, email, source);
        await mailAccountNotice(tx, deps, email, 'secondFactor', source, true);
      });
      sendDeleted(res);
    },
  }),
];

/** Must not include the password hash. */
const userJson = ({ id, email, name, createdAt }: User) => ({ id, email, name, createdAt });
