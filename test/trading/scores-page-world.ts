import { probabilityOf, type TemperatureDistribution } from '../../src/trading/market/distribution.js';
import { normalQuantile } from '../../src/core/statistics/normal.js';
import { judgeGates } from '../../src/trading/scores/judge-gates.js';
import { LEAD_HOURS } from '../../src/trading/signals/leads.js';
import { insertRecords } from '../../src/trading/scores/queries.js';
import type { NewRecord } from '../../src/trading/scores/records.js';
import { scoreRecord } from '../../src/trading/scores/score-record.js';
import { stations } from '../../src/trading/market/stations.js';
import type { Bracket } from '../../src/trading/market/brackets.js';
import type { TestService } from '../support/service.js';

/** Of a service that is started for a test. */
export const sources = { marketSource: 'simulated', forecastSource: 'simulated' };

const DAY_MS = 86_400_000;

interface Seeding {
  /** Settled days, up to the day before the service's clock. */
  days: number;
  /** How far model and market are from the truth, °F: their errors and what they say of them. */
  model: number;
  market: number;
  method?: NewRecord['method'];
  stationIds?: readonly string[];
}

/** Writes settled records of forecasts and prices, and judges the gates by them. */
export async function seedScores(service: TestService, seeding: Seeding): Promise<void> {
  const { db, clock } = service.context;
  const records = newRecords(service, seeding);
  for (let i = 0; i < records.length; i += 250) await insertRecords(db.orm, records.slice(i, i + 250));
  const judged = records.map((record) => ({
    kind: record.kind,
    station: record.station,
    date: record.date,
    leadHours: record.leadHours,
    method: record.method,
    modelLogScore: record.modelLogScore ?? null,
    marketLogScore: record.marketLogScore ?? null,
    settledAt: record.settledAt ?? null,
  }));
  const at = new Date(clock.now());
  service.trading.calibration.replace({ gates: judgeGates(judged, at) });
}

function newRecords(service: TestService, seeding: Seeding): NewRecord[] {
  const { days, model, market, method = 'emos', stationIds = stations.map(({ id }) => id) } = seeding;
  const today = Math.floor(service.context.clock.now() / DAY_MS) * DAY_MS;
  const noise = newNoise();
  return stationIds.flatMap((station) =>
    Array.from({ length: days }, (_, i) => i + 1).flatMap((ago) => {
      const at = today - ago * DAY_MS;
      const truth = 60 + 10 * Math.sin(ago / 6) + 4 * noise();
      return LEAD_HOURS.map((leadHours): NewRecord => {
        const distribution = { mean: truth + model * noise(), deviation: model, atLeast: null };
        const implied = { mean: truth + market * noise(), deviation: market, atLeast: null };
        const record = {
          ...sources,
          kind: 'daily_maximum' as const,
          hour: 0,
          station,
          date: new Date(at).toISOString().slice(0, 10),
          leadHours,
          recordedAt: new Date(at + DAY_MS - leadHours * 3_600_000),
          method,
          modelRunAt: new Date(at - DAY_MS),
          mean: distribution.mean,
          deviation: distribution.deviation,
          atLeast: null,
          atMost: null,
          members: Array.from({ length: 9 }, () => distribution.mean - 3 + noise()),
          climateMean: 60,
          climateDeviation: 9,
          brackets: toBrackets(distribution, implied, Math.round(truth)),
        };
        const outcome = Math.round(truth);
        return {
          ...record,
          outcome,
          settledAt: new Date(at + 1.5 * DAY_MS),
          ...scoreRecord(record, outcome),
        };
      });
    }),
  );
}

/** Six around the middle, as the venue has them. */
function toBrackets(model: TemperatureDistribution, market: TemperatureDistribution, middle: number) {
  const lowest = middle - 4 - (middle % 2);
  const brackets: Bracket[] = [
    { kind: 'less', floor: null, cap: lowest },
    ...[0, 2, 4, 6].map((step): Bracket => ({
      kind: 'between',
      floor: lowest + step,
      cap: lowest + step + 1,
    })),
    { kind: 'greater', floor: lowest + 7, cap: null },
  ];
  return brackets.map((bracket, i) => ({
    ticker: `SEEDED-${i}`,
    floor: bracket.floor,
    cap: bracket.cap,
    model: probabilityOf(model, bracket),
    market: probabilityOf(market, bracket),
  }));
}

/** Standard normal numbers, the same ones each time. */
function newNoise(): () => number {
  let state = 12_345;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return normalQuantile((state + 0.5) / 2_147_483_648);
  };
}
