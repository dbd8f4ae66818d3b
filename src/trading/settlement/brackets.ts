/**
 * What a market pays for, in whole degrees of the report. `between` includes both of its ends; the tails are strict:
 * `less` than 84 is 83 and below, `greater` than 91 is 92 and above.
 */
export type Bracket =
  | { kind: 'less'; floor: null; cap: number }
  | { kind: 'between'; floor: number; cap: number }
  | { kind: 'greater'; floor: number; cap: null };

/** The whole degrees that pay, both ends included; null where there is none. */
export function bracketRange(bracket: Bracket): { lowest: number | null; highest: number | null } {
  if (bracket.kind === 'less') return { lowest: null, highest: bracket.cap - 1 };
  if (bracket.kind === 'greater') return { lowest: bracket.floor + 1, highest: null };
  return { lowest: bracket.floor, highest: bracket.cap };
}

/** True if a day with this highest temperature, in whole degrees, pays the bracket's YES. */
export function bracketPays(bracket: Bracket, wholeDegrees: number): boolean {
  if (bracket.kind === 'less') return wholeDegrees < bracket.cap;
  if (bracket.kind === 'greater') return wholeDegrees > bracket.floor;
  return wholeDegrees >= bracket.floor && wholeDegrees <= bracket.cap;
}

/** `83° or below`, `84° to 85°`, `92° or above`, as the venue writes it. */
export function bracketLabel(bracket: Bracket): string {
  const { lowest, highest } = bracketRange(bracket);
  if (lowest === null) return `${highest}° or below`;
  return highest === null ? `${lowest}° or above` : `${lowest}° to ${highest}°`;
}

/**
 * True if the brackets cover every whole degree exactly once, in some order: one of them wins, whatever the day brings.
 * A ladder with a hole or an overlap is not what the venue offers, so something was misread.
 */
export function isWholeLadder(brackets: readonly Bracket[]): boolean {
  const ranges = brackets.map(bracketRange).sort((a, b) => (a.lowest ?? -Infinity) - (b.lowest ?? -Infinity));
  if (ranges[0]?.lowest !== null || ranges.at(-1)?.highest !== null) return false;
  return ranges.every(({ lowest, highest }, i) => {
    if (lowest !== null && highest !== null && lowest > highest) return false;
    const next = ranges[i + 1];
    return next === undefined || (highest !== null && next.lowest === highest + 1);
  });
}

/** What the venue's market says about its bracket. Fields may be missing: see `parseBracket`. */
export interface BracketFields {
  ticker: string;
  strikeType?: string | undefined;
  floorStrike?: number | undefined;
  capStrike?: number | undefined;
  /** `84° to 85°`. */
  label: string;
}

/**
 * The bracket of a market, or undefined if that cannot be told for certain.
 *
 * The strike fields say it, but some markets have lost theirs (winners of early 2025). The label says the same in words
 * and the end of the ticker repeats it in numbers, so each is checked against the others, and two must agree.
 */
export function parseBracket(fields: BracketFields): Bracket | undefined {
  const readings = [fromStrikes(fields), fromLabel(fields.label)].filter((reading) => reading !== undefined);
  const [first, second] = readings;
  if (first === undefined) return undefined;
  if (second !== undefined && !isSame(first, second)) return undefined;
  return agreesWithTicker(first, fields.ticker) ? first : undefined;
}

function fromStrikes({ strikeType, floorStrike: floor, capStrike: cap }: BracketFields): Bracket | undefined {
  if (strikeType === 'less' && isWhole(cap)) return { kind: 'less', floor: null, cap };
  if (strikeType === 'greater' && isWhole(floor)) return { kind: 'greater', floor, cap: null };
  if (strikeType === 'between' && isWhole(floor) && isWhole(cap) && floor <= cap)
    return { kind: 'between', floor, cap };
  return undefined;
}

function fromLabel(label: string): Bracket | undefined {
  const below = /^(-?\d+)° or below$/.exec(label);
  if (below) return { kind: 'less', floor: null, cap: Number(below[1]) + 1 };
  const above = /^(-?\d+)° or above$/.exec(label);
  if (above) return { kind: 'greater', floor: Number(above[1]) - 1, cap: null };
  const between = /^(-?\d+)° to (-?\d+)°$/.exec(label);
  if (between && Number(between[1]) <= Number(between[2]))
    return { kind: 'between', floor: Number(between[1]), cap: Number(between[2]) };
  return undefined;
}

/** `-T84` holds the strike of a tail, `-B84.5` the middle of a bracket. */
function agreesWithTicker(bracket: Bracket, ticker: string): boolean {
  const [, letter, digits] = /-([TB])(-?\d+(?:\.\d+)?)$/.exec(ticker) ?? [];
  const strike = Number(digits);
  if (letter === 'T')
    return strike === (bracket.kind === 'less' ? bracket.cap : bracket.floor) && bracket.kind !== 'between';
  return letter === 'B' && bracket.kind === 'between' && strike === (bracket.floor + bracket.cap) / 2;
}

const isWhole = (value: number | undefined): value is number => Number.isInteger(value);

const isSame = (a: Bracket, b: Bracket): boolean =>
  a.kind === b.kind && a.floor === b.floor && a.cap === b.cap;
