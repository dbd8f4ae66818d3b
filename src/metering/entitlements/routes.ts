import { z } from 'zod';
import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import { readHashedSecret, preferKeyError } from '../../accounts/api-keys/bearer-key.js';
import { AppError, type ErrorPlace } from '../../core/errors.js';
import type { Orm } from '../../core/db/client.js';
import { findUnknownKey, unknownDimension, type Dimensions } from './dimensions.js';
import { listDimensions } from './queries.js';
import type { Context } from '../../core/http/context.js';
import { hasSmallBody, readJsonText, batchBounds } from '../../core/http/body.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { cutPage } from '../../core/http/page.js';
import { checkResultsJson, parseCheck, toEntitlementView } from './entitlement-json.js';
import { suggestSlugs } from './nearest.js';
import type { EntitlementReader } from './reader.js';
import {
  MAX_BODY_BYTES,
  entitlementCheckAnswerSchema,
  entitlementCheckSchema,
  entitlementListSchema,
  entitlementPageSchema,
  entitlementSchema,
} from './schema.js';
import { defineRoute, json } from '../../core/reference/define-route.js';

interface EntitlementDeps extends CallDeps, Pick<Context, 'db' | 'clock'> {
  entitlements: EntitlementReader;
}

const scope = 'entitlements:read';

const common = { tag: 'Entitlements', credential: 'apiKey', scope, limit: 'entitlements' } as const;

const list = defineRoute({
  ...common,
  at: 'GET /api/entitlements',
  operationId: 'listEntitlements',
  query: entitlementPageSchema,
  responses: { 200: json('One page.', entitlementListSchema) },
  handler: (deps: EntitlementDeps) => async (req, res) => {
    const { entitlements, keyUse } = deps;
    const hashedSecret = readHashedSecret(req);
    const query = await preferKeyError(
      () => authenticateCall(deps, hashedSecret, scope),
      () => parseInput(entitlementPageSchema, req.query),
    );
    const limit = Number(query.limit ?? 100);
    const found = await entitlements.list({ hashedSecret, after: query.cursor ?? '', size: limit + 1 });
    keyUse.touch(hashedSecret, scope);
    const { page, nextCursor = null } = cutPage(found, limit, ({ productSlug }) => productSlug);
    sendJson(res, 200, toJson({ entitlements: page.map(toEntitlementView), nextCursor }));
  },
});

const one = defineRoute({
  ...common,
  at: 'GET /api/entitlements/{productSlug}',
  operationId: 'getEntitlement',
  params: z.object({
    productSlug: z.string().meta({ description: 'The slug of the product, percent-encoded.' }),
  }),
  responses: { 200: json('The entitlement.', entitlementSchema) },
  handler: (deps: EntitlementDeps) => async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    const { productSlug } = req.params;
    const entitlement = await deps.entitlements.find(hashedSecret, productSlug);
    deps.keyUse.touch(hashedSecret, scope);
    if (!entitlement) {
      const { orgId } = await deps.keys.authenticate(hashedSecret, scope);
      const question = (await suggestSlugs(deps, orgId, [productSlug])).get(productSlug) ?? '';
      throw new AppError(
        'entitlement_not_found',
        `No entitlement for the product ${productSlug} is in effect.${question}`,
      );
    }
    sendJson(res, 200, toJson(toEntitlementView(entitlement)));
  },
});

const check = defineRoute({
  ...common,
  at: 'POST /api/entitlements/check',
  operationId: 'checkEntitlements',
  body: { schema: entitlementCheckSchema, maxBytes: MAX_BODY_BYTES },
  responses: { 200: json('The results.', entitlementCheckAnswerSchema) },
  handler: (deps: EntitlementDeps) => async (req, res) => {
    const { entitlements, keys, keyUse } = deps;
    const hashedSecret = readHashedSecret(req);
    if (!keyUse.hasSeen(hashedSecret) || !hasSmallBody(req)) await keys.authenticate(hashedSecret, scope);
    const question = await preferKeyError(
      () => authenticateCall(deps, hashedSecret, scope),
      async () => parseCheck(await readJsonText(req, res, MAX_BODY_BYTES, batchBounds)),
    );
    const found = await entitlements.check(hashedSecret, question.slugs);
    keyUse.touch(hashedSecret, scope);
    const { slugs, subjects, dimensions } = question;
    if (dimensions) await requireKnownDimensions(deps.db.orm, slugs, dimensions);
    const ofSubjects =
      subjects &&
      (await entitlements.limitsOf(
        hashedSecret,
        subjects.map((subject, i) => ({ balance: found[i], subject })),
      ));
    sendJson(res, 200, checkResultsJson(question, found, ofSubjects));
  },
});

export const entitlementRoutes = [list, one, check];

async function requireKnownDimensions(
  orm: Orm,
  slugs: string[],
  dimensions: readonly (Dimensions | undefined)[],
): Promise<void> {
  const keys = new Map(
    (await listDimensions(orm, slugs)).map((product) => [product.slug, product.dimensions]),
  );
  const errors = slugs.flatMap((slug, i): ErrorPlace[] => {
    const own = keys.get(slug);
    if (!own || !dimensions[i] || findUnknownKey(own, dimensions[i]) === undefined) return [];
    const detail = unknownDimension(slug, own, dimensions[i]);
    return [{ index: i, pointer: `/items/${i}/dimensions`, code: 'unknown_dimension', detail }];
  });
  if (errors.length > 0) throw new AppError('unknown_dimension', errors[0]!.detail, { errors });
}
