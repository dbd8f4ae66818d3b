import { groupBy } from '../../src/core/collections.js';
import { CommandError } from '../../src/commands/kit/command.js';
import { nameOf } from '../../src/commands/kit/input.js';
import { POSSIBLE_DEVIATION_F } from '../../src/markets/learning/calibrated.js';
import type { AheadCase, AheadFit } from '../../src/markets/learning/day-ahead.js';
import { learnMix, mixCandidates, type Candidate, type ModelError } from '../../src/markets/learning/mix.js';
import { markOlder, versionOn, type ModelVersion } from '../../src/markets/weather/versions.js';
import { MAIN_MODEL } from '../../src/markets/weather/weather.js';
import type { CaseTable } from './case-table.js';
import { differenceByDate } from './compare.js';
import type { EvaluateOptions } from './evaluation.js';
import { forecastRows, type RowForecasts } from './forecast-rows.js';
import { models, type Model, type ModelName } from './models.js';
import type { FileCases } from './read-cases.js';
import { meanScores, scoreForecast, type ForecastScores } from './scores.js';
import { distributions, formatEpochDay } from './training.js';

type Coefficients = AheadFit['coefficients'];

export interface MixedModel {
  name: string;
  options: EvaluateOptions;
  file: FileCases;
  versions: readonly ModelVersion[] | undefined;
}

export type MixSummary = ReturnType<typeof compareMixes>;

/**
 * @param given the first model decides which rows are tested
 * @throws CommandError if no row can be tested
 */
export function compareMixes(
  given: readonly MixedModel[],
  fit: ModelName,
  onProgress: (share: number) => void,
) {
  const parts = given.map((model, i) =>
    toPart(model, fit, (share) => onProgress((i + share) / given.length)),
  );
  const tested = [...testRows(parts)];
  const n = tested.length;
  if (n === 0)
    throw new CommandError(
      `${nameOf(given[0]!.options.file)}: No row can be tested: none has a forecast of ${given[0]!.name} and enough earlier dates.`,
    );
  const byName = <T>(of: (name: string) => T): Record<string, T> =>
    Object.fromEntries(parts.map(({ name }) => [name, of(name)]));
  const weightOf = (name: string) =>
    tested.reduce((sum, { weights }) => sum + (weights.get(name) ?? 0), 0) / n;
  return {
    n,
    mix: { ...meanScores(tested, ({ mix }) => mix), weights: byName(weightOf) },
    models: byName((name) => {
      const scores = tested.flatMap(({ alone }) => alone.get(name) ?? []);
      return { n: scores.length, ...meanScores(scores, (each) => each) };
    }),
    without: byName((name) => {
      const scoresOf = (row: Tested) => row.without.get(name) ?? row.mix;
      const differences = tested.map((row): [number, number] => [row.day, scoresOf(row).crps - row.mix.crps]);
      return { ...meanScores(tested, scoresOf), crpsDifference: differenceByDate(differences) };
    }),
  };
}

interface Part {
  name: string;
  table: CaseTable;
  forecasts: RowForecasts<Coefficients>;
  /** From a row number of the file to its position in the table. */
  places: ReadonlyMap<number, number>;
  mark: (rows: readonly AheadCase[]) => readonly AheadCase[];
}

function toPart(
  { name, options, file: { table, ...file }, versions }: MixedModel,
  fit: ModelName,
  onProgress: (share: number) => void,
): Part {
  const mark = (rows: readonly AheadCase[]) => {
    const versioned = rows.map((row) => ({ ...row, version: versionOn(versions, formatEpochDay(row.day)) }));
    return markOlder(versioned, ({ day }) => day);
  };
  const model = models[fit] as Model<Coefficients>;
  const marked: typeof model = { ...model, fit: (rows, near) => model.fit(mark(rows), near) };
  return {
    name,
    table,
    forecasts: forecastRows(marked, options, { table, ...file }, onProgress),
    places: new Map(table.rows().map((place) => [table.get('row', place), place])),
    mark,
  };
}

interface Tested {
  day: number;
  mix: ForecastScores;
  weights: ReadonlyMap<string, number>;
  alone: ReadonlyMap<string, ForecastScores>;
  /** Scores of the mix without each model in turn. */
  without: ReadonlyMap<string, ForecastScores>;
}

