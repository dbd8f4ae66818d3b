import { Router, type Request, type Response } from 'express';
import { requireRole, sessionOf } from '../identity/session/session.js';
import { readJsonBody } from '../core/http/json-body.js';
import { parseInput } from '../core/http/validate.js';
import {
  createApiKey,
  requireKey,
  revokeApiKey,
  rotateApiKey,
  type KeyDeps,
  type NewKey,
} from './api-keys.js';
import { ChangesExhausted, readChangeBudget, setBudgetHeaders } from './change-limit.js';
import { decodeCursor, encodeCursor } from './cursor.js';
import { toApiKeyJson } from './key-json.js';
import { listKeys } from './queries.js';
import { actorOf, readId } from './request.js';
import { createApiKeySchema, listApiKeysSchema, MAX_BODY_BYTES, rotateApiKeySchema } from './schema.js';

const PAGE_SIZE = 100;
const DEFAULT_GRACE_MINUTES = 60;

/** `/dashboard/api-keys`: every member reads them, owner and admin change them. */
export function apiKeyRoutes(deps: KeyDeps): Router {
  const { db, clock, config } = deps;
  const mayChange = requireRole('owner', 'admin');
  const router = Router();

  router.get('/api-keys', async (req, res) => {
    const { orgId } = sessionOf(res);
    const { limit, cursor } = parseInput(listApiKeysSchema, req.query);
    const size = Number(limit ?? PAGE_SIZE);
    // One more than is asked for tells whether there is a next page.
    const rows = await listKeys(db.orm, orgId, {
      limit: size + 1,
      ...(cursor === undefined ? {} : { afterId: decodeCursor(cursor) }),
    });
    const page = rows.slice(0, size);
    const now = clock.now();
    setBudgetHeaders(res, await readChangeBudget(db.orm, orgId, now, config.limits.keyChangesPerHour));
    res.json({
      apiKeys: page.map((key) => toApiKeyJson(key, now)),
      nextCursor: rows.length > size ? encodeCursor(page.at(-1)!.id) : null,
    });
  });

  router.get('/api-keys/:id', async (req, res) => {
    const key = await requireKey(db.orm, sessionOf(res).orgId, readId(req));
    res.json({ apiKey: toApiKeyJson(key, clock.now()) });
  });

  router.post('/api-keys', mayChange, async (req, res) => {
    const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
    const { expiresAt, ...input } = parseInput(createApiKeySchema, value);
    const { key, secret } = await withBudget(res, () =>
      createApiKey(deps, actorOf(req, res), { ...input, expiresAt: expiresAt ? new Date(expiresAt) : null }),
    );
    res.status(201).json({ apiKey: toApiKeyJson(key, clock.now()), secret });
  });

  router.post('/api-keys/:id/rotate', mayChange, async (req, res) => {
    const id = readId(req);
    const body = hasBody(req) ? (await readJsonBody(req, res, MAX_BODY_BYTES)).value : {};
    const { graceMinutes = DEFAULT_GRACE_MINUTES } = parseInput(rotateApiKeySchema, body);
    const { key, secret, previous } = await withBudget(res, () =>
      rotateApiKey(deps, actorOf(req, res), id, graceMinutes),
    );
    const now = clock.now();
    res.status(201).json({
      apiKey: toApiKeyJson(key, now),
      secret,
      previous: toApiKeyJson(previous, now),
    });
  });

  router.delete('/api-keys/:id', mayChange, async (req, res) => {
    const key = await revokeApiKey(deps, actorOf(req, res), readId(req));
    res.json({ apiKey: toApiKeyJson(key, clock.now()) });
  });

  return router;
}

/** Tells what is left of the hour's changes, with the change and with its refusal. */
async function withBudget<T extends NewKey>(res: Response, change: () => Promise<T>): Promise<T> {
  try {
    const made = await change();
    setBudgetHeaders(res, made.budget);
    return made;
  } catch (error) {
    if (error instanceof ChangesExhausted) setBudgetHeaders(res, error.budget);
    throw error;
  }
}

const hasBody = (req: Request): boolean =>
  req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0;
