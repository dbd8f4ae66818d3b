import { z } from 'zod';
import { timeField } from '../../core/http/fields.js';

export const acceptSchema = z
  .strictObject({
    accept: z
      .literal(true)
      .describe('Accept the venue’s figures for everything that differs when the request is handled.'),
  })
  .meta({ id: 'AcceptReconciliation' });

export const differenceSchema = z
  .object({
    kind: z.enum(['order', 'fill', 'position', 'cash']),
    subject: z.string().describe('The venue’s id of the order, the market, or `cash`.'),
    ours: z.string().describe('What this service has: contracts, dollars or a state.'),
    venues: z.string().describe('What the venue says.'),
  })
  .meta({ id: 'LiveDifference' });

const price = z.string().describe('In dollars, of a contract of YES.');
const contracts = z.string().describe('With two decimals.');

export const reconciliationSchema = z
  .object({
    organization: z.string().describe('Its slug.'),
    state: z
      .enum(['open', 'closed', 'off'])
      .describe('`open`: live orders are taken. `off`: the Organization does not trade live on this server.'),
    reason: z.string().nullable().describe('Why live trading is closed.'),
    comparedAt: timeField('When the account was last completely compared with that of the venue.').nullable(),
    agreedAt: timeField('When a comparison last found no difference.').nullable(),
    differences: z.array(differenceSchema).describe('At most 100.'),
    pendingOrders: z.int().describe('Orders whose outcome is not known yet.'),
    restingOrders: z.int().describe('Orders in the venue’s book.'),
    settling: z
      .array(z.string())
      .describe('Markets that have ended for one of both sides, and not yet for the other.'),
    otherShards: z
      .array(z.object({ exchangeIndex: z.int(), balance: z.string().describe('In dollars.') }))
      .describe(
        'The account’s money on other exchange shards of the venue, as far as the venue says. It is no part of `cash` and cannot be spent here until it is transferred to shard 0, which trades the weather.',
      ),
    foreign: z
      .object({
        orders: z.array(
          z.object({
            venueOrderId: z.string(),
            clientOrderId: z.string(),
            ticker: z.string(),
            status: z.enum(['resting', 'canceled', 'executed']),
            filled: contracts,
            initial: contracts,
            createdAt: timeField('').nullable(),
          }),
        ),
        fills: z.array(
          z.object({
            venueFillId: z.string(),
            venueOrderId: z.string(),
            ticker: z.string(),
            contracts,
            yesPrice: price,
            filledAt: timeField('').nullable(),
          }),
        ),
        positions: z.array(
          z.object({ ticker: z.string(), contracts: z.string().describe('Negative for NO.') }),
        ),
      })
      .describe(
        'Activity of others on the same account in the last day, newest first, at most 100 of each. Shown, never adopted.',
      ),
  })
  .meta({ id: 'Reconciliation' });

export const acceptedSchema = z
  .object({
    accepted: z.array(differenceSchema).describe('What was accepted; empty if both sides agreed.'),
    reconciliation: reconciliationSchema,
  })
  .meta({ id: 'AcceptedReconciliation' });
