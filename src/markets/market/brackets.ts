/** Inclusive; null means open-ended. */
export interface DegreeRange {
  lowest: number | null;
  highest: number | null;
}

export interface Payout {
  from: number;
  to: number;
}

/** From cold to warm: a ladder's brackets, or the n + 1 intervals between n thresholds, whose lowest pays nobody. */
export interface Outcomes {
  ranges: readonly DegreeRange[];
  pays: readonly Payout[];
  /** In °F. */
  step: number;
}

export const areOutcomesKnown = (brackets: readonly Bracket[]): boolean =>
  isWholeLadder(brackets) || areThresholds(brackets);

/** @param brackets of one event, for which `areOutcomesKnown` holds */
export function outcomesOf(brackets: readonly Bracket[]): Outcomes {
  const step = brackets[0]?.step ?? 1;
  const ranges = brackets.map(bracketRange);
  if (!areThresholds(brackets)) return { ranges, pays: brackets.map((_, i) => ({ from: i, to: i })), step };
  const lowest = ranges.map((range) => range.lowest!);
  const ends = lowest.toSorted((a, b) => a - b);
  const below = (end: number) => toHundredths(end - step);
  return {
    ranges: [
      { lowest: null, highest: below(ends[0]!) },
      ...ends.map((end, i) => ({ lowest: end, highest: i + 1 < ends.length ? below(ends[i + 1]!) : null })),
    ],
    pays: lowest.map((end) => ({ from: ends.indexOf(end) + 1, to: ends.length })),
    step,
  };
}

export const isPaid = ({ from, to }: Payout, outcome: number): boolean => outcome >= from && outcome <= to;

export function outcomeProbabilities({ ranges, pays }: Outcomes, ofYes: readonly number[]): number[] {
  // Includes the outcomes of all higher thresholds.
  const isNested = ranges.length > pays.length;
  if (!isNested) return [...ofYes];
  const above = Array.from({ length: ranges.length + 1 }, () => 0);
  above[0] = 1;
  pays.forEach(({ from }, i) => (above[from] = ofYes[i]!));
  return ranges.map((_, outcome) => Math.max(0, above[outcome]! - above[outcome + 1]!));
}

export const yesProbabilities = ({ pays }: Outcomes, ofOutcomes: readonly number[]): number[] =>
  pays.map(({ from, to }) => {
    let sum = 0;
    for (let outcome = from; outcome <= to; outcome++) sum += ofOutcomes[outcome]!;
    return sum;
  });

/** −1 if the temperature is in no bracket. */
export function outcomeAt(brackets: readonly Bracket[], temperatureF: number): number {
  if (areThresholds(brackets)) return brackets.filter((bracket) => bracketPays(bracket, temperatureF)).length;
  return brackets.findIndex((bracket) => bracketPays(bracket, temperatureF));
}

/**
 * `between` includes both ends. The tails are strict: `less` than 84 is 83 and below, `greater` than 91 is 92 and
 * above; in hundredths, `greater` than 89.99 is 90.00 and above.
 */
export type Bracket = (
  | { kind: 'less'; floor: null; cap: number }
  | { kind: 'between'; floor: number; cap: number }
  | { kind: 'greater'; floor: number; cap: null }
) & {
  /** °F: whole degrees for a report, hundredths for an index. Default: 1. */
  step?: 1 | 0.01;
};

export function bracketOf(floor: number | null, cap: number | null, step: 1 | 0.01 = 1): Bracket {
  const rounding = step === 1 ? {} : { step };
  if (floor === null) return { kind: 'less', floor, cap: cap!, ...rounding };
  return cap === null
    ? { kind: 'greater', floor, cap, ...rounding }
    : { kind: 'between', floor, cap, ...rounding };
}

/** Inclusive; null means open-ended. */
export function bracketRange({ kind, floor, cap, step = 1 }: Bracket): DegreeRange {
  if (kind === 'less') return { lowest: null, highest: toHundredths(cap - step) };
  if (kind === 'greater') return { lowest: toHundredths(floor + step), highest: null };
  return { lowest: floor, highest: cap };
}

const toHundredths = (value: number): number => Math.round(value * 100) / 100;

export function bracketPays(bracket: Bracket, value: number): boolean {
  if (bracket.kind === 'less') return value < bracket.cap;
  if (bracket.kind === 'greater') return value > bracket.floor;
  return value >= bracket.floor && value <= bracket.cap;
}

