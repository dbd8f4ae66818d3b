import { isPossible } from '../../trading/forecast/forecast.js';
import { CommandError } from '../kit/command.js';
import { nameOf, type Input } from '../kit/input.js';
import { findColumn, missingTest, parseNumber, quote, readCsv } from './read-cases.js';
import { parseDay } from './training.js';

/** A day of a station, hour by hour from midnight by the local standard clock. */
export interface HourlyDay {
  stationId: string;
  day: number;
  observedF: readonly number[];
  curveF: readonly number[];
}

export interface HourlyFile {
  /** In the order of days. */
  days: HourlyDay[];
  rows: number;
  /** Rows with a field that is empty, and the first of them. */
  incomplete: { count: number; line: number; column: string } | null;
}

const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'));

interface HourlyColumns {
  station: number;
  date: number;
  observed: number[];
  curve: number[];
}

/**
 * Reads the columns station, date, o00 to o23 (observed) and f00 to f23 (forecast), in any order among others.
 * @throws CommandError that names line and column for what cannot be read
 */
export async function readHourly(input: Input, file: string, onRow: () => void): Promise<HourlyFile> {
  let columns: HourlyColumns | undefined;
  let header: string[] = [];
  const found: HourlyFile = { days: [], rows: 0, incomplete: null };
  const seen = new Map<string, number>();
  const isMissing = missingTest([]);

  function read(record: string[], line: number, { station, date, observed, curve }: HourlyColumns): void {
    const wrong = (column: number, why: string) =>
      new CommandError(`${nameOf(file)}, line ${line}, column ${quote(header[column]!)}: ${why}`);
    found.rows++;
    if (record.length !== header.length)
      throw new CommandError(
        `${nameOf(file)}, line ${line}: ${record.length} fields, and the header has ${header.length}${
          record.length < header.length ? `: column ${quote(header[record.length]!)} is missing` : ''
        }.`,
      );
    const gap = [station, date, ...observed, ...curve].find((index) => isMissing(record[index]!));
    if (gap !== undefined) {
      found.incomplete ??= { count: 0, line, column: header[gap]! };
      found.incomplete.count++;
      return;
    }
    const day = parseDay(record[date]!);
    if (day === undefined) throw wrong(date, `${quote(record[date]!)} is no date such as 2016-07-01.`);
    const temperature = (index: number): number => {
      const value = parseNumber(record[index]!);
      if (value === undefined) throw wrong(index, `${quote(record[index]!)} is no number.`);
      if (!isPossible(value)) throw wrong(index, `${value} is no temperature in °F.`);
      return value;
    };
    const key = `${day} ${record[station]!}`;
    const before = seen.get(key);
    if (before !== undefined)
      throw wrong(date, `${record[date]!} of ${quote(record[station]!)} is in line ${before} already.`);
    seen.set(key, line);
    found.days.push({
      stationId: record[station]!,
      day,
      observedF: observed.map(temperature),
      curveF: curve.map(temperature),
    });
  }

  await readCsv(input, file, {}, (record, line) => {
    if (columns) read(record, line, columns);
    else {
      header = record;
      columns = findHourlyColumns(header, nameOf(file));
    }
    onRow();
  });
  if (!columns) throw new CommandError(`${nameOf(file)} is empty.`);
  if (found.days.length === 0) throw new CommandError(`${nameOf(file)}: no row can be used.`);
  found.days.sort((a, b) => a.day - b.day);
  return found;
}

function findHourlyColumns(header: readonly string[], name: string): HourlyColumns {
  const hint = '--hourly reads station, date, o00 to o23 and f00 to f23.';
  const find = (column: string) => findColumn(header, column, `${name}, line 1`, hint);
  return {
    station: find('station'),
    date: find('date'),
    observed: HOURS.map((hour) => find(`o${hour}`)),
    curve: HOURS.map((hour) => find(`f${hour}`)),
  };
}
