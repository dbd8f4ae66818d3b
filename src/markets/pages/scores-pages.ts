import type { Context } from '../../core/http/context.js';
import {
  fieldError,
  textField,
  type FormFields,
  readQuery,
  requireOnce,
  tryQuery,
} from '../../core/pages/form.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import type { TradingServices } from '../services/services.js';
import { temperatureKinds, type TemperatureKind } from '../market/market.js';
import { findPlace, placesOf } from '../market/stations.js';
import { leadsOf } from '../signals/signal.js';
import { sessionOf } from '../../accounts/identity/session/session.js';
import { readExecution, toPeriod } from '../execution/report.js';
import { executionQuerySchema } from '../execution/schema.js';
import { parseInput } from '../../core/http/validate.js';
import { toExecutionPage } from './execution-view.js';
import { filterOptions, toScoresPage, toScoresTabs } from './scores-view.js';
import type { ScoreReport, ScoresQuery } from '../scores/report.js';
import type { ScoresAnswer } from '../scores/schema.js';

export function scoresPages(context: Context, trading: Pick<TradingServices, 'scoreReport' | 'calibration'>) {
  const router = pageRouter();

  router.get('/scores', async (req, res) => {
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      requireOnce(query);
      const asked = readAsked(query);
      const answer = await readAnswer(trading.scoreReport, asked);
      return toScoresPage(answer, asked, trading.calibration.current.gates);
    });
    const page = { view: 'markets/scores/scores', title: 'Scores', section: 'scores' };
    const kind = findKind(textField(query, 'kind')) ?? 'daily_maximum';
    const view = { form, kind, tabs: toScoresTabs(kind), ...filterOptions(kind), scores: result };
    await renderPage(context, req, res, page, view);
  });

  router.get('/scores/execution', async (req, res) => {
    const { orgId } = sessionOf(res);
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      requireOnce(query);
      const days = toPeriod(parseInput(daysSchema, query), context.clock.now());
      const now = new Date(context.clock.now());
      const period = { orgId, ...days };
      return toExecutionPage(await readExecution(context.db.orm, period, { withLive: true, now }));
    });
    const page = { view: 'markets/scores/execution', title: 'Execution', section: 'scores' };
    const shown = result ? { ...form, values: result.days } : form;
    const view = { form: shown, tabs: toScoresTabs('execution'), execution: result };
    await renderPage(context, req, res, page, view);
  });

  return router;
}

const daysSchema = executionQuerySchema.pick({ from: true, to: true });

/** Computing the answer reads megabytes, while parsing it is cheap. */
async function readAnswer(report: ScoreReport, asked: ScoresQuery): Promise<ScoresAnswer> {
  const { answer, lastFields } = await report(asked);
  return JSON.parse((await answer.encode('identity', lastFields)).toString()) as ScoresAnswer;
}

const findKind = (name: string | undefined): TemperatureKind | undefined =>
  temperatureKinds.find((kind) => kind === name);

function readAsked(query: FormFields): ScoresQuery {
  const [name, station, lead] = ['kind', 'station', 'lead'].map((field) => textField(query, field));
  const kind = name === undefined ? 'daily_maximum' : findKind(name);
  if (!kind) throw fieldError('kind', `must be one of ${temperatureKinds.join(', ')}`);
  // A station stands for its city, whose hourly markets belong to an area.
  const city = station === undefined ? undefined : findPlace(station.toUpperCase())?.city;
  const found = placesOf(kind).find((place) => place.city === city);
  if (station !== undefined && !found) throw fieldError('station', 'must be one of the stations');
  const leads = leadsOf(kind);
  const leadHours = leads.find((hours) => String(hours) === lead);
  if (lead !== undefined && leadHours === undefined)
    throw fieldError('lead', `must be one of ${leads.join(', ')} hours`);
  return { kind, station: found?.id, leadHours };
}
