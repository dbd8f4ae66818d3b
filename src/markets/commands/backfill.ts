import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { pino, type Logger } from 'pino';
import { readConfig } from '../../config.js';
import { systemClock } from '../../core/time.js';
import type { MaintenanceDatabase } from '../../core/db/maintenance.js';
import { formatCount } from '../../core/pages/format.js';
import { printable } from '../../core/terminal.js';
import { createArchive, type Archive } from '../training/forecast-archive.js';
import { createTrainer } from '../training/trainer.js';
import type { DateRange } from '../training/coverage.js';
import type { FitBook } from '../learning/fits.js';
import { readVenueKey } from '../live/sign.js';
import type { TemperatureKind } from '../market/market.js';
import { stations as allStations, type Station } from '../market/stations.js';
import { createSources } from '../services/sources.js';
import { createVenueBudget } from '../venue/venue-budget.js';
import {
  backfill,
  DEFAULT_DAYS,
  MAX_DAYS,
  readRange,
  type BackfillResult,
  type RangeFlags,
} from './backfill-archive.js';
import { listenForInterrupt } from '../../commands/kit/command.js';
import { runMaintenance } from '../../commands/kit/maintenance.js';
import { createProgress } from '../../commands/kit/progress.js';
import { daysBetween } from '../market/climate-day.js';
import { createCalibrationStore } from '../snapshot/snapshot.js';

const help = `
Forecasts are corrected by how earlier ones came out. The service keeps what it sees while it runs; this asks the configured
sources for the days before that: what was forecast of them in time (never what was computed afterwards), and the
temperatures that their markets were settled by. What is there already is neither asked for again nor changed. At the end
it fits the corrections to what there is then; a service that runs takes them up within the hour.

It may be stopped at any time: Ctrl-C lets the present question finish, and the next run goes on from there. A service that
is busy is waited for as long as it asks. It may run while the service does. The embedded database has room for one
process, so stop the service first there.

Open-Meteo's free service is for non-commercial use: 90 days count as about 100 of its 10,000 calls a day. Commercial use needs a
subscription, with its key in OPEN_METEO_API_KEY.

Environment: as for the service (MARKET_SOURCE, FORECAST_SOURCE, DATABASE_URL or DATA_DIR, …).

Exit status: 0 everything was asked for, 2 something could not be, 130 it was interrupted.`;

interface Names {
  forecastSource: string;
  marketSource: string;
}

async function work(db: MaintenanceDatabase, flags: RangeFlags): Promise<number> {
  const config = readConfig(process.env).trading;
  const { series } = config.kalshi;
  const stations = allStations.filter((station) => series?.includes(station.series.maximum) ?? true);
  const range = readRange(flags, stations, systemClock.now());
  const progress = createProgress(process.stderr, 0);
  const note = (text: string) => progress.note(`backfill: ${printable(text)}`);
  const log = createNoteLog(note);
  const key = readVenueKey(config.kalshi, log);
  const { markets, weather } = createSources({
    config,
    key,
    budget: createVenueBudget(),
    clock: systemClock,
    log,
  });
  const names: Names = { forecastSource: weather.name, marketSource: markets.name };
  const stop = listenForInterrupt();
  const archive = createArchive({ db, ...names, furtherModels: weather.furtherModels });
  const result = await backfill({
    orm: db.orm,
    archive,
    weather,
    markets,
    stations,
    range,
    pauses: {
      sleep: (ms, signal) => sleep(ms, undefined, { signal }),
      random: Math.random,
      note,
    },
    onDays: (done, all, what) => progress.show(done / all, `${done} of ${formatCount(all, 'day')} · ${what}`),
    stop,
  }).finally(() => progress.stop());
  console.log(backfillText(result, range, names));
  const fits = await learn(db, archive, names, log);
  console.log(fitsText(fits, stations));
  for (const problem of result.problems) console.error(`backfill: ${printable(problem)}`);
  if (result.isInterrupted) {
    console.error('backfill: interrupted. Run it again to continue: what is there is not asked for again.');
    return 130;
  }
  return result.problems.length > 0 ? 2 : 0;
}

function backfillText(
  { newRuns, newReports, coverage }: BackfillResult,
  { from, to }: DateRange,
  { forecastSource, marketSource }: Names,
): string {
  const days = daysBetween(from, to).length;
  const lines = coverage.stations.map(
    ({ kind, station, forecastDays, runs, reports }) =>
      `  ${station.id}${kindNames[kind]}  forecasts of ${formatCount(forecastDays, 'day')} (${formatCount(runs, 'run')}), reports of ${formatCount(reports, 'day')}`,
  );
  return [
    `New: ${formatCount(newRuns, 'run')}, ${formatCount(newReports, 'report')}.`,
    `Of the ${formatCount(days, 'day')} from ${from} to ${to} there are now, forecasts from ${forecastSource} and reports from ${marketSource}:`,
    ...lines,
  ].join('\n');
}

const kindNames: Record<TemperatureKind, string> = {
  daily_maximum: '',
  daily_minimum: ' minima',
  hourly: '',
};

function fitsText({ fits }: FitBook, stations: readonly Station[]): string {
  const own = stations.filter(({ id }) => fits.some(({ stationId }) => stationId === id)).length;
  const pooled = fits.some(({ stationId }) => stationId === null);
  const ways = [
    ...(pooled ? ['what all stations have in common'] : []),
    ...(own > 0
      ? [`the seasons of their own past at ${own} of ${formatCount(stations.length, 'station')}`]
      : []),
  ];
  if (ways.length === 0)
    return 'It is not enough to correct forecasts by yet: they stay as the model makes them.';
  return `Forecasts are corrected by ${ways.join(', and by ')}.`;
}

/** Trains on the archive and stores the fits; a running service picks them up within the hour. */
async function learn(
  db: MaintenanceDatabase,
  archive: Archive,
  sources: Names,
  log: Logger,
): Promise<FitBook> {
  const calibration = createCalibrationStore();
  const store = { current: undefined };
  const trainer = createTrainer({ db, archive, sources, store, calibration, clock: systemClock, log });
  await trainer.load();
  await trainer.learn();
  return calibration.current.fits;
}

const createNoteLog = (note: (text: string) => void): Logger =>
  pino(
    { level: 'warn', base: null },
    {
      write(line) {
        const { msg, err } = JSON.parse(line) as { msg: string; err?: { message?: string } };
        note(err?.message === undefined ? msg : `${msg}: ${err.message}`);
      },
    },
  );

await runMaintenance<RangeFlags>({
  command: new Command('backfill')
    .description('Fills the past with what was forecast and how it came out, from the configured sources.')
    .option('--days <n>', `the number of days, up to ${MAX_DAYS} (default: ${DEFAULT_DAYS})`)
    .option('--from <date>', 'the first day, YYYY-MM-DD')
    .option('--to <date>', 'the last day (default: the last one that is over)')
    .addHelpText('after', help),
  work,
});
