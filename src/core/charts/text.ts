/** The first column holds the row headers. */
export interface ChartTable {
  caption: string;
  columns: readonly string[];
  rows: readonly (readonly string[])[];
  /** Where the rows' headers lead. */
  hrefs?: readonly (string | undefined)[];
}

/** Formats with a fixed number of decimals and a true minus sign, like `−0.042`. Never returns `−0`. */
export function formatFixed(value: number, decimals: number): string {
  const text = Math.abs(value).toFixed(decimals);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** Formats a difference: `+0.042`, `−0.042`, `0.000`. */
export const formatSigned = (value: number, decimals: number): string =>
  `${value > 0 && Number(value.toFixed(decimals)) !== 0 ? '+' : ''}${formatFixed(value, decimals)}`;

export const formatPercent = (share: number, decimals = 1) => `${formatFixed(share * 100, decimals)}%`;

/** `0.25`, `2`. */
export const formatTick = (value: number): string => String(Number(value.toPrecision(6))).replace('-', '−');

/** `p = 0.03`, `p < 0.001`. */
export const formatChance = (p: number): string =>
  p < 0.001 ? 'p\u00a0<\u00a00.001' : `p\u00a0=\u00a0${p.toFixed(p < 0.01 ? 3 : 2)}`;

export const toPercent = (share: number): string => `${Number((share * 100).toFixed(3))}%`;

export const toPixels = (value: number): string => String(Number(value.toFixed(1)));

export type Anchor = 'start' | 'middle' | 'end';

export const anchorOf = (index: number, count: number): Anchor =>
  index === 0 ? 'start' : index === count - 1 ? 'end' : 'middle';