/** `83° or below`, `84° to 85°` or `92° or above`, as the venue writes labels. */
export function bracketLabel(bracket: Bracket): string {
  const { lowest, highest } = bracketRange(bracket);
  if (lowest === null) return `${highest}° or below`;
  return highest === null ? `${lowest}° or above` : `${lowest}° to ${highest}°`;
}

/** Covers every value exactly once. A gap or overlap means that a market was misread. */
export function isWholeLadder(brackets: readonly Bracket[]): boolean {
  const step = brackets[0]?.step ?? 1;
  if (brackets.some((bracket) => (bracket.step ?? 1) !== step)) return false;
  const ranges = brackets.map(bracketRange).sort((a, b) => (a.lowest ?? -Infinity) - (b.lowest ?? -Infinity));
  if (ranges[0]?.lowest !== null || ranges.at(-1)?.highest !== null) return false;
  return ranges.every(({ lowest, highest }, i) => {
    if (lowest !== null && highest !== null && lowest > highest) return false;
    const next = ranges[i + 1];
    return next === undefined || (highest !== null && next.lowest === toHundredths(highest + step));
  });
}

/** `90° or above`; several of them can pay. */
export const areThresholds = (brackets: readonly Bracket[]): boolean =>
  brackets.length > 0 &&
  brackets.every(({ kind }) => kind === 'greater') &&
  new Set(brackets.map(({ floor }) => floor)).size === brackets.length;

interface BracketFields {
  ticker: string;
  strikeType?: string | undefined;
  floorStrike?: number | undefined;
  capStrike?: number | undefined;
  /** `84° to 85°`. */
  label: string;
  step?: 1 | 0.01;
}

/**
 * Some markets lack strike fields (the winning markets of early 2025). The label repeats the strikes in words and the
 * ticker's suffix in numbers; two sources must agree. Undefined if the bracket is not certain.
 */
export function parseBracket(fields: BracketFields): Bracket | undefined {
  const readings = [fromStrikes(fields), fromLabel(fields)].filter((reading) => reading !== undefined);
  const [first, second] = readings;
  if (first === undefined) return undefined;
  if (second !== undefined && !isSameBracket(first, second)) return undefined;
  return agreesWithTicker(first, fields.ticker) ? first : undefined;
}

function fromStrikes({ strikeType, floorStrike: floor, capStrike: cap, step = 1 }: BracketFields) {
  const isOnStep = (value: number | undefined): value is number =>
    value !== undefined && Math.abs(value / step - Math.round(value / step)) < 1e-6;
  if (strikeType === 'less' && isOnStep(cap)) return bracketOf(null, cap, step);
  if (strikeType === 'greater' && isOnStep(floor)) return bracketOf(floor, null, step);
  if (strikeType === 'between' && isOnStep(floor) && isOnStep(cap) && floor <= cap)
    return bracketOf(floor, cap, step);
  return undefined;
}

function fromLabel({ label, step = 1 }: BracketFields): Bracket | undefined {
  const number = String.raw`(-?\d+(?:\.\d{1,2})?)`;
  const below = new RegExp(`^${number}° or below$`).exec(label);
  if (below) return bracketOf(null, toHundredths(Number(below[1]) + step), step);
  const above = new RegExp(`^${number}° or above$`).exec(label);
  if (above) return bracketOf(toHundredths(Number(above[1]) - step), null, step);
  const between = new RegExp(`^${number}° to ${number}°$`).exec(label);
  if (between && Number(between[1]) <= Number(between[2]))
    return bracketOf(Number(between[1]), Number(between[2]), step);
  return undefined;
}

/** `-T84` is the strike of a tail, `-B84.5` the midpoint of a bracket. */
function agreesWithTicker(bracket: Bracket, ticker: string): boolean {
  const [, letter, digits] = /-([TB])(-?\d+(?:\.\d+)?)$/.exec(ticker) ?? [];
  const strike = Number(digits);
  if (letter === 'T')
    return strike === (bracket.kind === 'less' ? bracket.cap : bracket.floor) && bracket.kind !== 'between';
  return letter === 'B' && bracket.kind === 'between' && strike === (bracket.floor + bracket.cap) / 2;
}

export const isSameBracket = (a: Bracket, b: Bracket): boolean =>
  a.kind === b.kind && a.floor === b.floor && a.cap === b.cap;
