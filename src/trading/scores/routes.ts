import { sendCachedAnswer } from '../../core/http/cached-answer.js';
import { parseInput } from '../../core/http/validate.js';
import { conditional, defineRoute } from '../../core/reference/define-route.js';
import { exampleWorld } from '../../core/reference/example-world.js';
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
const closed = { isOpen: false, ...unjudged, reason: 'The scores have not been added up yet.' };

export const scoresRoutes = [
  defineRoute({
    method: 'get',
    path: '/scores',
    operationId: 'getScores',
    tag: 'Market data',
    summary: 'How the forecast did against the market',
    description: `
${LEAD_HOURS.join(', ')} hours before the end of each climate day the forecast's probabilities are recorded beside the market's own (the middle between bid and ask of
each bracket, without fees, made to sum to one): at that moment or not at all, so that nothing in a record was known later. When the venue is done with the day, both
are scored by the reported temperature; for every score, smaller is better. The log score and the ranked probability score are of the brackets, as they are traded. The CRPS is in
°F and of whole degrees, for the forecast, the market, the ensemble as it was and climatology alike.

Maxima, minima and hours are scored each by themselves: \`kind\` says which, and without it the answer is about maxima. Of hours forecasts are recorded ${leadsOf('hourly').join(', ')} hours
before; their markets are thresholds, and what is scored is what lies between two of them. The hours of a day count as one day for the gate.

The means are over calibrated forecasts of the last 90 days that model and market are both scored for, by station and lead; what was said before there was a past to learn from is
in \`uncalibrated\`. \`difference\` is model less market: where it is above zero the market knew more. While nothing has settled, \`n\` is 0 and the scores are \`null\`.

\`models\` says how each of several weather models has done by itself, and the weight that it has now: they are mixed by their recent skill.

Each station and lead has a \`gate\`. ${gateRuleText} \`errorRates\` says how often that is wrong. \`diagnostics\` is what diagrams are drawn of, over
everything that was asked for: how often what was said came true, where the outcomes lay in the forecasts' distributions, and the CRPS of each day.

With the simulated markets the last ${PAST_DAYS} days are there soon after the first start: their world follows from its seed and the clock, so its past is asked and scored by the same code as its present.
`.trim(),
    credential: 'none',
    limit: 'reads',
    query: scoresQuerySchema,
    ...conditional('The scores.', scoresSchema, 'Nothing has settled since.'),
    errors: ['invalid_request', 'unknown_station'],
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
      problemExample('invalid_request', {
        summary: 'An unknown parameter',
        at: '/method',
        detail: 'is not a known field',
        request: { query: { method: 'emos' } },
      }),
      problemExample('unknown_station', {
        summary: 'A station that no series settles on',
        detail: 'There is no such station.',
        request: { query: { station: 'KJFK' } },
      }),
    ],
    handler:
      ({ scoreReport }: { scoreReport: ScoreReport }) =>
      async (req, res) => {
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
        sendCachedAnswer(req, res, await scoreReport(asked));
      },
  }),
];