/** For each date, the mix is learned once with the first model and once without it. */
function* testRows(parts: readonly Part[]): Generator<Tested> {
  const [{ table, forecasts, places }, ...others] = parts as [Part, ...Part[]];
  const byDay = groupBy(table.byDate(forecasts.rows), (place) => table.get('day', place));
  for (const [day, ofDay] of byDay) {
    const rows = ofDay.map((place) => table.get('row', place));
    const errors = new Map(parts.map((part) => [part.name, errorsBefore(part, rows)]));
    const mixAll = createMixer(parts, errors);
    const mixOthers = createMixer(others, errors);
    for (const row of rows) {
      const observed = table.get('observed', places.get(row)!);
      const score = ({ meanF: mean, deviationF }: Pick<Forecast, 'meanF' | 'deviationF'>) =>
        scoreForecast(
          distributions.logistic,
          { mean, deviation: Math.max(POSSIBLE_DEVIATION_F.lowest, deviationF) },
          observed,
        );
      const found = new Map(parts.flatMap((part) => forecastOf(part, row)));
      const all = mixAll(found);
      yield {
        day,
        mix: score(all),
        weights: all.weights,
        alone: new Map([...found].map(([name, forecast]) => [name, score(forecast)])),
        without: new Map(
          [...found.keys()].flatMap((name) => {
            const rest = new Map([...found].filter(([other]) => other !== name));
            const mix = name === parts[0]!.name ? mixOthers : mixAll;
            return rest.size === 0 ? [] : [[name, score(mix(rest))]];
          }),
        ),
      };
    }
  }
}

interface Forecast {
  row: AheadCase;
  meanF: number;
  deviationF: number;
}

/** Empty without a forecast for the row. */
function forecastOf({ name, table, forecasts, places }: Part, row: number): [string, Forecast][] {
  const place = places.get(row);
  const fit = place === undefined ? undefined : forecasts.fits[place];
  if (!fit) return [];
  const seen = table.case(place!);
  const { mean: meanF, deviation: deviationF } = fit.predict(seen);
  return [[name, { row: seen, meanF, deviationF }]];
}

/** Errors of the fits that apply to the rows. */
function errorsBefore({ table, forecasts, places, mark }: Part, rows: readonly number[]): ModelError[] {
  const fits = new Set(rows.map((row) => forecasts.fits[places.get(row) ?? -1]));
  return [...fits].flatMap((fit) => {
    if (!fit) return [];
    const trained = fit.trainingRows();
    return mark(trained.map((place) => table.case(place))).map((each, i) => ({
      key: String(table.get('row', trained[i]!)),
      date: formatEpochDay(each.day),
      errorF: each.observed - fit.predict(each).mean,
      isOlder: each.isOlder,
    }));
  });
}

type Mixer = (
  found: ReadonlyMap<string, Forecast>,
) => Pick<Forecast, 'meanF' | 'deviationF'> & { weights: ReadonlyMap<string, number> };

/** By the trading server's rules, with the first part as the main model. */
function createMixer(parts: readonly Part[], errors: ReadonlyMap<string, readonly ModelError[]>): Mixer {
  const first = parts[0]!.name;
  const named = (name: string) => (name === first ? MAIN_MODEL : name);
  const learned = learnMix(new Map(parts.map(({ name }) => [named(name), errors.get(name)!])));
  const mix = learned && { ...learned, ...notUsed };
  return (found) => {
    const candidates = [...found].map(([name, { row, meanF, deviationF }]): Candidate => ({
      run: { ...noRun, model: named(name), meanF: row.mean, varianceF: row.variance },
      corrected: { ...corrected, meanF, deviationF },
    }));
    const { models: shares, ...mixed } = mixCandidates(candidates, mix);
    const weights = shares?.map(({ model, weight }): [string, number] => [
      model === MAIN_MODEL ? first : model,
      weight,
    ]);
    return { ...mixed, weights: new Map(weights ?? [[[...found.keys()][0]!, 1]]) };
  };
}

const past = new Date(0);
const notUsed = { id: '', kind: 'daily_maximum' as const, leadHours: 0, knownThrough: past, trainedAt: past };
const noRun = {
  kind: 'daily_maximum' as const,
  stationId: '',
  date: '',
  modelRunAt: past,
  fetchedAt: past,
  end: past,
  membersF: [],
};
const corrected = {
  method: 'emos_pooled' as const,
  isCalibrated: true,
  fallback: null,
  fit: null,
  shape: 'logistic' as const,
};
