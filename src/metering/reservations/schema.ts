import { z } from 'zod';
import {
  exactField,
  idField,
  namedInput,
  namedObject,
  nextCursorField,
  timeField,
} from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { limitSchema } from '../entitlements/limits.js';
import {
  dimensionsField,
  namedDimensions,
  subjectField,
  usageEventSchema,
  warningSchema,
} from '../ingestion/schema.js';
import { MAX_TTL_SECONDS } from './reservations.js';
import { reservationStates } from './table.js';

export const DEFAULT_TTL_SECONDS = 300;

/** Three texts of 255 characters, a subject and dimensions, all fully escaped, and the numbers. */
export const MAX_BODY_BYTES = 24 * 1024;

const { occurredAt } = usageEventSchema.shape;
const quantity = z
  .number('must be a finite number of at least 0')
  .min(0, 'must be a finite number of at least 0');

export const reserveSchema = namedInput('ReservationInput', {
  productSlug: text(255),
  metric: text(255).describe("The product's metric."),
  quantity: quantity.describe(
    'Units to hold: the most that the work may use. An exact decimal of up to 100 digits.',
  ),
  idempotencyKey: text(255).describe(
    'Identifies the reservation and the event that settles it, within the Organization, forever.',
  ),
  ttlSeconds: z
    .int()
    .min(1)
    .max(MAX_TTL_SECONDS)
    .optional()
    .describe(
      `The longest time to hold it, 1 to ${MAX_TTL_SECONDS.toLocaleString('en')}. Default: ${DEFAULT_TTL_SECONDS}.`,
    ),
  subject: subjectField.optional(),
  dimensions: dimensionsField.optional(),
});

export const settleSchema = namedInput('SettlementInput', {
  quantity: quantity
    .optional()
    .describe('Units used, an exact decimal of up to 100 digits. Default: the units held.'),
  occurredAt,
});

export const reservationSchema = namedObject('Reservation', {
  id: idField('The id of the reservation.'),
  status: z
    .enum(reservationStates)
    .describe(
      '`held` counts against the limits. `expired`: neither settled nor released before `expiresAt`.',
    ),
  productSlug: z.string(),
  metric: z.string(),
  quantity: exactField('Units held, now or earlier.'),
  idempotencyKey: z.string(),
  expiresAt: timeField('When the hold ends.'),
  settledQuantity: exactField('Units used; `null` until it is settled.').nullable(),
  createdAt: timeField('When it was created.'),
  subject: z.string().optional().describe('Present if it names one, as is `dimensions`.'),
  dimensions: namedDimensions.optional(),
});

export const reservedSchema = namedObject('ReservationAnswer', {
  reservation: reservationSchema,
  limits: z.array(limitSchema).describe('The limits of the entitlement, including this reservation.'),
});

export const foundSchema = z.object({ reservation: reservationSchema }).meta({ id: 'FoundReservation' });

export const settledSchema = namedObject('SettlementAnswer', {
  reservation: reservationSchema,
  accepted: z.int().min(0).max(1).describe('1 if the event was new.'),
  deduped: z.int().min(0).max(1).describe('1 if an event with the idempotency key was already recorded.'),
  warnings: z
    .array(
      z.union([
        warningSchema,
        z.object({ code: z.literal('reservation_expired') }).meta({
          id: 'ReservationExpired',
          description: 'The hold had expired or was released. The usage was recorded and may exceed a limit.',
        }),
        z
          .object({
            code: z.literal('reservation_exceeded'),
            reserved: exactField('Units held.'),
            used: exactField('Units recorded.'),
          })
          .meta({
            id: 'ReservationExceeded',
            description: 'More was used than held. All of it was recorded.',
          }),
      ]),
    )
    .describe('Conditions that did not stop the event. New codes may be added.'),
});

export const reservationListSchema = namedObject('ReservationList', {
  reservations: z.array(reservationSchema).describe('Newest first.'),
  nextCursor: nextCursorField,
});
