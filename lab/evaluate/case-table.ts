import type { AheadCase } from '../../src/markets/learning/day-ahead.js';
import { crpsOfEnsemble } from './scoring-rules.js';

export interface CaseRow {
  row: number;
  day: number;
  /** From the `by` column; 0 if no column is given. */
  group: number;
  observed: number;
  mean: number;
  variance: number;
  /** Central 90%. */
  low: number;
  high: number;
  crps: number;
  rank: number;
}

/** Columns take a third of the memory that objects would. */
export class CaseTable {
  private readonly columns: Record<keyof CaseRow, number[]> = {
    row: [],
    day: [],
    group: [],
    observed: [],
    mean: [],
    variance: [],
    low: [],
    high: [],
    crps: [],
    rank: [],
  };
  private readonly names = Object.keys(this.columns) as (keyof CaseRow)[];

  get length(): number {
    return this.columns.day.length;
  }

  add(row: CaseRow): void {
    for (const name of this.names) this.columns[name].push(row[name]);
  }

  get(name: keyof CaseRow, index: number): number {
    return this.columns[name][index]!;
  }

  /** `observed` is for training only. */
  case(index: number): AheadCase {
    const { day, group, mean, variance, observed } = this.columns;
    return {
      day: day[index]!,
      group: String(group[index]!),
      mean: mean[index]!,
      variance: variance[index]!,
      observed: observed[index]!,
    };
  }

  rows(): number[] {
    return [...this.columns.day.keys()];
  }

  /** Rows with the same date keep their order. */
  byDate(rows: readonly number[]): number[] {
    const { day } = this.columns;
    return rows.toSorted((i, j) => day[i]! - day[j]!);
  }
}

type MembersPart = Omit<CaseRow, 'row' | 'day' | 'group' | 'observed'>;

/**
 * Quantiles 0.05 and 0.95, interpolated linearly between members (type 7 of R. J. Hyndman, Y. Fan, Amer. Statist. 50
 * (1996)).
 * @param members sorted in place
 * @param seed breaks ties between members and the observation
 */
export function describeMembers(members: Float64Array, observed: number, seed: number): MembersPart {
  members.sort();
  const m = members.length;
  const mean = members.reduce((sum, x) => sum + x, 0) / m;
  const squares = members.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return {
    mean,
    variance: m > 1 ? squares / (m - 1) : 0,
    low: quantileOf(members, 0.05),
    high: quantileOf(members, 0.95),
    crps: crpsOfEnsemble(members, observed),
    rank: rankOf(members, observed, seed),
  };
}

function quantileOf(sorted: Float64Array, probability: number): number {
  const position = (sorted.length - 1) * probability;
  const index = Math.floor(position);
  const below = sorted[index]!;
  const above = sorted[Math.min(sorted.length - 1, index + 1)]!;
  return below + (position - index) * (above - below);
}

function rankOf(sorted: Float64Array, observed: number, seed: number): number {
  let below = 0;
  while (below < sorted.length && sorted[below]! < observed) below++;
  let equal = 0;
  while (below + equal < sorted.length && sorted[below + equal] === observed) equal++;
  return equal === 0 ? below : below + Math.floor(mulberry(seed) * (equal + 1));
}

/** To [0, 1), with one step of T. Ettinger's Mulberry32 generator. */
function mulberry(seed: number): number {
  let t = (seed + 1) * 0x6d2b79f5;
  t = Math.imul(t ^ (t >>> 15), t | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
