import { problemExample } from '../../../core/reference/problem-examples.js';
import { exampleWorld } from '../../reference/example-world.js';
import { deletedResponses, notFoundExample, operatorRoute } from '../operator/define-route.js';
import { changeAsOperator, readEmail, sendDeleted } from '../operator/http.js';
import { unlink } from './single-sign-on.js';

const { owner, member } = exampleWorld.users;
const stranger = { params: { email: 'zoe@acme.example' } };

export const singleSignOnRoutes = [
  operatorRoute({
    method: 'delete',
    path: '/operator/users/{email}/single-sign-on',
    operationId: 'deleteUserSingleSignOn',
    summary: "Unlink a User's single sign-on",
    description:
      'For a User whose account at the issuer was replaced by another one. The next single sign-on with this verified address links the new account. Sessions stay. 404 if the User has never used single sign-on.',
    responses: deletedResponses,
    examples: [
      { name: 'unlinked', summary: 'Unlinked', request: { params: { email: owner.email } } },
      notFoundExample('There is no user "zoe@acme.example".', stranger),
      problemExample('not_found', {
        name: 'neverLinked',
        summary: 'A User who has never used single sign-on',
        detail: `The user "${member.email}" has never used single sign-on.`,
        request: { params: { email: member.email } },
      }),
    ],
    handler: (deps) => async (req, res) => {
      const email = readEmail(req);
      await changeAsOperator(deps, req, res, (tx, source) => unlink(tx, email, source));
      sendDeleted(res);
    },
  }),
];
