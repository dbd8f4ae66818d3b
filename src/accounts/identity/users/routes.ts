import { retryOnConflict } from '../../../core/db/sql.js';
import { hangUpSignal } from '../../../core/http/request.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { json } from '../../../core/reference/define-route.js';
import { emailSchema, userAnswerSchema, userSchema } from '../operator/schema.js';
import { deletedResponses, listParts, operatorRoute, putResponses } from '../operator/define-route.js';
import { changeAsOperator, readEmail, readInput, sendDeleted, sendPut } from '../operator/http.js';
import { readRange, sendPage } from '../../../core/http/page.js';
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

export const userRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/users',
    operationId: 'listUsers',
    ...listParts('users', userAnswerSchema, 'Ordered by `email`.'),
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
    responses: { 200: json('The User.', userAnswerSchema) },
    handler: (deps) => async (req, res) => {
      sendJson(res, 200, toJson(userJson(await getUser(deps.db.orm, readEmail(req)))));
    },
  }),
  operatorRoute({
    method: 'put',
    path: '/operator/users/{email}',
    operationId: 'putUser',
    body: userSchema,
    responses: putResponses(userAnswerSchema),
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
    responses: deletedResponses,
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
    responses: { 204: { description: 'Signed out everywhere.' } },
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
    responses: { 204: { description: 'The second factor was removed.' } },
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
