import type { Router } from 'express';
import { sendCachedAnswer } from '../../http/cached-answer.js';
import { parseInput } from '../../http/validate.js';
import { readStationId } from '../reads/routes.js';
import type { ScoreReport } from './report.js';
import { scoresQuerySchema } from './schema.js';

/** Stands behind the layer of the public reads: origins, limits, headers. */
export function addScoresRoute(router: Router, report: ScoreReport): void {
  router.get('/scores', async (req, res) => {
    const { station } = parseInput(scoresQuerySchema, req.query);
    const id = station === undefined ? undefined : readStationId(station);
    sendCachedAnswer(req, res, await report(id));
  });
}
