import { encode } from 'uqr';

export interface QrCode {
  /** Modules on each side, the quiet zone of 4 included (ISO/IEC 18004, 5.3.8). */
  size: number;
  /** The dark modules as the data of an SVG path, one unit a module. */
  path: string;
}

/** A QR code to be drawn by a page. */
export function toQrCode(text: string): QrCode {
  const { size, data } = encode(text, { ecc: 'M', border: 4 });
  const path = data.flatMap((row, y) =>
    runsOf(row).map(([x, length]) => `M${x} ${y}h${length}v1h-${length}z`),
  );
  return { size, path: path.join('') };
}

/** Where dark modules stand side by side: they are drawn as one, so that no hairline shows between them. */
function runsOf(row: boolean[]): [start: number, length: number][] {
  const runs: [number, number][] = [];
  for (const [x, isDark] of row.entries()) {
    if (!isDark) continue;
    const last = runs.at(-1);
    if (last && last[0] + last[1] === x) last[1]++;
    else runs.push([x, 1]);
  }
  return runs;
}
