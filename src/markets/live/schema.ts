import { z } from 'zod';
import { integerField, namedObject, textField, textOrNull, timeField } from '../../core/http/fields.js';

export const acceptSchema = z
  .strictObject({
    accept: z
      .literal(true)
      .describe('Accept the venue’s figures for everything that differs when the request is handled.'),
  })
  .meta({ id: 'AcceptReconciliation' });

export const differenceSchema = namedObject('LiveDifference', {
  kind: z.enum(['order', 'fill', 'position', 'cash']),
  subject: textField('The venue’s id of the order, the market, or `cash`.'),
  ours: textField("This service's value: contracts, dollars or a state."),
  venues: textField("The venue's value."),
});

const price = textField('In dollars, of a contract of YES.');
const contracts = textField('With two decimals.');

export const reconciliationSchema = namedObject('Reconciliation', {
  organization: textField('Its slug.'),
  state: z
    .enum(['open', 'closed', 'off'])
    .describe(
      '`open`: live orders are accepted. `off`: the Organization does not trade live on this server.',
    ),
  reason: textOrNull('Why live trading is closed.'),
  comparedAt: timeField("When the account was last fully compared with the venue's.").nullable(),
  agreedAt: timeField('When a comparison last found no difference.').nullable(),
  differences: z.array(differenceSchema).describe('At most 100.'),
  pendingOrders: integerField('Orders whose outcome is not known yet.'),
  restingOrders: integerField('Orders in the venue’s book.'),
  settling: z
    .array(z.string())
    .describe('Markets that have ended at the venue or here, but not yet on both sides.'),
  otherShards: z
    .array(z.object({ exchangeIndex: z.int(), balance: textField('In dollars.') }))
    .describe(
      'The account’s money on other exchange shards, as reported by the venue. It is not part of `cash` and cannot be used here until it is transferred to shard 0, where weather markets trade.',
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
      positions: z.array(z.object({ ticker: z.string(), contracts: textField('Negative for NO.') })),
    })
    .describe(
      'Activity on the same account from outside this service in the last day, newest first, at most 100 of each kind. For information only.',
    ),
});

export const acceptedSchema = namedObject('AcceptedReconciliation', {
  accepted: z.array(differenceSchema).describe('The accepted differences; empty if both sides agreed.'),
  reconciliation: reconciliationSchema,
});
