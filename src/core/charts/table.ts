/** The numbers behind a picture, as text. The first column heads its row. */
export interface ChartTable {
  caption: string;
  columns: readonly string[];
  rows: readonly (readonly string[])[];
}
