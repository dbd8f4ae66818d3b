import { sendCachedAnswer } from '../../core/http/cached-answer.js';
import { parseInput } from '../../core/http/validate.js';
import { conditional, defineRoute } from '../../core/reference/define-route.js';
import { fieldError } from '../../core/pages/form.js';
import { readPlaceId } from '../market/stations.js';
import { leadsOf } from '../signals/signal.js';
import type { ScoreReport } from './report.js';
import { scoresQuerySchema, scoresSchema } from './schema.js';

export const scoresRoutes = [
  defineRoute({
    at: 'GET /scores',
    operationId: 'getScores',
    tag: 'Market data',
    credential: 'none',
    limit: 'reads',
    query: scoresQuerySchema,
    ...conditional('The scores.', scoresSchema, 'Nothing has settled since.'),
    usesDatabase: true,
    handler: (deps: { scoreReport: ScoreReport }) => async (req, res) => {
      const { kind = 'daily_maximum', station, lead } = parseInput(scoresQuerySchema, req.query);
      const leadHours = lead === undefined ? undefined : Number(lead);
      const leads = leadsOf(kind);
      if (leadHours !== undefined && !leads.includes(leadHours))
        throw fieldError('lead', `of ${kind} must be one of ${leads.join(', ')}`);
      const placeId = station === undefined ? undefined : readPlaceId(station, kind);
      await sendCachedAnswer(req, res, await deps.scoreReport({ kind, station: placeId, leadHours }));
    },
  }),
];
