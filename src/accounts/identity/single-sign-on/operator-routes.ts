import { deletedResponses, operatorRoute } from '../operator/define-route.js';
import { changeAsOperator, readEmail, sendDeleted } from '../operator/http.js';
import { unlink } from './single-sign-on.js';

export const singleSignOnRoutes = [
  operatorRoute({
    method: 'delete',
    path: '/operator/users/{email}/single-sign-on',
    operationId: 'deleteUserSingleSignOn',
    responses: deletedResponses,
    handler: (deps) => async (req, res) => {
      const email = readEmail(req);
      await changeAsOperator(deps, req, res, (tx, source) => unlink(tx, email, source));
      sendDeleted(res);
    },
  }),
];
