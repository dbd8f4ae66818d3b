import { toReliabilityChart } from '../charts/diagonal.js';
import { toCrpsChart } from '../charts/series.js';
import { formatFixed, formatPercent } from '../../core/charts/text.js';
import { groupBy } from '../../core/collections.js';
import { DAY_MS } from '../../core/time.js';
import { formatCount, formatDecimal, formatDegrees, inSentence } from '../../core/pages/format.js';
import { temperatureKinds, type TemperatureKind } from '../market/market.js';
import { SCORES_PATH, scoresAddress } from './addresses.js';
import { formatDate, formatHour, kindLabels, modelName } from './labels.js';
import { findPlace, placesOf } from '../market/stations.js';
import type { ScoresQuery } from '../scores/report.js';
import type { CrpsPoint, ScoreSummary, ScoresAnswer } from '../scores/schema.js';
import { leadsOf, type GateBook } from '../signals/signal.js';
import { describeErrorRates, describeGates, toGateRows, toHeatMap } from './gates-view.js';

export const toScoresTabs = (current: TemperatureKind | 'execution') => [
  ...temperatureKinds.map((kind) => ({
    label: kindLabels[kind].tab,
    href: scoresAddress(kind),
    isCurrent: kind === current,
  })),
  { label: 'Execution', href: `${SCORES_PATH}/execution`, isCurrent: current === 'execution' },
];

export const filterOptions = (kind: TemperatureKind) => ({
  stationOptions: [
    { value: '', label: 'All cities' },
    ...placesOf(kind).map(({ id, city }) => ({ value: id, label: city })),
  ],
  leadOptions: [
    { value: '', label: 'All leads' },
    ...leadsOf(kind).map((hours) => ({
      value: String(hours),
      label: `${hours === 1 ? '1 hour' : `${hours} hours`} before ${kindLabels[kind].end}`,
    })),
  ],
});

/** Daily events settle the next morning, hourly events soon after they end. */
function describeFirstScores({ kind, overall, uncalibrated, gateRule }: ScoresAnswer): string[] {
  const waiting = overall.waiting + uncalibrated.waiting;
  const leads = leadsOf(kind);
  const hours = `${leads.slice(0, -1).join(', ')} and ${leads.at(-1)}`;
  const [each, its] =
    kind === 'hourly' ? ['each hour', 'its hour'] : ['the end of each climate day', 'the end of its day'];
  return [
    waiting === 0
      ? `Forecasts and prices are recorded ${hours} hours before ${each}. None have been recorded yet.`
      : `${formatCount(waiting, 'forecast')} ${waiting === 1 ? `has been recorded and waits for ${its}` : `have been recorded and wait for ${kind === 'hourly' ? 'their hour' : 'the end of their day'}`}.`,
    kind === 'hourly'
      ? `Scores for an hour arrive with the venue’s index. A gate can open once ${gateRule.minimumDays} days of its area and lead have settled; until then signals are withheld.`
      : `Scores for a day arrive with its climate report, the next morning. A gate can open once ${gateRule.minimumDays} days of its station and lead have settled; until then signals are withheld.`,
  ];
}

const OBSERVED_HOURS = 6;
/** `GET /scores` has all records. */
const SHOWN_RESULTS = 14;

export function toScoresPage(answer: ScoresAnswer, asked: ScoresQuery, book: GateBook) {
  const { overall, uncalibrated, gateRule, gatesJudgedAt, diagnostics, records, windowDays } = answer;
  return {
    labels: kindLabels[answer.kind],
    windowDays,
    isEmpty: records.length === 0 && overall.n === 0,
    hasScores: overall.n > 0,
    firstScores: describeFirstScores(answer),
    city: asked.station === undefined ? null : (answer.stations[0]?.city ?? null),
    allHref: scoresAddress(answer.kind),
    gates: {
      summary: describeGates(answer, asked.station !== undefined),
      heatMap: asked.station === undefined ? toHeatMap(book, answer.kind) : null,
      rows: asked.station === undefined ? [] : toGateRows(answer),
    },
    gatesJudgedAt: gatesJudgedAt === null ? null : new Date(gatesJudgedAt),
    rule: gateRule.rule,
    errorRates: describeErrorRates(gateRule),
    headline: isObserved(answer)
      ? `At this lead, the day’s extreme has usually been observed, so the comparison says little`
      : toHeadline(overall, gateRule.minimumDays) + toRecent(diagnostics.crps, gateRule.minimumDays),
    usual: overall.crps
      ? `A forecast of what is usual for the date has ${formatFixed(overall.crps.climate, 2)}\u00a0°F.`
      : '',
    counts: toCounts(overall),
    uncalibrated: uncalibrated.n === 0 ? null : describeUncalibrated(uncalibrated),
    crps: toCrpsChart(diagnostics.crps, answer.breaks.map(toMark(answer))),
    reliability: toReliabilityChart([
      { name: 'model', label: 'Model', bins: diagnostics.reliability.model },
      { name: 'market', label: 'Market', bins: diagnostics.reliability.market },
    ]),
    models: toModels(answer),
    leads: tellingLeads(answer).map(({ leadHours }) => `${leadHours} h`),
    isShortened: tellingLeads(answer).length < answer.leads.length,
    results: toResults(answer),
    asOf: new Date(answer.asOf),
  };
}

