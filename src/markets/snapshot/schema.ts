import { z } from 'zod';
import { namedObject, textField, timeField } from '../../core/http/fields.js';
import { noteKinds } from '../market/source.js';

export const notesSchema = z.array(
  z.object({
    kind: z.enum(noteKinds),
    name: textField('The affected field, status or place.'),
    count: z.int().min(1),
    example: textField('The first examples.'),
  }),
);

export const sourceSchema = namedObject('MarketDataSource', {
  part: z.enum(['markets', 'forecasts']),
  name: z.string(),
  state: z
    .enum(['ok', 'failing', 'unexpected', 'waiting'])
    .describe(
      '`failing`: the source could not be reached or was too slow. `unexpected`: its response cannot be trusted, and trading is closed. `waiting`: it has not responded yet. Its last good data are kept meanwhile.',
    ),
  fetchedAt: timeField('When its last good response was fetched; `null` if there was none.').nullable(),
  failingSince: timeField('`null` while it answers.').nullable(),
  notes: notesSchema
    .optional()
    .describe(
      'Parts of the last good response that could not be read or placed; only what depends on them is closed. A missing weather model (`missing_model`) is left out of the forecast, and so is a station report that other reports contradict (`doubtful_report`). Streams omit this field.',
    ),
});
