import { z } from 'zod';

const binSchema = z
  .object({
    from: z.number().describe('Probabilities of at least this,'),
    to: z.number().describe('and below this; in the last bin of at most this.'),
    n: z.int(),
    meanProbability: z.number().nullable().describe('`null` for an empty bin.'),
    frequency: z.number().nullable().describe('How often the bracket won; `null` for an empty bin.'),
    expected: z
      .object({ low: z.number(), high: z.number() })
      .nullable()
      .describe(
        'Where the frequency of a reliable forecast is found nine times of ten. What was said about a market at several leads counts as one.',
      ),
  })
  .meta({ id: 'ReliabilityBin' });

const crpsPointSchema = z
  .object({
    date: z.iso.date(),
    n: z.int(),
    model: z.number(),
    raw: z.number(),
    climate: z.number(),
    market: z.number(),
  })
  .meta({ id: 'CrpsPoint' });

export const diagnosticsSchema = z
  .object({
    reliability: z
      .object({ model: z.array(binSchema), market: z.array(binSchema) })
      .describe(
        'How often what was given about the same probability came true: the same forecasts for both.',
      ),
    pit: z
      .object({
        n: z.int(),
        shares: z.array(z.number()).describe('Of bins of equal width from 0 to 1; they sum to one.'),
        pFlat: z
          .number()
          .nullable()
          .describe(
            'The probability of a histogram at least as uneven if the forecast is calibrated, with days as the unit; `null` for too few.',
          ),
      })
      .describe(
        "Where the outcomes lie in the forecasts' distributions: flat if calibrated, a bowl if too sure, a hill if not sure enough. A whole degree counts with the share of each bin that it covers.",
      ),
    crps: z
      .array(crpsPointSchema)
      .describe('Mean CRPS in °F of each climate day, over the forecasts that all four could be scored for.'),
  })
  .meta({ id: 'ScoreDiagnostics' });
