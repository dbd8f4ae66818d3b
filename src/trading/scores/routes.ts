import type { Router } from 'express';
import { sendCachedAnswer } from '../../http/cached-answer.js';
import { parseInput } from '../../http/validate.js';
import { readStationId } from '../reads/routes.js';
import type { ScoreReport } from './report.js';
import { scoresQuerySchema } from './schema.js';

/** Stands behind the layer of the public reads: origins, limits, headers. */
export function addScoresRoute(router: Router, report: ScoreReport): void {
  router.get('/scores', async (req, res) => {
    const { station, lead } = parseInput(scoresQuerySchema, req.query);
    const asked = {
      station: station === undefined ? undefined : readStationId(station),
      leadHours: lead === undefined ? undefined : Number(lead),
    };
    sendCachedAnswer(req, res, await report(asked));
  });
}
