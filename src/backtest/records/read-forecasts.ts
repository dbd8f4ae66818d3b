import { CsvError, parse } from 'csv-parse';
import { z } from 'zod';
import type { DayEnsemble } from '../../trading/forecast/forecast.js';
import { findStation } from '../../trading/market/stations.js';
import { readBytes, RecordError } from './read-events.js';

const time = z.iso.datetime({ offset: true });
const rowSchema = z.looseObject({
  station: z.string().refine((id) => findStation(id) !== undefined, 'no station is known by this id'),
  date: z.iso.date(),
  model_run_at: time,
  fetched_at: time,
});

/**
 * Reads runs of ensembles: a CSV with the columns `station`, `date`, `model_run_at` and `fetched_at`, and one for each member
 * in °F whose name begins with `member`; plain or gzipped. A run whose members are not all there is left out.
 * @throws RecordError with line and column
 */
export async function readForecasts(file: string): Promise<DayEnsemble[]> {
  const rows = parse(await readBytes(file), { columns: true, bom: true, trim: true, info: true });
  const runs: DayEnsemble[] = [];
  try {
    for await (const row of rows as AsyncIterable<{ record: unknown; info: { lines: number } }>)
      runs.push(...toRun(row.record, `${file}, line ${row.info.lines}`));
  } catch (error) {
    if (error instanceof CsvError) throw new RecordError(`${file}: ${error.message}`);
    throw error;
  }
  return runs;
}

function toRun(record: unknown, place: string): DayEnsemble[] {
  const parsed = rowSchema.safeParse(record);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new RecordError(`${place}, column ${String(issue!.path[0])}: ${issue!.message}`);
  }
  const { station, date, model_run_at, fetched_at, ...rest } = parsed.data;
  const members = Object.entries(rest).filter(([name]) => name.startsWith('member'));
  if (members.length === 0) throw new RecordError(`${place}: no column whose name begins with “member”`);
  if (members.some(([, value]) => value === '')) return [];
  const membersF = members.map(([name, value]) => {
    const temperatureF = Number(value);
    if (!Number.isFinite(temperatureF)) throw new RecordError(`${place}, column ${name}: not a number`);
    return temperatureF;
  });
  return [
    {
      kind: 'daily_maximum',
      stationId: station,
      date,
      modelRunAt: new Date(model_run_at),
      fetchedAt: new Date(fetched_at),
      membersF,
    },
  ];
}
