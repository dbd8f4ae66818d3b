import type { Evaluation } from '../../evaluate/evaluate.js';
import type { EvaluatedCase, EvaluateOptions } from '../../evaluate/evaluation.js';

/** A name that would inject a script if it were rendered unescaped. */
export const hostile = '</style><img src=x onerror=alert(1)>\u202Eمدينة🌡';

export const newCase = (fields: Partial<EvaluatedCase> = {}): EvaluatedCase => ({
  date: '2010-12-01',
  by: null,
  observed: 1,
  mean: 0.5,
  rawCrps: 8.5,
  emosCrps: 1.5,
  climateCrps: 2.5,
  pit: 0.58,
  rawRank: 3,
  ...fields,
});

/** Three winters with a calibrated forecast and a raw ensemble that is far too cold. */
export function seasons(): EvaluatedCase[] {
  return Array.from({ length: 180 }, (_, i) => {
    const at = Date.UTC(2010 + Math.floor(i / 60), 11, 1 + (i % 60));
    const pit = ((i * 37) % 180) / 180;
    const observed = 10 * Math.sin(i / 9) + 8 * (pit - 0.5);
    return newCase({
      date: new Date(at).toISOString().slice(0, 10),
      observed,
      mean: 10 * Math.sin(i / 9),
      pit,
      rawRank: i % 20 === 0 ? 10 : 11,
      rawCrps: 8 + Math.sin(i),
      emosCrps: 1.7 + Math.cos(i) / 3,
      climateCrps: 2.7 + Math.sin(i / 3) / 2,
    });
  });
}

interface Fields {
  fileName?: string;
  options?: Partial<EvaluateOptions>;
  cases?: EvaluatedCase[];
  n?: number;
  memberCount?: number;
  coefficients?: Evaluation['summary']['coefficients'];
}

export const newEvaluation = ({
  options,
  cases = seasons(),
  n,
  coefficients,
  ...fields
}: Fields = {}): Evaluation => ({
  options: {
    file: '/data/innsbruck.csv',
    observed: 'temp',
    members: '^tempfc',
    date: 'valid_time',
    training: { until: '2010-03-01', lagDays: 0 },
    months: [12, 1, 2],
    by: null,
    distribution: 'normal',
    isWidened: false,
    missing: [],
    hasDecimalComma: false,
    delimiter: ',',
    ...options,
  },
  fileName: 'innsbruck.csv',
  memberCount: 11,
  rows: 2_749,
  usedRows: 695,
  leftOut: { fields: 0, date: 0, missingObservation: 12, missingMember: 0, notNumeric: 3, repeated: 0 },
  untested: { tooEarly: 0, notFitted: 0, whyNotFitted: null },
  summary: {
    n: n ?? cases.length,
    raw: { crps: 8.8798, mae: 9.532, bias: -9.487, coverage: 0.02 },
    emos: { crps: 1.7245, mae: 2.342, bias: 0.408, coverage: 0.862, logScore: 2.7012 },
    coefficients: coefficients ?? { a: 2.03, b: 0.32, c: 6.19, d: 0.29 },
  },
  cases,
  ...fields,
});
