import { Router } from 'express';
import { byOperator } from '../session/authority.js';
import { change } from '../session/change.js';
import { retryOnConflict } from '../../core/db/conflict.js';
import type { Context } from '../../core/http/context.js';
import { hangUpSignal } from '../../core/http/hang-up.js';
import { readJsonBody } from '../../core/http/json-body.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { MAX_BODY_BYTES, readEmail, sendDeleted, sendPut, sourceOf } from '../operator/http.js';
import { readRange, sendPage } from '../../core/http/page.js';
import { emailSchema, userSchema } from '../operator/schema.js';
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

export function userRoutes(deps: Pick<Context, 'db' | 'clock'>): Router {
  const { db, clock } = deps;
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
    const choose = async () => {
      const choice = await choosePassword(db.orm, email, password, hangUpSignal(res));
      return change(deps, byOperator(res), (tx) => putUser(tx, email, { name, ...choice }, source));
    };
    const put = await retryOnConflict(choose, (error) => error instanceof PasswordChanged);
    sendPut(res, put, userJson);
  });

  router.delete('/users/:email', async (req, res) => {
    const email = readEmail(req);
    await change(deps, byOperator(res), (tx) => removeUser(tx, email, sourceOf(req, res, clock)));
    sendDeleted(res);
  });

  router.delete('/users/:email/sessions', async (req, res) => {
    const email = readEmail(req);
    await change(deps, byOperator(res), (tx) => endSessions(tx, email, sourceOf(req, res, clock)));
    sendDeleted(res);
  });

  router.delete('/users/:email/second-factor', async (req, res) => {
    const email = readEmail(req);
    await change(deps, byOperator(res), (tx) => removeSecondFactor(tx, email, sourceOf(req, res, clock)));
    sendDeleted(res);
  });

  return router;
}

/** Never the password's hash. */
const userJson = ({ id, email, name, createdAt }: User) => ({ id, email, name, createdAt });
