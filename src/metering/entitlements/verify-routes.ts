import { z } from 'zod';
import {
  hashSecret,
  hashServiceKey,
  isSecretShaped,
  keyError,
  preferKeyError,
  type Principal,
} from '../../accounts/api-keys/bearer-key.js';
import type { CallDeps, KeyUse } from '../../accounts/api-keys/key-use.js';
import { scopes } from '../../accounts/api-keys/scopes.js';
import type { ServiceAccess } from '../../accounts/service-keys/access.js';
import { AppError } from '../../core/errors.js';
import { idField, timeField } from '../../core/http/fields.js';
import { readJsonBody } from '../../core/http/body.js';
import { sendJson } from '../../core/http/json.js';
import { toAppError } from '../../core/http/problem.js';
import { parseInput, text } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { checkResultJson, findRefusal, singleCheck } from './entitlement-json.js';
import { toExactNumber } from './exact-number.js';
import type { Balance, EntitlementReader } from './reader.js';
import { checkItemSchema, checkResultSchema } from './schema.js';

const MAX_BODY_BYTES = 16 * 1024;

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
    {
      error: 'is required with quantity or subject',
      path: ['productSlug'],
    },
  )
  .meta({ id: 'KeyVerification' });

const answerSchema = z
  .object({
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
  })
  .meta({ id: 'VerifiedKey' });

interface VerifyDeps extends CallDeps {
  access: ServiceAccess;
  entitlements: EntitlementReader;
}

export const verifyRoutes = [
  defineRoute({
    method: 'post',
    path: '/service/keys/verify',
    operationId: 'verifyKey',
    tag: 'On behalf of customers',
    credential: 'serviceKey',
    limit: 'service',
    scope: 'keys:verify',
    body: { schema: inputSchema, maxBytes: MAX_BODY_BYTES },
    responses: { 200: json('Whether the key is valid.', answerSchema) },
    handler: (deps: VerifyDeps) => async (req, res) => {
      const authenticate = () => deps.access.authenticate(hashServiceKey(req), 'keys:verify');
      const input = await preferKeyError(authenticate, async () => {
        const { value, text: sent } = await readJsonBody(req, res, MAX_BODY_BYTES);
        const parsed = parseInput(inputSchema, value);
        const quantity =
          parsed.quantity === undefined ? '0' : toExactNumber('quantity', sent, parsed.quantity);
        return { ...parsed, quantity };
      });
      // At the same time, because each is one statement.
      const [, verified] = await Promise.all([authenticate(), verify(deps, input)]);
      count(deps.keyUse, input, verified);
      sendJson(res, 200, toAnswer(verified));
    },
  }),
];

type Input = Omit<z.output<typeof inputSchema>, 'quantity'> & { quantity: string };

interface Verified {
  code: string | null;
  /** Undefined if there is no such key. */
  principal: Principal | undefined;
  /** JSON of a check's result. */
  entitlement: string | undefined;
}

/** Reads what a call with the key would read, so that a revoked key is invalid here, too. */
async function verify({ keys, entitlements }: VerifyDeps, input: Input): Promise<Verified> {
  const { secret, scope, productSlug, quantity, subject } = input;
  if (!isSecretShaped(secret)) return { code: 'invalid_key', principal: undefined, entitlement: undefined };
  const hashedSecret = hashSecret(secret);
  const [{ problem, principal }, balance] = await Promise.all([
    keys.read(hashedSecret, scope ?? null),
    productSlug === undefined ? undefined : entitlements.verify(hashedSecret, productSlug).catch(toAppError),
  ]);
  const refusal = keyError(problem, scope ?? '') ?? (balance instanceof AppError ? balance : undefined);
  if (refusal?.code === 'internal' || refusal?.code === 'unavailable') throw refusal;
  const known = problem === 'invalid_key' ? undefined : principal;
  if (refusal) return { code: refusal.code, principal: known, entitlement: undefined };
  if (productSlug === undefined) return { code: null, principal, entitlement: undefined };
  const [limits = []] = await entitlements.limitsOf(hashedSecret, [
    { balance: balance as Balance | undefined, subject },
  ]);
  const own = balance && { ...(balance as Balance), limits: [...(balance as Balance).limits, ...limits] };
  return {
    code: findRefusal(own, quantity) ?? null,
    principal,
    entitlement: checkResultJson(singleCheck(productSlug, quantity), 0, own),
  };
}

/** A verification is a use of the key. */
function count(keyUse: KeyUse, { secret, scope }: Input, { code, principal }: Verified): void {
  if (!principal) return;
  const hashedSecret = hashSecret(secret);
  if (code === 'key_revoked' || code === 'key_expired') keyUse.refuse(hashedSecret, 'ended');
  else if (code === 'insufficient_scope') keyUse.refuse(hashedSecret, 'unscoped');
  else keyUse.touch(hashedSecret, scope ?? null);
}

function toAnswer({ code, principal, entitlement }: Verified): string {
  const { organization = null, keyId = null, name = null, scopes = [], livemode = null } = principal ?? {};
  const expiresAt = principal?.expiresAt == null ? null : new Date(principal.expiresAt).toISOString();
  const answer = { valid: code === null, code, organization, keyId, name, scopes, livemode, expiresAt };
  const json = JSON.stringify(answer);
  return entitlement === undefined ? json : `${json.slice(0, -1)},"entitlement":${entitlement}}`;
}
