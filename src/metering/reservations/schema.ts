import { z } from 'zod';
import { exactField, idField, nextCursorField, timeField } from '../../core/http/fields.js';
import { text } from '../../core/http/validate.js';
import { limitSchema } from '../entitlements/limits.js';
import { usageEventSchema, warningSchema } from '../ingestion/schema.js';
import { MAX_TTL_SECONDS } from './reservations.js';
import { reservationStates } from './table.js';

export const DEFAULT_TTL_SECONDS = 300;

/** Three texts of 255 characters, fully escaped, and the numbers. */
export const MAX_BODY_BYTES = 16 * 1024;

const { occurredAt } = usageEventSchema.shape;
const quantity = z
  .number('must be a finite number of at least 0')
  .min(0, 'must be a finite number of at least 0');

export const reserveSchema = z
  .strictObject({
    productSlug: text(255),
    metric: text(255).describe('What the product counts.'),
    quantity: quantity.describe(
      'Units to hold, an exact decimal of up to 100 digits: what the work may use at most.',
    ),
    idempotencyKey: text(255).describe(
      'Names the reservation, and the event that settles it, within the Organization, for ever.',
    ),
    ttlSeconds: z
      .int()
      .min(1)
      .max(MAX_TTL_SECONDS)
      .optional()
      .describe(
        `How long it is held at most, 1 to ${MAX_TTL_SECONDS.toLocaleString('en')}; ${DEFAULT_TTL_SECONDS} if left out.`,
      ),
  })
  .meta({ id: 'ReservationInput' });

export const settleSchema = z
  .strictObject({
    quantity: quantity
      .optional()
      .describe('Units that were used, an exact decimal of up to 100 digits; what was held if left out.'),
    occurredAt,
  })
  .meta({ id: 'SettlementInput' });

export const reservationSchema = z
  .object({
    id: idField('The id of the reservation.'),
    status: z
      .enum(reservationStates)
      .describe(
        '`held` counts against the limits. `expired` follows from the time: nothing was settled or released by then.',
      ),
    productSlug: z.string(),
    metric: z.string(),
    quantity: exactField('Units that are or were held.'),
    idempotencyKey: z.string(),
    expiresAt: timeField('When it stops being held.'),
    settledQuantity: exactField('Units that were used; `null` until it is settled.').nullable(),
    createdAt: timeField('When it was created.'),
  })
  .meta({ id: 'Reservation' });

export const reservedSchema = z
  .object({
    reservation: reservationSchema,
    limits: z.array(limitSchema).describe('The limits of the entitlement, with this reservation.'),
  })
  .meta({ id: 'ReservationAnswer' });

export const foundSchema = z.object({ reservation: reservationSchema }).meta({ id: 'FoundReservation' });

export const settledSchema = z
  .object({
    reservation: reservationSchema,
    accepted: z.int().min(0).max(1).describe('1 if the event was new.'),
    deduped: z
      .int()
      .min(0)
      .max(1)
      .describe('1 if an event with the idempotency key had been recorded before.'),
    warnings: z
      .array(
        z.union([
          warningSchema,
          z.object({ code: z.literal('reservation_expired') }).meta({
            id: 'ReservationExpired',
            description:
              'The hold had expired or was released: what was used was recorded, and may go beyond a limit.',
          }),
          z
            .object({
              code: z.literal('reservation_exceeded'),
              reserved: exactField('Units that were held.'),
              used: exactField('Units that were recorded.'),
            })
            .meta({
              id: 'ReservationExceeded',
              description: 'More was used than was held. All of it was recorded.',
            }),
        ]),
      )
      .describe('What did not stop the event. New codes may be added.'),
  })
  .meta({ id: 'SettlementAnswer' });

export const reservationListSchema = z
  .object({
    reservations: z.array(reservationSchema).describe('Newest first.'),
    nextCursor: nextCursorField,
  })
  .meta({ id: 'ReservationList' });
