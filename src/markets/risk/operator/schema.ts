import { z } from 'zod';
import { timeField } from '../../../core/http/fields.js';
import { text } from '../../../core/http/validate.js';
import { defaultLimits } from '../limits.js';
import { dollars } from '../checks.js';
import { switchStates } from '../../ledger/risk-table.js';
import { isCount } from '../../market/contracts.js';

type Limit = keyof typeof defaultLimits;

function byDefault(limit: Limit): string {
  const value = defaultLimits[limit];
  return `\`null\` or left out: the default, ${typeof value === 'bigint' ? dollars(value) : value}.`;
}

const countField = (limit: Limit, description: string) =>
  z
    .int('must be a whole number')
    .min(0, 'must be at least 0')
    .max(10_000_000, 'must be at most 10,000,000')
    .nullable()
    .optional()
    .describe(`${description} ${byDefault(limit)}`);

const contractsLimit = (limit: Limit, description: string) =>
  z
    .number()
    .min(0, 'must be at least 0')
    .max(10_000_000, 'must be at most 10,000,000')
    .refine(isCount, 'must have at most two decimals')
    .nullable()
    .optional()
    .describe(`${description} With at most two decimals. ${byDefault(limit)}`);

const moneyPattern = '^(0|[1-9]\\d{0,8})(\\.\\d{1,6})?$';
const moneyField = (limit: Limit, description: string) =>
  z
    .string()
    .regex(new RegExp(moneyPattern), 'must be an amount in dollars as text, like "250.00"')
    .meta({ pattern: moneyPattern })
    .nullable()
    .optional()
    .describe(`${description} A decimal string in dollars. ${byDefault(limit)}`);

export const limitsSchema = z
  .strictObject({
    maxOrderContracts: contractsLimit('maxOrderContracts', 'Contracts of one order.'),
    maxOrderCost: moneyField('maxOrderCost', 'What one purchase may cost at its limit price, fee included.'),
    maxPositionContracts: contractsLimit(
      'maxPositionContracts',
      'Contracts held of one market, after the order.',
    ),
    maxEventLoss: moneyField(
      'maxEventLoss',
      'What one event may lose in its worst outcome, after the order. Its brackets exclude each other, so what one pays counts against what the others lose.',
    ),
    maxDailyLoss: moneyField(
      'maxDailyLoss',
      'What may be lost since midnight UTC: realised, in fees, and by the change of what is held at what it can be sold for. Once it is reached, only orders that reduce what is held pass.',
    ),
    maxOpenOrders: countField(
      'maxOpenOrders',
      'Orders on their way to the venue or in the book, with the new one.',
    ),
    priceCollar: moneyField('priceCollar', 'How far a limit price may go beyond the best price in the book.'),
  })
  .meta({ id: 'TradingLimitsInput' });

export const switchSchema = z
  .strictObject({
    state: z
      .enum(switchStates)
      .describe('`open`: orders pass. `reduce_only`: only those that give up what is held. `halt`: none.'),
    reason: text(300)
      .nullable()
      .optional()
      .describe('For the people whose orders are refused. Required, unless the state is `open`.'),
  })
  .meta({ id: 'TradingSwitchInput' });

const amount = () => z.string().regex(/^\d+\.\d{4,6}$/);

const effectiveSchema = z
  .object({
    maxOrderContracts: z.number().min(0),
    maxOrderCost: amount(),
    maxPositionContracts: z.number().min(0),
    maxEventLoss: amount(),
    maxDailyLoss: amount(),
    maxOpenOrders: z.int().min(0),
    priceCollar: amount(),
  })
  .meta({ id: 'EffectiveTradingLimits' });

const declaredSchema = z
  .object(
    Object.fromEntries(
      Object.entries(effectiveSchema.shape).map(([name, field]) => [name, field.nullable()]),
    ),
  )
  .meta({ id: 'DeclaredTradingLimits' });

export const limitsAnswerSchema = z
  .object({
    effective: effectiveSchema.describe('The limits that apply to the next order.'),
    declared: declaredSchema.describe('The declared limits; `null` means the default.'),
    updatedAt: timeField('When they were last declared; `null` if they never were.').nullable(),
  })
  .meta({ id: 'TradingLimits' });

const state = z.enum(switchStates);
const part = {
  state,
  reason: z.string().nullable(),
  changedAt: timeField('When it was last set; `null` if it never was.').nullable(),
};

export const serviceSwitchAnswerSchema = z.object(part).meta({ id: 'ServiceTradingSwitch' });

export const switchAnswerSchema = z
  .object({
    state: state.describe('The strictest of the three: what applies to the next order.'),
    service: serviceSwitchAnswerSchema.describe("The whole service's."),
    operator: z.object(part).describe('Set here.'),
    own: z
      .object({ ...part, by: z.object({ id: z.uuid(), name: z.string() }).nullable() })
      .describe('Set by an owner or admin of the Organization, on its page.'),
  })
  .meta({ id: 'TradingSwitch' });
