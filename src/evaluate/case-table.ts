/** A row of the file: what the ensemble said, how well, and what came. */
export interface CaseRow {
  /** See `parseDay`. */
  day: number;
  /** Index of its value in the column that is fitted by; 0 without one. */
  group: number;
  observed: number;
  mean: number;
  variance: number;
  lowest: number;
  highest: number;
  /** The central 90 % interval of the members. */
  low: number;
  high: number;
  crps: number;
  rank: number;
}

/** Ensembles are described before they are kept: some numbers for each row, however many members there are. */
const fields: readonly (keyof CaseRow)[] = [
  'day',
  'group',
  'observed',
  'mean',
  'variance',
  'lowest',
  'highest',
  'low',
  'high',
  'crps',
  'rank',
];

/** Rows by column, a third of the memory of as many objects. */
export class CaseTable {
  private readonly columns = Object.fromEntries(fields.map((name) => [name, []])) as unknown as Record<
    keyof CaseRow,
    number[]
  >;

  get length(): number {
    return this.columns.day.length;
  }

  add(row: CaseRow): void {
    for (const name of fields) this.columns[name].push(row[name]);
  }

  get(name: keyof CaseRow, index: number): number {
    return this.columns[name][index]!;
  }

  /** Indices of the rows by group, then day, then as they came. */
  inOrder(): Uint32Array {
    const { group, day } = this.columns;
    return Uint32Array.from({ length: this.length }, (_, i) => i).sort(
      (i, j) => group[i]! - group[j]! || day[i]! - day[j]! || i - j,
    );
  }
}
