import type { Router } from 'express';
import type { Context } from '../../context.js';
import { fieldError, textField, type FormFields } from '../../pages/form.js';
import { renderPage } from '../../pages/layout.js';
import { pageRouter } from '../../pages/page-router.js';
import { readQuery, requireOnce, tryQuery } from '../../pages/query-form.js';
import type { TradingServices } from '../services.js';
import { findStation } from '../settlement/stations.js';
import { LEAD_HOURS } from './leads.js';
import { toScoresPage } from './page-view.js';
import { filterOptions } from './page-words.js';
import type { ScoreReport } from './report.js';
import type { ScoresAnswer } from './schema.js';
import type { ScoresAsked } from './scores.js';

/** `/dashboard/scores`: how good forecasts and market were, and which gates are open, for every role. */
export function scoresPages(context: Context, trading: Pick<TradingServices, 'scoreReport'>): Router {
  const router = pageRouter();

  router.get('/scores', async (req, res) => {
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      requireOnce(query);
      const asked = readAsked(query);
      return toScoresPage(await readAnswer(trading.scoreReport, asked), asked);
    });
    const page = { view: 'scores/scores', title: 'Scores', section: 'scores' };
    await renderPage(context, req, res, page, { form, ...filterOptions, scores: result });
  });

  return router;
}

/** What `GET /scores` answers: it is kept, since adding the scores up reads megabytes, and looking through it again does not. */
async function readAnswer(report: ScoreReport, asked: ScoresAsked): Promise<ScoresAnswer> {
  const { answer, end } = await report(asked);
  return JSON.parse(Buffer.concat(answer.parts('identity', end)).toString()) as ScoresAnswer;
}

/** @throws AppError invalid_request for the field that is wrong */
function readAsked(query: FormFields): ScoresAsked {
  const [station, lead] = [textField(query, 'station'), textField(query, 'lead')];
  const found = station === undefined ? undefined : findStation(station.toUpperCase());
  if (station !== undefined && !found) throw fieldError('station', 'must be one of the stations');
  const leadHours = LEAD_HOURS.find((hours) => String(hours) === lead);
  if (lead !== undefined && leadHours === undefined)
    throw fieldError('lead', `must be one of ${LEAD_HOURS.join(', ')} hours`);
  return { kind: 'daily_maximum', station: found?.id, leadHours };
}
