import type { EmosCoefficients } from '../trading/forecast/emos.js';
import type { EvaluationSummary } from './evaluation.js';
import type { Forecasts, ScoredCase } from './forecasts.js';

/**
 * Means over all forecasts.
 * @param coefficients one set, or by the value that was fitted by
 */
export function summarize(forecasts: Forecasts, coefficients: EmosCoefficients | ByValue): EvaluationSummary {
  const raw = { crps: 0, mae: 0, bias: 0, coverage: 0 };
  const emos = { crps: 0, mae: 0, bias: 0, logScore: 0, coverage: 0 };
  for (const forecast of forecasts) {
    addRaw(raw, forecast);
    addEmos(emos, forecast);
  }
  const n = forecasts.length;
  return {
    n,
    raw: divided(raw, n),
    emos: divided(emos, n),
    coefficients: isByValue(coefficients) ? Object.fromEntries(coefficients) : coefficients,
  };
}

type ByValue = ReadonlyMap<string, EmosCoefficients>;

const isByValue = (coefficients: EmosCoefficients | ByValue): coefficients is ByValue =>
  coefficients instanceof Map;

function addRaw(
  sum: EvaluationSummary['raw'],
  { members, observed, rawCrps, isRawCovered }: ScoredCase,
): void {
  const error = members.mean - observed;
  sum.crps += rawCrps;
  sum.mae += Math.abs(error);
  sum.bias += error;
  sum.coverage += Number(isRawCovered);
}

function addEmos(sum: EvaluationSummary['emos'], forecast: ScoredCase): void {
  const { mean, low, high, observed, emosCrps, logScore } = forecast;
  sum.crps += emosCrps;
  sum.mae += Math.abs(mean - observed);
  sum.bias += mean - observed;
  sum.logScore += logScore;
  sum.coverage += Number(observed >= low && observed <= high);
}

const divided = <Sums extends object>(sums: Sums, n: number): Sums =>
  Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, (sum as number) / n])) as Sums;
