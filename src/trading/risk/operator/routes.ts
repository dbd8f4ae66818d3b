import { Router, type Request, type Response } from 'express';
import { byOperator } from '../../../identity/session/authority.js';
import { change } from '../../../identity/session/change.js';
import type { Context } from '../../../core/http/context.js';
import { readJsonBody } from '../../../core/http/json-body.js';
import { sendJson, toJson } from '../../../core/http/json.js';
import { parseInput } from '../../../core/http/validate.js';
import { findLimits } from '../declared.js';
import { readServiceSwitch, readSwitch, setServiceSwitch, setSwitch } from '../switches.js';
import { MAX_BODY_BYTES, readSlug, sendDeleted, sendPut, sourceOf } from '../../../identity/operator/http.js';
import {
  getLockedOrganization,
  getOrganization,
} from '../../../identity/organizations/operator/organizations.js';
import { limitsJson, putLimits, readDeclared, withdrawLimits } from './limits.js';
import { limitsSchema, switchSchema } from './schema.js';

/** Limits and kill switches. Every order reads them in its own transaction: they bind the next one, on every instance. */
export function tradingControlRoutes(deps: Pick<Context, 'db' | 'clock'>): Router {
  const { db, clock } = deps;
  const router = Router();

  router.get('/organizations/:slug/trading/limits', async (req, res) => {
    const { id } = await getOrganization(db.orm, readSlug(req));
    sendJson(res, 200, toJson(limitsJson(await findLimits(db.orm, id))));
  });

  router.put('/organizations/:slug/trading/limits', async (req, res) => {
    const slug = readSlug(req);
    const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
    const declared = readDeclared(parseInput(limitsSchema, value));
    const source = sourceOf(req, res, clock);
    sendPut(
      res,
      await change(deps, byOperator(res), (tx) => putLimits(tx, slug, declared, source)),
      limitsJson,
    );
  });

  router.delete('/organizations/:slug/trading/limits', async (req, res) => {
    const slug = readSlug(req);
    const source = sourceOf(req, res, clock);
    await change(deps, byOperator(res), (tx) => withdrawLimits(tx, slug, source));
    sendDeleted(res);
  });

  router.get('/organizations/:slug/trading/switch', async (req, res) => {
    const { id } = await getOrganization(db.orm, readSlug(req));
    sendJson(res, 200, toJson(await readSwitch(db.orm, id)));
  });

  router.put('/organizations/:slug/trading/switch', async (req, res) => {
    const slug = readSlug(req);
    const input = await readSwitchInput(req, res);
    const source = sourceOf(req, res, clock);
    const view = await change(deps, byOperator(res), async (tx) => {
      const { id } = await getLockedOrganization(tx, slug);
      await setSwitch(tx, id, 'operator', input, source);
      return readSwitch(tx, id);
    });
    sendJson(res, 200, toJson(view));
  });

  router.get('/trading/switch', async (_req, res) => {
    sendJson(res, 200, toJson(await readServiceSwitch(db.orm)));
  });

  router.put('/trading/switch', async (req, res) => {
    const input = await readSwitchInput(req, res);
    const source = sourceOf(req, res, clock);
    sendJson(
      res,
      200,
      toJson(await change(deps, byOperator(res), (tx) => setServiceSwitch(tx, input, source))),
    );
  });

  return router;
}

async function readSwitchInput(req: Request, res: Response) {
  const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
  const { state, reason } = parseInput(switchSchema, value);
  return { state, reason: reason ?? null };
}
