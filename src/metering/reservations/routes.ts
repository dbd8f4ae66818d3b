import type { Request, Response } from 'express';
import { z } from 'zod';
import { readHashedSecret, preferKeyError } from '../../accounts/api-keys/bearer-key.js';
import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import type { Clock } from '../../core/time.js';
import { placeError } from '../../core/errors.js';
import { readJsonBody } from '../../core/http/body.js';
import { exact, sendJson, toJson } from '../../core/http/json.js';
import { pageSchema, parseQuery, readRange, sendPage } from '../../core/http/page.js';
import { readPathId } from '../../core/http/request.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { dimensionsJson } from '../entitlements/dimensions.js';
import { limitJson } from '../entitlements/limits.js';
import { toExactNumber } from '../entitlements/exact-number.js';
import { warningJson } from '../ingestion/answer.js';
import { isInWindow, toStorableTime } from '../ingestion/batch.js';
import { stateOf, type Reservation, type Reservations } from './reservations.js';
import {
  DEFAULT_TTL_SECONDS,
  foundSchema,
  MAX_BODY_BYTES,
  reservationListSchema,
  reservedSchema,
  reserveSchema,
  settledSchema,
  settleSchema,
} from './schema.js';
import type { SettleWarning, Settlements } from './settlements.js';
import { reservationStates } from './table.js';

interface ReservationDeps extends CallDeps {
  clock: Clock;
  reservations: Reservations;
  settlements: Settlements;
}

const scope = 'usage:write';
const common = { tag: 'Usage', credential: 'apiKey', limit: 'usage', scope } as const;

const idParams = z.object({ id: z.uuid().meta({ description: 'The id of the reservation.' }) });

const reserve = defineRoute({
  ...common,
  at: 'POST /api/usage/reservations',
  operationId: 'reserveUsage',
  body: { schema: reserveSchema, maxBytes: MAX_BODY_BYTES },
  responses: {
    200: json('The reservation already exists.', reservedSchema),
    201: json('Held, durably.', reservedSchema),
  },
  waitingMayHelp: 409,
  handler: (deps: ReservationDeps) => async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    const input = await readInput(deps, hashedSecret, req, res, reserveSchema);
    const { productSlug: slug, metric, idempotencyKey, ttlSeconds = DEFAULT_TTL_SECONDS } = input.value;
    const quantity = toExactNumber('quantity', input.text, input.value.quantity);
    const { subject } = input.value;
    const dimensions = dimensionsJson(input.value.dimensions);
    const what = { slug, metric, quantity, subject, dimensions };
    const request = { hashedSecret, ...what, idempotencyKey, ttlSeconds };
    const { reservation, limits, isRepeat } = await deps.reservations.reserve(request);
    deps.keyUse.touch(hashedSecret, scope);
    const answer = {
      reservation: reservationJson(reservation, deps.clock.now()),
      limits: limits.map(limitJson),
    };
    sendJson(res, isRepeat ? 200 : 201, toJson(answer));
  },
});

const settle = defineRoute({
  ...common,
  at: 'POST /api/usage/reservations/{id}/settle',
  operationId: 'settleReservation',
  params: idParams,
  body: { schema: settleSchema, maxBytes: MAX_BODY_BYTES },
  responses: { 200: json('Durably recorded.', settledSchema) },
  handler: (deps: ReservationDeps) => async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    const receivedAtMs = deps.clock.now();
    const input = await readInput(deps, hashedSecret, req, res, settleSchema);
    const { occurredAt, quantity } = input.value;
    const reservationId = await preferKeyError(
      () => authenticateCall(deps, hashedSecret, scope),
      () => {
        const detail = 'must be from 7 days before to 5 minutes after the receipt.';
        if (occurredAt !== undefined && !isInWindow(occurredAt, receivedAtMs))
          throw placeError('timestamp_out_of_range', '/occurredAt', detail);
        return readPathId(req, 'id', 'reservation');
      },
    );
    const { reservation, warnings, ...counts } = await deps.settlements.settle({
      hashedSecret,
      id: reservationId,
      quantity: quantity === undefined ? undefined : toExactNumber('quantity', input.text, quantity),
      occurredAt: occurredAt === undefined ? undefined : toStorableTime(occurredAt),
    });
    deps.keyUse.touch(hashedSecret, scope);
    const answer = { ...counts, warnings: warnings.map(settleWarningJson) };
    sendJson(res, 200, toJson({ reservation: reservationJson(reservation, deps.clock.now()), ...answer }));
  },
});

