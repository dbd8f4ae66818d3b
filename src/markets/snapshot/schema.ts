import { z } from 'zod';
import { timeField } from '../../core/http/fields.js';
import { noteKinds } from '../market/source.js';

export const sourceSchema = z
  .object({
    part: z.enum(['markets', 'forecasts']),
    name: z.string(),
    state: z
      .enum(['ok', 'failing', 'unexpected', 'waiting'])
      .describe(
        '`failing`: it could not be reached or was too slow. `unexpected`: its answer cannot be trusted, and trading is closed. `waiting`: it has not answered yet. Its last good part is kept meanwhile.',
      ),
    fetchedAt: timeField('When its last good answer was fetched; `null` if there was none.').nullable(),
    failingSince: timeField('`null` while it answers.').nullable(),
    notes: z
      .array(
        z.object({
          kind: z.enum(noteKinds),
          name: z.string().describe('Details: the field, the status, the place.'),
          count: z.int().min(1),
          example: z.string().describe('The first examples.'),
        }),
      )
      .optional()
      .describe(
        'What of its last good answer could not be read or placed; what depends on it is closed, and nothing else. A weather model that is missing (`missing_model`) is left out of the forecast. Streams leave it out.',
      ),
  })
  .meta({ id: 'MarketDataSource' });
