import { z } from 'zod';
import {
  findAccessProblem,
  hashSecret,
  hashServiceKey,
  isSecretShaped,
  keyError,
  preferKeyError,
} from '../../accounts/api-keys/bearer-key.js';
import { refusals } from '../../accounts/api-keys/guards.js';
import type { CallDeps } from '../../accounts/api-keys/key-use.js';
import { scopes, type Scope } from '../../accounts/api-keys/scopes.js';
import type { ServiceAccess } from '../../accounts/service-keys/access.js';
import { createRecall } from '../../core/collections.js';
import { idField, namedObject, timeField } from '../../core/http/fields.js';
import { parseJson, readJsonText } from '../../core/http/body.js';
import { sendJson } from '../../core/http/json.js';
import { parseInput, text } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { checkResultJson, findRefusal, singleCheck } from './entitlement-json.js';
import { toExactNumber } from './exact-number.js';
import type { KeyIdentity, KeyVerification, KeyVerifier } from './key-verifier.js';
import type { EntitlementReader } from './reader.js';
import { checkItemSchema, checkResultSchema } from './schema.js';

const MAX_BODY_BYTES = 16 * 1024;
const CALLER_SCOPE = 'keys:verify';

const { quantity, subject } = checkItemSchema.shape;

const inputSchema = z
  .strictObject({
    secret: text(256).describe("The secret of the Organization's API key, as the caller presented it."),
    scope: z.enum(scopes).optional().describe('A scope that the key must have.'),
    productSlug: text(255).optional().describe('A product whose use the key must be allowed.'),
    quantity,
    subject,
  })
  .refine(
    ({ productSlug, ...rest }) => productSlug !== undefined || (rest.quantity ?? rest.subject) === undefined,
    { error: 'is required with quantity or subject', path: ['productSlug'] },
  )
  .meta({ id: 'KeyVerification' });

const answerSchema = namedObject('VerifiedKey', {
  valid: z.boolean().describe('True if the key may be used in this way.'),
  code: z
    .string()
    .nullable()
    .describe('Why not, as a call with the key would answer; `null` if it is valid.'),
  organization: z
    .string()
    .nullable()
    .describe('The slug of its Organization; `null` if there is no such key.'),
  keyId: idField('The id of the key.').nullable(),
  name: z.string().nullable(),
  scopes: z.array(z.string()),
  livemode: z.boolean().nullable(),
  expiresAt: timeField('When it stops working; `null`: never.').nullable(),
  entitlement: checkResultSchema.optional().describe('The result of a check, with `productSlug`.'),
});

interface VerifyDeps extends CallDeps {
  access: ServiceAccess;
  entitlements: Pick<EntitlementReader, 'limitsOf'>;
  verifyKey: KeyVerifier;
}

export const verifyRoutes = [
  defineRoute({
    at: 'POST /service/keys/verify',
    operationId: 'verifyKey',
    tag: 'On behalf of customers',
    credential: 'serviceKey',
    limit: 'service',
    scope: CALLER_SCOPE,
    body: { schema: inputSchema, maxBytes: MAX_BODY_BYTES },
    responses: { 200: json('Whether the key is valid.', answerSchema) },
    handler: (deps: VerifyDeps) => async (req, res) => {
      const serviceHash = hashServiceKey(req);
      const authenticate = () => deps.access.authenticate(serviceHash, CALLER_SCOPE);
      const asked = await preferKeyError(authenticate, async () =>
        parseVerification(await readJsonText(req, res, MAX_BODY_BYTES)),
      );
      const { hashedSecret, slugs } = asked;
      if (hashedSecret === undefined) {
        await authenticate();
        return sendJson(res, 200, toAnswer('invalid_key'));
      }
      const found = await deps.verifyKey({ serviceHash, hashedSecret, slugs });
      await deps.access.admit(serviceHash, found.serviceKey, CALLER_SCOPE);
      sendJson(res, 200, await judge(deps, { ...asked, hashedSecret }, found));
    },
  }),
];

interface Verification {
  /** Undefined if the secret cannot be a key's. */
  hashedSecret: string | undefined;
  scope: Scope | null;
  slugs: string[];
  quantity: string;
  subject: string | undefined;
}

/** By a hash of the body, so that no secret is kept. */
const recallVerification = createRecall<Verification>(1_000);

const parseVerification = (sent: string): Verification =>
  recallVerification(hashSecret(sent), () => validate(sent));

function validate(sent: string): Verification {
  const { secret, scope = null, productSlug, quantity, subject } = parseInput(inputSchema, parseJson(sent));
  return {
    hashedSecret: isSecretShaped(secret) ? hashSecret(secret) : undefined,
    scope,
    slugs: productSlug === undefined ? [] : [productSlug],
    quantity: quantity === undefined ? '0' : toExactNumber('quantity', sent, quantity),
    subject,
  };
}

/** Answers as a call with the key would, so that a revoked key is invalid here, too. A verification is a use of the key. */
async function judge(
  { keyUse, entitlements }: VerifyDeps,
  { hashedSecret, scope, slugs: [slug], quantity, subject }: Verification & { hashedSecret: string },
  { problem, key, balance }: KeyVerification,
): Promise<string> {
  if (!key) return toAnswer('invalid_key');
  const error = keyError(problem ?? findAccessProblem(key, scope), scope ?? '');
  const refusal = error && refusals[error.code];
  if (refusal) keyUse.refuse(hashedSecret, refusal);
  else keyUse.touch(hashedSecret, scope);
  if (error || slug === undefined) return toAnswer(error?.code ?? null, key);
  const [limits = []] =
    subject === undefined ? [] : await entitlements.limitsOf(hashedSecret, [{ balance, subject }]);
  const own = balance && { ...balance, limits: [...balance.limits, ...limits] };
  const entitlement = checkResultJson(singleCheck(slug, quantity), 0, own);
  return toAnswer(findRefusal(own, quantity) ?? null, key, entitlement);
}

/** @param key undefined if there is no such key */
function toAnswer(code: string | null, key?: KeyIdentity, entitlement?: string): string {
  const result = entitlement === undefined ? '' : `,"entitlement":${entitlement}`;
  return `{"valid":${code === null},"code":${JSON.stringify(code)},${key?.json ?? noKey}${result}}`;
}

const noKey = '"organization":null,"keyId":null,"name":null,"scopes":[],"livemode":null,"expiresAt":null';