const release = defineRoute({
  ...common,
  at: 'DELETE /api/usage/reservations/{id}',
  operationId: 'releaseReservation',
  params: idParams,
  responses: { 200: json('Released.', foundSchema) },
  handler: (deps: ReservationDeps) => async (req, res) => {
    const hashedSecret = readHashedSecret(req);
    const reservationId = await preferKeyError(
      () => authenticateCall(deps, hashedSecret, scope),
      () => readPathId(req, 'id', 'reservation'),
    );
    const reservation = await deps.reservations.release(hashedSecret, reservationId);
    deps.keyUse.touch(hashedSecret, scope);
    sendJson(res, 200, toJson({ reservation: reservationJson(reservation, deps.clock.now()) }));
  },
});

const find = defineRoute({
  ...common,
  at: 'GET /api/usage/reservations/{id}',
  operationId: 'getReservation',
  params: idParams,
  responses: { 200: json('The reservation.', foundSchema) },
  handler: (deps: ReservationDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), scope);
    const reservation = await deps.reservations.find(principal, readPathId(req, 'id', 'reservation'));
    sendJson(res, 200, toJson({ reservation: reservationJson(reservation, deps.clock.now()) }));
  },
});

const listQuery = pageSchema.extend({
  status: z
    .enum(reservationStates, `must be one of ${reservationStates.join(', ')}`)
    .optional()
    .describe('Only reservations with this status. Default: all.'),
});

const list = defineRoute({
  ...common,
  at: 'GET /api/usage/reservations',
  operationId: 'listReservations',
  query: listQuery,
  responses: { 200: json('One page.', reservationListSchema) },
  handler: (deps: ReservationDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), scope);
    const { status } = parseQuery(listQuery, req.query);
    const { after, limit } = readRange(req, z.uuid());
    const rows = await deps.reservations.list(principal, { after, limit: limit + 1, status });
    const nowMs = deps.clock.now();
    const parts = { rows, limit, keyOf: (row: Reservation) => row.id };
    sendPage(res, 'reservations', { ...parts, present: (row) => reservationJson(row, nowMs) });
  },
});

export const reservationRoutes = [reserve, list, find, settle, release];

/** An invalid key is refused before a large body is read. */
async function readInput<T extends z.ZodType>(
  deps: ReservationDeps,
  hashedSecret: string,
  req: Request,
  res: Response,
  schema: T,
): Promise<{ value: z.output<T>; text: string }> {
  const authenticate = () => authenticateCall(deps, hashedSecret, scope);
  if (!deps.keyUse.hasSeen(hashedSecret)) await deps.keys.authenticate(hashedSecret, scope);
  return preferKeyError(authenticate, async () => {
    const { value, text } = await readJsonBody(req, res, MAX_BODY_BYTES);
    return { value: parseInput(schema, value), text };
  });
}

export const reservationJson = (reservation: Reservation, nowMs: number) => ({
  id: reservation.id,
  status: stateOf(reservation, nowMs),
  productSlug: reservation.productSlug,
  metric: reservation.metric,
  quantity: exact(reservation.quantity),
  idempotencyKey: reservation.idempotencyKey,
  expiresAt: new Date(reservation.expiresAtMs).toISOString(),
  settledQuantity: exact(reservation.settledQuantity),
  createdAt: new Date(reservation.createdAtMs).toISOString(),
  ...(reservation.subject === '' ? {} : { subject: reservation.subject }),
  ...(reservation.dimensions ? { dimensions: reservation.dimensions } : {}),
});

const settleWarningJson = (warning: SettleWarning): object => {
  switch (warning.code) {
    case 'reservation_expired':
      return warning;
    case 'reservation_exceeded':
      return { ...warning, reserved: exact(warning.reserved), used: exact(warning.used) };
    default:
      return warningJson(warning);
  }
};
