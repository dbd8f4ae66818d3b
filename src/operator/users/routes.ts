import { Router } from 'express';
import type { Context } from '../../context.js';
import { readJsonBody } from '../../http/json-body.js';
import { sendJson, toJson } from '../../http/json.js';
import { parseInput } from '../../http/validate.js';
import { inTransaction, retryOnConflict } from '../change.js';
import { MAX_BODY_BYTES, readEmail, sendDeleted, sendPut, sourceOf } from '../http.js';
import { readRange, sendPage } from '../page.js';
import { emailSchema, userSchema } from '../schema.js';
import { listUsers, type User } from './queries.js';
import { choosePassword, endSessions, getUser, putUser, removeSecondFactor, removeUser } from './users.js';

export function userRoutes({ db, clock }: Context): Router {
  const router = Router();

  router.get('/users', async (req, res) => {
    const range = readRange(req, emailSchema);
    const rows = await listUsers(db.orm, range);
    sendPage(res, 'users', { rows, limit: range.limit, keyOf: (row) => row.email, present: userJson });
  });

  router.get('/users/:email', async (req, res) => {
    sendJson(res, 200, toJson(userJson(await getUser(db.orm, readEmail(req)))));
  });

  router.put('/users/:email', async (req, res) => {
    const email = readEmail(req);
    const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
    const { name, password } = parseInput(userSchema, value);
    const source = sourceOf(req, res, clock);
    const put = await retryOnConflict(async () => {
      const choice = await choosePassword(db.orm, email, password);
      return db.orm.transaction((tx) => putUser(tx, email, { name, ...choice }, source));
    });
    sendPut(res, put, userJson);
  });

  router.delete('/users/:email', async (req, res) => {
    const email = readEmail(req);
    await inTransaction(db.orm, (tx) => removeUser(tx, email, sourceOf(req, res, clock)));
    sendDeleted(res);
  });

  router.delete('/users/:email/sessions', async (req, res) => {
    const email = readEmail(req);
    await inTransaction(db.orm, (tx) => endSessions(tx, email, sourceOf(req, res, clock)));
    sendDeleted(res);
  });

  router.delete('/users/:email/second-factor', async (req, res) => {
    const email = readEmail(req);
    await inTransaction(db.orm, (tx) => removeSecondFactor(tx, email, sourceOf(req, res, clock)));
    sendDeleted(res);
  });

  return router;
}

/** Never the password's hash. */
const userJson = ({ id, email, name, createdAt }: User) => ({ id, email, name, createdAt });
