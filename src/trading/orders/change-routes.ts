import type { Request } from 'express';
import { z } from 'zod';
import { keyAuthority } from '../../api-keys/authority.js';
import { readHashedSecret } from '../../api-keys/bearer-key.js';
import { authenticateCall } from '../../api-keys/key-use.js';
import type { Principal } from '../../api-keys/key-reader.js';
import { AppError } from '../../core/errors.js';
import { readJsonBody } from '../../core/http/json-body.js';
import { sendJson } from '../../core/http/json.js';
import { readPathId } from '../../core/http/path-id.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import type { OrderChange } from './order.js';
import { filledOrder, type OrderRouteDeps } from './order-routes.js';
import { decreaseSchema, MAX_BODY_BYTES, tradeAnswerSchema } from './schema.js';
import { toTradeJson } from './trade.js';

const write = { tag: 'Trading', credential: 'apiKey', scope: 'trading:write', limit: 'trading' } as const;
const params = z.object({ id: z.string().meta({ description: 'The id of the trade.' }) });

const { resting, now, unknownId } = exampleWorld;
const { queueAhead, ...named } = resting;
const standing = {
  ...filledOrder,
  ...named,
  status: 'resting',
  contracts: 40,
  limitPrice: '0.4100',
  timeInForce: 'good_till_cancelled',
  cancelOn: ['observation', 'stale'],
  filledContracts: 0,
  remainingContracts: 40,
  queueAhead,
  averagePrice: null,
  fees: '0.0000',
  total: '0.0000',
  fills: [],
  finishedAt: null,
};
const cancelled = {
  ...standing,
  status: 'cancelled',
  reason: 'Cancelled on request.',
  remainingContracts: 0,
  queueAhead: null,
  finishedAt: now,
};
const rests = { circumstance: 'order_rests' } as const;
const toIt = { params: { id: resting.id } };
const noSuchTrade = problemExample('not_found', {
  summary: 'No such trade, or one of another Organization',
  detail: 'There is no such trade.',
  request: { params: { id: unknownId } },
});

/**
 * An order that the key may change. Live and test are apart: for a test key nothing was traded live.
 * @throws AppError not_found
 */
async function findChange(
  { orders }: OrderRouteDeps,
  req: Request,
  { orgId, keyId, livemode }: Principal,
): Promise<OrderChange> {
  const id = readPathId(req, 'id', 'trade');
  const trade = await orders.find(orgId, id);
  if (!trade || (trade.mode === 'live' && !livemode))
    throw new AppError('not_found', 'There is no such trade.');
  return { orgId, id, by: keyAuthority(orgId, keyId, 'trading:write') };
}

const cancel = defineRoute({
  ...write,
  method: 'delete',
  path: '/trades/{id}',
  operationId: 'cancelOrder',
  summary: 'Cancel an order',
  description: `
Takes what is not filled yet out of the book. The answer is the trade as it is then, also where it had ended already: **a fill that crossed the cancellation is in it.**

A paper order is filled by what was printed until the cancellation first. A live one is cancelled at the venue, whose last word counts. While that is not known, or the prints cannot be read,
the trade stays \`resting\` with a \`reason\` that says so; its end follows, and asking again changes nothing.
`.trim(),
  params,
  responses: { 200: json('The trade.', tradeAnswerSchema) },
  errors: ['not_found'],
  examples: [
    {
      name: 'cancelled',
      summary: 'Nothing of it was filled',
      ...rests,
      request: toIt,
      answer: { trade: cancelled },
    },
    {
      name: 'repeated',
      summary: 'Once more: it stays as it ended',
      ...rests,
      before: [toIt],
      request: toIt,
      answer: { trade: cancelled },
    },
    noSuchTrade,
  ],
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:write');
    const trade = await deps.orders.cancel(await findChange(deps, req, principal));
    sendJson(res, 200, JSON.stringify({ trade: toTradeJson(trade) }));
  },
});

const decrease = defineRoute({
  ...write,
  method: 'post',
  path: '/trades/{id}/decrease',
  operationId: 'decreaseOrder',
  summary: 'Decrease an order',
  description: `
Leaves fewer contracts to be filled. The order stays where it stands in the queue. Its \`contracts\` become what was filled and what remains; what was kept back for the others is free again.

The same request again changes nothing. More than may still be filled is refused: to buy more, place another order.
`.trim(),
  params,
  body: { schema: decreaseSchema, maxBytes: MAX_BODY_BYTES },
  responses: { 200: json('The trade.', tradeAnswerSchema) },
  errors: ['invalid_request', 'not_found'],
  examples: [
    {
      name: 'decreased',
      summary: 'To a quarter, at the same place in the queue',
      ...rests,
      request: { ...toIt, body: { remainingContracts: 10 } },
      answer: { trade: { ...standing, contracts: 10, remainingContracts: 10 } },
    },
    {
      name: 'toNothing',
      summary: 'To nothing, which cancels it',
      ...rests,
      request: { ...toIt, body: { remainingContracts: 0 } },
      answer: { trade: cancelled },
    },
    problemExample('invalid_request', {
      summary: 'To more than may still be filled',
      ...rests,
      at: '/remainingContracts',
      detail: 'must be at most 40, as many as may still be filled',
      request: { ...toIt, body: { remainingContracts: 50 } },
    }),
    { ...noSuchTrade, request: { ...noSuchTrade.request, body: { remainingContracts: 10 } } },
  ],
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:write');
    const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
    const { remainingContracts: remaining } = parseInput(decreaseSchema, value);
    const change = await findChange(deps, req, principal);
    const trade = await deps.orders.decrease({ ...change, remaining });
    sendJson(res, 200, JSON.stringify({ trade: toTradeJson(trade) }));
  },
});

export const changeOrderRoutes = [decrease, cancel];
