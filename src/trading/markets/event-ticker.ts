const months = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];

/** `KXHIGHNY-25JAN16` is the series KXHIGHNY and the day 2025-01-16. Undefined for what names no series and day. */
export function readEventTicker(ticker: string): { seriesTicker: string; date: string } | undefined {
  const [, seriesTicker, year, name, day] = /^([A-Z]+)-(\d\d)([A-Z]{3})(\d\d)$/.exec(ticker) ?? [];
  const month = months.indexOf(name ?? '') + 1;
  if (seriesTicker === undefined || month === 0) return undefined;
  const date = `20${year}-${String(month).padStart(2, '0')}-${day}`;
  const midnight = new Date(`${date}T00:00:00Z`);
  // The 31st of a month that has 30 days is no day, and neither is the 99th.
  const isDay = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(date);
  return isDay ? { seriesTicker, date } : undefined;
}

export function writeEventTicker(seriesTicker: string, date: string): string {
  const [year = '', month, day] = date.split('-');
  return `${seriesTicker}-${year.slice(2)}${months[Number(month) - 1]}${day}`;
}
