import { retryOnConflict } from '../../../core/db/sql.js';
import { hangUpSignal } from '../../../core/http/request.js';
import { json } from '../../../core/reference/define-route.js';
import { userAnswerSchema, userSchema } from '../operator/schema.js';
import { deletedResponses, listRoute, operatorRoute, putResponses } from '../operator/define-route.js';
import { answerPut } from '../operator/http.js';
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

/** Must not include the password hash. */
const userJson = ({ id, email, name, createdAt }: User) => ({ id, email, name, createdAt });

export const userRoutes = [
  listRoute('users', userAnswerSchema, 'email', {
    at: 'GET /operator/users',
    operationId: 'listUsers',
    read: ({ db }, range) => listUsers(db.orm, range),
    present: userJson,
  }),
  operatorRoute({
    at: 'GET /operator/users/{email}',
    operationId: 'getUser',
    responses: { 200: json('The User.', userAnswerSchema) },
    answer: async ({ params }, deps) => userJson(await getUser(deps.db.orm, params.email)),
  }),
  operatorRoute({
    at: 'PUT /operator/users/{email}',
    operationId: 'putUser',
    body: userSchema,
    responses: putResponses(userAnswerSchema),
    async answer({ params: { email }, input: { name, password }, change, res }, deps) {
      const choose = async () => {
        const choice = await choosePassword(deps.db.orm, email, password, hangUpSignal(res));
        return change(async (tx, source) => {
          const put = await putUser(tx, email, { name, ...choice }, source);
          if (!put.isNew && choice.seenHash !== choice.passwordHash)
            await mailAccountNotice(tx, deps, email, 'password', source, true);
          return put;
        });
      };
      const put = await retryOnConflict(choose, (error) => error instanceof PasswordChanged);
      return answerPut(res, put, userJson);
    },
  }),
  operatorRoute({
    at: 'DELETE /operator/users/{email}',
    operationId: 'deleteUser',
    responses: deletedResponses,
    answer: ({ params, change }) => change((tx, source) => removeUser(tx, params.email, source)),
  }),
  operatorRoute({
    at: 'DELETE /operator/users/{email}/sessions',
    operationId: 'deleteUserSessions',
    responses: { 204: { description: 'Signed out everywhere.' } },
    answer: ({ params, change }) => change((tx, source) => endSessions(tx, params.email, source)),
  }),
  operatorRoute({
    at: 'DELETE /operator/users/{email}/second-factor',
    operationId: 'deleteUserSecondFactor',
    responses: { 204: { description: 'The second factor was removed.' } },
    answer: ({ params: { email }, change }, deps) =>
      change(async (tx, source) => {
        await removeSecondFactor(tx, email, source);
        await mailAccountNotice(tx, deps, email, 'secondFactor', source, true);
      }),
  }),
];
