import { z } from 'zod';

/** A gate as it is answered. */
export const gateSchema = z
  .object({
    isOpen: z.boolean().describe('Whether signals of this station at this lead are let through.'),
    n: z.int().describe('Settled days that it was judged by.'),
    difference: z
      .object({
        mean: z.number(),
        low: z.number(),
        high: z.number(),
      })
      .nullable()
      .describe(
        'Mean log score of the model less that of the market, and the ends of its interval: below zero the model was better. `null` for too few days.',
      ),
    reason: z.string().describe('Why it is open or shut, as a sentence.'),
  })
  .meta({ id: 'Gate' });

const rateField = (description: string) => z.number().describe(description);

export const gateRuleSchema = z
  .object({
    rule: z.string().describe('The rule in words.'),
    windowDays: z.int(),
    minimumDays: z.int(),
    blockDays: z.int().describe('Length of the blocks of days that are drawn together.'),
    resamples: z.int(),
    confidence: z.number().describe('Of the interval, which leaves as much out at either end.'),
    evidence: z
      .number()
      .describe('How many times as likely what happened must have been under the model as under the market.'),
    errorRates: z
      .object({
        equal: rateField('How often at most a gate is open at a model that is as good as the market.'),
        equalEver: rateField(
          'How often at most it is so at any time in the 90 days after it was first judged.',
        ),
        worse: rateField(
          'How often at most it is open at a model that is worse by 0.08 or more, or at any if the market is right.',
        ),
        better: rateField(
          'How often at least it is open after a whole window at one that is better by `betterBy`.',
        ),
        betterBy: z.number().describe('In log score.'),
      })
      .describe(
        'As simulated over many seasons of days that depend on each other; tests hold the rule to them.',
      ),
  })
  .meta({ id: 'GateRule' });
