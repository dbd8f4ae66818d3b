const SHOWN_ROWS = 100;

/** Each is a field's name, or reads its cell. */
type Columns<Row> = Record<string, keyof Row | ((row: Row) => string)>;

export const modeOf = ({ livemode }: { livemode: boolean }): string => (livemode ? 'live' : 'test');

/**
 * Numbers follow the texts and are aligned right. Empty without rows.
 * @param rows each has the number of all rows
 */
export function toTable<Row extends { count: number }>(
  title: string,
  rows: readonly Row[],
  { texts, numbers = {} }: { texts: Columns<Row>; numbers?: Columns<Row> },
): string[] {
  const [first] = rows;
  if (!first) return [];
  const columns = Object.entries({ ...texts, ...numbers });
  const shown = rows.slice(0, SHOWN_ROWS);
  const cells = [
    columns.map(([name]) => name),
    ...shown.map((row) =>
      columns.map(([, cell]) => (typeof cell === 'function' ? cell(row) : String(row[cell]))),
    ),
  ];
  const more = first.count - shown.length;
  return [
    `${title}: ${first.count}`,
    ...align(cells, Object.keys(texts).length),
    ...(more > 0 ? [`… and ${more} more`] : []),
    '',
  ];
}

function align(rows: string[][], texts: number): string[] {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    row
      .map((cell, column) => (column < texts ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd(),
  );
}
