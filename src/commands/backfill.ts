import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { systemClock } from '../core/clock.js';
import { readConfig } from '../config.js';
import { runMaintenance } from '../tools/maintenance-command.js';
import type { MaintenanceDatabase } from '../core/db/maintenance.js';
import { printable } from '../send/numbers.js';
import { backfill } from '../trading/backfill/backfill.js';
import { createBackfillDisplay } from '../trading/backfill/display.js';
import { createNoteLog } from '../trading/backfill/note-log.js';
import {
  DEFAULT_DAYS,
  MAX_DAYS,
  DateRangeError,
  readRange,
  type RangeFlags,
} from '../trading/backfill/range.js';
import { learn } from '../trading/backfill/learn.js';
import { backfillText, fitsText } from '../trading/backfill/report.js';
import { createArchive } from '../trading/archive/archive.js';
import { readVenueKey } from '../trading/live/sign.js';
import { createVenueBudget } from '../trading/venue/venue-budget.js';
import { stations as allStations } from '../trading/market/stations.js';
import { createSources } from '../trading/services/sources.js';

const help = `
Forecasts are corrected by how earlier ones came out. The service keeps what it sees while it runs; this asks the configured
sources for the days before that: what was forecast of them in time (never what was computed afterwards), and the
temperatures that their markets were settled by. What is there already is neither asked for again nor changed. At the end
it fits the corrections to what there is then; a service that runs takes them up within the hour.

It may be stopped at any time: Ctrl-C lets the present question finish, and the next run goes on from there. A service that
is busy is waited for as long as it asks. It may run while the service does. The embedded database has room for one
process, so stop the service first there.

Free of charge with Open-Meteo for non-commercial use: 90 days count as about 100 of the 10,000 calls a day.

Environment: as for the service (MARKET_SOURCE, FORECAST_SOURCE, DATABASE_URL or DATA_DIR, …).

Exit status: 0 everything was asked for, 2 something could not be, 130 it was interrupted.`;

/** The first signal lets the present question finish; the second ends at once. */
function listenForStop(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(130);
      stop.abort();
    });
  }
  return stop.signal;
}

async function work(db: MaintenanceDatabase, flags: RangeFlags): Promise<number> {
  const config = readConfig(process.env).trading;
  const { series } = config.kalshi;
  const stations = allStations.filter((station) => series?.includes(station.series.maximum) ?? true);
  const range = readRange(flags, stations, systemClock.now());
  const display = createBackfillDisplay(process.stderr);
  const note = (text: string) => display.note(`backfill: ${printable(text)}`);
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
  const stop = listenForStop();
  const archive = createArchive({ db, ...names });
  const result = await backfill({
    orm: db.orm,
    archive,
    weather,
    markets,
    stations,
    range,
    patience: {
      sleep: (ms, signal) => sleep(ms, undefined, { signal }),
      random: Math.random,
      note,
    },
    progress: display,
    stop,
  }).finally(() => display.stop());
  console.log(backfillText(result, range, names));
  const fits = await learn({ orm: db.orm, archive, sources: names, clock: systemClock, log });
  console.log(fitsText(fits, stations));
  for (const problem of result.problems) console.error(`backfill: ${printable(problem)}`);
  if (result.isInterrupted) {
    console.error('backfill: interrupted. Run it again to go on: what is there is not asked for again.');
    return 130;
  }
  return result.problems.length > 0 ? 2 : 0;
}

await runMaintenance<RangeFlags>({
  command: new Command('backfill')
    .description('Fills the past with what was forecast and how it came out, from the configured sources.')
    .option('--days <n>', `so many days, up to ${MAX_DAYS} (default: ${DEFAULT_DAYS})`)
    .option('--from <date>', 'the first day, YYYY-MM-DD')
    .option('--to <date>', 'the last day (default: the last one that is over)')
    .addHelpText('after', help),
  work,
  explain: (error) => (error instanceof DateRangeError ? error.message : undefined),
});
