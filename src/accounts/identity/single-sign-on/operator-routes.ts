import { deletedResponses, operatorRoute } from '../operator/define-route.js';
import { unlink } from './single-sign-on.js';

export const singleSignOnRoutes = [
  operatorRoute({
    at: 'DELETE /operator/users/{email}/single-sign-on',
    operationId: 'deleteUserSingleSignOn',
    responses: deletedResponses,
    answer: ({ params, change }) => change((tx, source) => unlink(tx, params.email, source)),
  }),
];
