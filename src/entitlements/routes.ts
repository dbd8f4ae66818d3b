import type { Request, RequestHandler, Router } from 'express';
import type { KeyUse } from '../api-keys/key-use.js';
import { readHashedSecret } from '../api-keys/bearer-key.js';
import { keyFirst } from '../api-keys/key-first.js';
import type { KeyReader } from '../api-keys/key-reader.js';
import { AppError } from '../core/errors.js';
import { hasSmallBody, readJsonText } from '../core/http/json-body.js';
import { usualBounds } from '../core/http/json-shape.js';
import { sendJson, toJson } from '../core/http/json.js';
import { parseInput } from '../core/http/validate.js';
import { parseCheck } from './parse-check.js';
import type { EntitlementReader } from './reader.js';
import { entitlementPageSchema, MAX_BODY_BYTES } from './schema.js';
import { checkResultsJson, toEntitlementView } from './view.js';

const bounds = { ...usualBounds, tooManyValues: 'batch_too_large' as const };

export interface EntitlementServices {
  entitlements: EntitlementReader;
  keys: KeyReader;
  keyUse: KeyUse;
  /** Stands before each route: see `apiRoutes`. */
  callLimit: RequestHandler;
}

export function addEntitlementRoutes(
  router: Router,
  { entitlements, keys, keyUse, callLimit }: EntitlementServices,
): void {
  /** For input that cannot be read: the call counts if its key was good for it. */
  const judge = async (hashedSecret: string) => {
    await keys.authenticate(hashedSecret, 'entitlements:read');
    keyUse.touch(hashedSecret, 'entitlements:read');
  };

  router.get('/entitlements', callLimit, async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    const { limit, cursor } = await parsePage(req, () => judge(hashedSecret));
    const found = await entitlements.list(hashedSecret, { after: cursor, size: limit + 1 });
    keyUse.touch(hashedSecret, 'entitlements:read');
    const page = found.slice(0, limit);
    const nextCursor = found.length > limit ? page.at(-1)!.productSlug : null;
    sendJson(res, 200, toJson({ entitlements: page.map(toEntitlementView), nextCursor }));
  });

  router.get<{ productSlug: string }>('/entitlements/:productSlug', callLimit, async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    const { productSlug } = req.params;
    const entitlement = await entitlements.find(hashedSecret, productSlug);
    keyUse.touch(hashedSecret, 'entitlements:read');
    if (!entitlement)
      throw new AppError(
        'entitlement_not_found',
        `No entitlement for the product ${productSlug} is in effect.`,
      );
    sendJson(res, 200, toJson(toEntitlementView(entitlement)));
  });

  router.post('/entitlements/check', callLimit, async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    if (!keyUse.hasSeen(hashedSecret) || !hasSmallBody(req))
      await keys.authenticate(hashedSecret, 'entitlements:read');
    const slugs = await readSlugs(req, res, () => judge(hashedSecret));
    const found = await entitlements.check(hashedSecret, slugs);
    keyUse.touch(hashedSecret, 'entitlements:read');
    sendJson(res, 200, checkResultsJson(slugs, found));
  });
}

function parsePage(
  req: Request,
  authenticate: () => Promise<unknown>,
): Promise<{ limit: number; cursor: string }> {
  return keyFirst(authenticate, () => {
    const { limit, cursor } = parseInput(entitlementPageSchema, req.query);
    return { limit: Number(limit ?? 100), cursor: cursor ?? '' };
  });
}

function readSlugs(
  req: Request,
  res: Parameters<typeof readJsonText>[1],
  authenticate: () => Promise<unknown>,
): Promise<string[]> {
  return keyFirst(authenticate, async () => parseCheck(await readJsonText(req, res, MAX_BODY_BYTES, bounds)));
}
