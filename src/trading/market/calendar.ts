const DAY_MS = 24 * 60 * 60 * 1000;

/** The days from one to another, both included: `YYYY-MM-DD`. None if the last is before the first. */
export function daysBetween(from: string, to: string): string[] {
  const [first, last] = [Date.parse(from), Date.parse(to)];
  const count = Math.max(0, Math.round((last - first) / DAY_MS) + 1);
  return Array.from({ length: count }, (_, i) => addDays(from, i));
}

export const addDays = (date: string, days: number): string =>
  new Date(Date.parse(date) + days * DAY_MS).toISOString().slice(0, 10);
