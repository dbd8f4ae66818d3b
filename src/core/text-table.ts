/** @param texts number of left-aligned text columns; the other columns are numbers, aligned right */
export function toSection(title: string, count: number, rows: string[][], texts: number): string[] {
  const more = count - (rows.length - 1);
  return [`${title}: ${count}`, ...align(rows, texts), ...(more > 0 ? [`… and ${more} more`] : []), ''];
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