/** @param enough forecasts; a gate needs as many days */
export function toHeadline({ crps }: Pick<ScoreSummary, 'crps'>, enough: number): string {
  const n = crps?.n ?? 0;
  if (!crps || n < enough)
    return `Too few forecasts to tell whether the model is sharper than the market: ${formatDecimal(n)} of ${enough}`;
  return `${compare(crps)} the market over ${formatCount(n, 'forecast')}`;
}

function compare({ model, market }: { model: number; market: number }): string {
  const gain = Math.round((1 - model / market) * 100);
  return gain > 0 ? `${gain}% sharper than` : gain < 0 ? `${-gain}% less sharp than` : 'As sharp as';
}

const RECENT_DAYS = 30;

/** Empty with too few forecasts, or if nothing is older. */
export function toRecent(points: readonly CrpsPoint[], enough: number): string {
  const from = Date.parse(points.at(-1)?.date ?? '') - RECENT_DAYS * DAY_MS;
  const recent = points.filter(({ date }) => Date.parse(date) > from);
  if (recent.length === points.length || recent.reduce((sum, { n }) => sum + n, 0) < enough) return '';
  const sum = (name: 'model' | 'market') => recent.reduce((total, point) => total + point.n * point[name], 0);
  const told = inSentence(`${compare({ model: sum('model'), market: sum('market') })} it`);
  return `, and ${told.replace(' than it', '')} in the last ${RECENT_DAYS} days`;
}

const toModels = ({ forecastSource, models, breaks }: ScoresAnswer) =>
  models
    .toSorted((a, b) => (b.weight ?? 0) - (a.weight ?? 0))
    .map(({ model, n, logScore, crps, mixed, weight, version, versionFrom }) => ({
      name: modelName(forecastSource, model),
      version:
        version === null || versionFrom === null
          ? null
          : breaks.some((each) => each.model === model)
            ? `new version ${version} since ${formatDate(versionFrom)}; errors before count a quarter`
            : `version ${version} since ${formatDate(versionFrom)}`,
      count: formatDecimal(n),
      weight: weight === null ? 'none yet' : formatPercent(weight),
      logScore: formatFixed(logScore, 3),
      mixedLogScore: formatFixed(mixed.logScore, 3),
      crps: `${formatFixed(crps, 2)}\u00a0°F`,
      mixedCrps: `${formatFixed(mixed.crps, 2)}\u00a0°F`,
    }));

const toMark =
  ({ forecastSource }: Pick<ScoresAnswer, 'forecastSource'>) =>
  ({ model, version, from }: ScoresAnswer['breaks'][number]) => ({
    date: from,
    label: `${modelName(forecastSource, model)} ${version} from ${formatDate(from)}`,
  });

function toCounts({ n, waiting, withoutMarket, since, crps }: ScoreSummary): string {
  return [
    `${formatCount(n, 'calibrated forecast')} compared with the market${since === null ? '' : ` since ${formatDate(since)}`}`,
    ...(crps && crps.n !== n ? [`distance over the ${formatDecimal(crps.n)} that have all four`] : []),
    ...(waiting > 0 ? [`${formatDecimal(waiting)} waiting for settlement`] : []),
    ...(withoutMarket > 0 ? [`${formatDecimal(withoutMarket)} left out for lack of a price`] : []),
  ].join('; ');
}

function describeUncalibrated({ n, model, market }: ScoreSummary): string {
  const scores =
    model && market
      ? `: log score ${formatFixed(model.logScore, 3)} against the market’s ${formatFixed(market.logScore, 3)}`
      : '';
  return `${formatCount(n, 'forecast')} made before the model could be calibrated ${n === 1 ? 'is' : 'are'} left out${scores}.`;
}

type Leads = { kind: TemperatureKind; leads: readonly { leadHours: number }[] };

/** Hours before its end, a day's extreme has usually been observed, so the probabilities are all near 100%. */
const isObserved = ({ kind, leads }: Leads): boolean =>
  kind !== 'hourly' && leads.every(({ leadHours }) => leadHours <= OBSERVED_HOURS);

/** The leads that tell something, or the one that was asked for. */
export const tellingLeads = ({ kind, leads }: Leads) =>
  leads.filter((lead) => isObserved({ kind, leads }) || !isObserved({ kind, leads: [lead] }));

/** Newest first, with the probability given to the outcome at each lead. */
function toResults(answer: ScoresAnswer) {
  const { records } = answer;
  const results = groupBy(records, ({ date, hour, station }) => `${date} ${hour} ${station}`);
  return [...results.values()].slice(0, SHOWN_RESULTS).map((ofDay) => {
    const { date, hour, station, temperatureF } = ofDay[0]!;
    return {
      day: hour === null ? formatDate(date) : `${formatDate(date)}, ${formatHour(hour)}`,
      city: findPlace(station)?.city ?? station,
      temperature: `${formatDegrees(temperatureF, hour === null ? 0 : 2)}F`,
      isCalibrated: ofDay.every(({ method }) => method !== 'raw_ensemble'),
      given: tellingLeads(answer).map(({ leadHours }) => ({
        lead: `${leadHours} h`,
        ...toGiven(ofDay.find((record) => record.leadHours === leadHours)),
      })),
    };
  });
}

/** `ahead` gave the outcome the higher probability. */
function toGiven(record: ScoresAnswer['records'][number] | undefined) {
  if (!record) return { model: null, market: null, ahead: null };
  const { model, market } = record;
  const lead = market === null ? 0 : model.probability - market.probability;
  return {
    model: formatPercent(model.probability),
    market: market && formatPercent(market.probability),
    ahead: lead > 0 ? 'model' : lead < 0 ? 'market' : null,
  };
}
