/** A temperature over the year, °F: its mean, and how far the warmest and the coldest time are from it. */
interface Yearly {
  mean: number;
  swing: number;
}

/** What days at a station are like. */
export interface StationClimate {
  maximum: Yearly;
  minimum: Yearly;
  /** °F: the deviation of a day's maximum from that of the season. */
  spread: number;
}

type Row = [
  id: string,
  maximum: [mean: number, swing: number],
  minimum: [mean: number, swing: number],
  spread: number,
];

/** General climatology: monthly means of some decades as almanacs have them, rounded to whole degrees. */
// prettier-ignore
const rows: readonly Row[] = [
  ['KNYC', [63, 22], [49, 21], 7],
  ['KMDW', [60, 26], [44, 25], 9],
  ['KMIA', [84, 7], [71, 8], 3],
  ['KAUS', [81, 17], [57, 18], 7],
  ['KDEN', [65, 23], [38, 21], 10],
  ['KLAX', [72, 6], [57, 8], 5],
  ['KPHL', [65, 22], [48, 21], 7],
  ['KSFO', [66, 7], [51, 6], 5],
  ['KPHX', [87, 19], [65, 19], 5],
  ['KSEA', [61, 15], [46, 10], 6],
  ['KATL', [73, 18], [54, 18], 7],
  ['KBOS', [59, 22], [45, 22], 8],
  ['KDFW', [77, 20], [57, 20], 8],
  ['KDCA', [67, 22], [51, 21], 8],
  ['KLAS', [81, 23], [60, 21], 6],
  ['KHOU', [79, 14], [62, 15], 6],
  ['KMSP', [55, 30], [38, 28], 9],
  ['KOKC', [72, 22], [50, 21], 10],
  ['KMSY', [78, 14], [62, 15], 6],
  ['KSAT', [80, 17], [59, 17], 7],
  ['KSAN', [71, 6], [58, 9], 4],
  ['KTTN', [63, 23], [46, 21], 8],
  ['KEWR', [64, 23], [48, 22], 8],
  ['KSDF', [67, 22], [49, 21], 9],
];

const climates = new Map(
  rows.map(([id, [mean, swing], [coldMean, coldSwing], spread]): [string, StationClimate] => [
    id,
    { maximum: { mean, swing }, minimum: { mean: coldMean, swing: coldSwing }, spread },
  ]),
);

/** @throws Error for a station that has no climate: one was added to the table of stations and not here */
export function climateOf(stationId: string): StationClimate {
  const climate = climates.get(stationId);
  if (!climate) throw new Error(`${stationId} has no climate in the invented world`);
  return climate;
}

/** What is usual at that time of the year, °F: warmest at the end of July. */
export const usualF = ({ mean, swing }: Yearly, date: string): number => mean - swing * seasonOf(date);

/** −1 at the end of July, 1 at the end of January. */
export function seasonOf(date: string): number {
  const dayOfYear =
    (Date.parse(`${date}T00:00:00Z`) - Date.UTC(Number(date.slice(0, 4)), 0, 1)) / (24 * 60 * 60 * 1000);
  return Math.cos(((dayOfYear - 22) / 365.25) * 2 * Math.PI);
}
