import type { Router } from 'express';
import { sendCachedAnswer } from '../../core/http/cached-answer.js';
import { parseInput } from '../../core/http/validate.js';
import { fieldError } from '../../core/pages/form.js';
import { readPlaceId } from '../reads/routes.js';
import { leadsOf } from '../signals/leads.js';
import type { ScoreReport } from './report.js';
import { scoresQuerySchema } from './schema.js';

/** Stands behind the layer of the public reads: origins, limits, headers. */
export function addScoresRoute(router: Router, report: ScoreReport): void {
  router.get('/scores', async (req, res) => {
    const { kind = 'daily_maximum', station, lead } = parseInput(scoresQuerySchema, req.query);
    const leadHours = lead === undefined ? undefined : Number(lead);
    const leads = leadsOf(kind);
    if (leadHours !== undefined && !leads.includes(leadHours))
      throw fieldError('lead', `of ${kind} must be one of ${leads.join(', ')}`);
    const asked = {
      kind,
      station: station === undefined ? undefined : readPlaceId(station, kind),
      leadHours,
    };
    sendCachedAnswer(req, res, await report(asked));
  });
}
