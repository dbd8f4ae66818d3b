import { sendCachedAnswer } from '../../core/http/cached-answer.js';
import { parseInput } from '../../core/http/validate.js';
import { conditional, defineRoute } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import { fieldError } from '../../core/pages/form.js';
import { readPlaceId } from '../market/stations.js';
import { leadsOf, LEAD_HOURS, unjudged } from '../signals/signal.js';
import { PAST_DAYS } from './records.js';
import type { ScoreReport } from './report.js';
import { scoresQuerySchema, scoresSchema } from './schema.js';
import { gateErrorRates, gateRule, gateRuleText } from './gates.js';
import { toReliability, toPitHistogram } from './diagnostics.js';

const request = { query: { station: 'KNYC' } } as const;

const nothing = {
  n: 0,
  waiting: 0,
  withoutMarket: 0,
  since: null,
  model: null,
  market: null,
  difference: null,
  crps: null,
};
const noLeads = LEAD_HOURS.map((leadHours) => ({ leadHours, ...nothing }));
const closed = { isOpen: false, ...unjudged, reason: 'The scores have not been computed yet.' };

export const scoresRoutes = [
  defineRoute({
    method: 'get',
    path: '/scores',
    operationId: 'getScores',
    tag: 'Market data',
    summary: 'Compare the forecast with the market',
    description: `
${LEAD_HOURS.join(', ')} hours before the end of each climate day, the forecast's probabilities are recorded beside the market's own (the midpoint of bid and ask of
each bracket, without fees, normalised to sum to one): at that moment or not at all, so that no record contains later knowledge. When the venue has settled the day, both
are scored by the reported temperature; for every score, smaller is better. The log score and the ranked probability score are computed over the brackets, as they are traded. The CRPS is in
°F over whole degrees, for the forecast, the market, the raw ensemble and climatology alike.

Maxima, minima and hours are scored separately: \`kind\` selects one, and without it the answer is about maxima. Hourly forecasts are recorded ${leadsOf('hourly').join(', ')} hours
ahead; their markets are thresholds, and the intervals between two of them are scored. The hours of a day count as one day for the gate.

The means are over calibrated forecasts of the last 90 days for which model and market are both scored, by station and lead; forecasts made before there was a past to learn from are
in \`uncalibrated\`. \`difference\` is model less market: above zero, the market was better. While nothing has settled, \`n\` is 0 and the scores are \`null\`.

\`models\` gives the score of each weather model by itself, and its current weight: models are mixed by their recent skill.

Each station and lead has a \`gate\`. ${gateRuleText} \`errorRates\` has the simulated error rates of this rule and what they assume. \`diagnostics\` has the data for diagrams over
everything that was asked for: reliability, where the outcomes lay in the forecast distributions (PIT), and the CRPS of each day.

With the simulated markets the last ${PAST_DAYS} days are available soon after the first start: the simulated world follows from its seed and the clock, so its past is forecast and scored by the same code as its present.
`.trim(),
    credential: 'none',
    limit: 'reads',
    query: scoresQuerySchema,
    ...conditional('The scores.', scoresSchema, 'Nothing has settled since.'),
    usesDatabase: true,
    good: request,
    examples: [
      {
        name: 'nothingSettled',
        summary: 'Nothing has settled yet',
        request,
        answer: {
          asOf: exampleWorld.now,
          marketSource: 'simulated',
          forecastSource: 'simulated',
          kind: 'daily_maximum',
          windowDays: gateRule.windowDays,
          overall: nothing,
          uncalibrated: nothing,
          leads: noLeads,
          models: [],
          breaks: [],
          stations: [
            {
              station: 'KNYC',
              city: 'New York',
              overall: nothing,
              leads: noLeads.map((lead) => ({ ...lead, gate: closed })),
            },
          ],
          gateRule: { rule: gateRuleText, ...gateRule, errorRates: gateErrorRates },
          diagnostics: {
            reliability: { model: toReliability([]), market: toReliability([]) },
            pit: toPitHistogram([]),
            crps: [],
          },
          records: [],
          gatesJudgedAt: null,
        },
      },
      {
        name: 'notModified',
        summary: 'Nothing has settled since',
        request: { ...request, headers: { 'if-none-match': '*' } },
        status: 304,
      },
      problemExample('unknown_station', {
        summary: 'A station that no series settles on',
        detail: 'There is no such station.',
        request: { query: { station: 'KJFK' } },
      }),
    ],
    handler: (deps: { scoreReport: ScoreReport }) => async (req, res) => {
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
      await sendCachedAnswer(req, res, await deps.scoreReport(asked));
    },
  }),
];
