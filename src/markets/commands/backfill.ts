import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { pino, type Logger } from 'pino';
import { readConfig } from '../../config.js';
import { systemClock } from '../../core/time.js';
import type { MaintenanceDatabase } from '../../core/db/maintenance.js';
import { formatCount } from '../../core/pages/format.js';
import { printable } from '../../core/terminal.js';
import { createArchive, type Archive } from '../training/forecast-archive.js';
import { noNews } from '../training/news.js';
import { createTrainer } from '../training/trainer.js';
import type { DateRange } from '../training/coverage.js';
import type { FitBook } from '../learning/fits.js';
import type { SourceNames } from '../learning/queries.js';
import { readVenueKey } from '../live/sign.js';
import { stations as allStations, type Station } from '../market/stations.js';
import { createSources } from '../services/sources.js';
import { createVenueBudget } from '../venue/venue-budget.js';
import { backfill, DEFAULT_DAYS, MAX_DAYS, readRange, type RangeFlags } from './backfill-archive.js';
import { listenForInterrupt } from '../../commands/kit/command.js';
import { runMaintenance } from '../../commands/kit/maintenance.js';
import { createProgress } from '../../commands/kit/progress.js';
import { daysBetween } from '../market/climate-day.js';
import { createCalibrationStore } from '../snapshot/snapshot.js';

const help = `
Forecasts are corrected by the errors of earlier ones. The service keeps the data that it sees while it runs; this command
requests earlier days from the configured sources: the forecasts as they were made at the time (never computed afterwards),
and the temperatures on which the markets settled. Existing data is neither requested again nor changed. At the end the
corrections are fitted to all data; a running service uses them within the hour.

You can stop it at any time: after Ctrl-C the current request finishes, and the next run resumes there. If a source is busy,
the command waits as long as the source asks. The service may keep running, except on the embedded database, which only one
process can open.

Past bulletins of stations take one request for each station and month, 4 seconds apart: 7 minutes for 90 days. A service that
throttles ends them until the next run. STATION_FORECASTS=off leaves them out.

Open-Meteo's free service is for non-commercial use: 90 days count as about 100 of its 10,000 calls a day. Commercial use needs a
subscription, with its key in OPEN_METEO_API_KEY.

Environment: as for the service (MARKET_SOURCE, FORECAST_SOURCE, DATABASE_URL or DATA_DIR, …).

Exit status: 0 all days requested, 2 some requests failed, 130 interrupted.`;

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
  const names = { forecastSource: weather.name, marketSource: markets.name };
  const stop = listenForInterrupt();
  const archive = createArchive({ db, ...names, furtherModels: weather.furtherModels });
  const result = await backfill({
    orm: db.orm,
    archive,
    weather,
    markets,
    stations,
    range,
    pauses: { sleep: (ms, signal) => sleep(ms, undefined, { signal }), random: Math.random, note },
    onDays: (done, all, what) => progress.show(done / all, `${done} of ${formatCount(all, 'day')} · ${what}`),
    stop,
  }).finally(() => progress.stop());
  console.log(backfillText(result, range, names));
  const fits = await learn(db, archive, names, log);
  console.log(fitsText(fits, stations));
  for (const problem of result.problems) console.error(`backfill: ${printable(problem)}`);
  if (result.isInterrupted) {
    console.error('backfill: interrupted. Run it again to continue; stored days are not requested again.');
    return 130;
  }
  return result.problems.length > 0 ? 2 : 0;
}

function backfillText(
  { newRuns, newReports, coverage }: Awaited<ReturnType<typeof backfill>>,
  { from, to }: DateRange,
  { forecastSource, marketSource }: SourceNames,
): string {
  const days = daysBetween(from, to).length;
  const lines = coverage.stations.map(
    ({ kind, station, forecastDays, runs, reports }) =>
      `  ${station.id}${kind === 'daily_minimum' ? ' minima' : ''}  forecasts for ${formatCount(forecastDays, 'day')} (${formatCount(runs, 'run')}), reports for ${formatCount(reports, 'day')}`,
  );
  return [
    `New: ${formatCount(newRuns, 'run')}, ${formatCount(newReports, 'report')}.`,
    `Stored for the ${formatCount(days, 'day')} from ${from} to ${to}, with forecasts from ${forecastSource} and reports from ${marketSource}:`,
    ...lines,
  ].join('\n');
}

function fitsText({ fits }: FitBook, stations: readonly Station[]): string {
  const own = stations.filter(({ id }) => fits.some(({ stationId }) => stationId === id)).length;
  const pooled = fits.some(({ stationId }) => stationId === null);
  const ways = [
    ...(pooled ? ['errors that all stations share'] : []),
    ...(own > 0
      ? [`seasonal errors of their own at ${own} of ${formatCount(stations.length, 'station')}`]
      : []),
  ];
  if (ways.length === 0)
    return 'There is too little data to correct forecasts yet: they stay as the model makes them.';
  return `Forecasts are corrected for ${ways.join(' and for ')}.`;
}

/** A running service picks up the fits within the hour. */
async function learn(db: MaintenanceDatabase, archive: Archive, sources: SourceNames, log: Logger) {
  const calibration = createCalibrationStore();
  const trainer = createTrainer({ db, archive, sources, calibration, clock: systemClock, log });
  await trainer.load();
  await trainer.learn(noNews);
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
    .description('Fetches past forecasts and settled temperatures from the configured sources.')
    .option('--days <n>', `number of days, up to ${MAX_DAYS} (default: ${DEFAULT_DAYS})`)
    .option('--from <date>', 'first day, YYYY-MM-DD')
    .option('--to <date>', 'last day (default: the last completed day)')
    .addHelpText('after', help),
  work,
});
