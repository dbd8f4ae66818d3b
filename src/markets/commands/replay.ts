import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { pino } from 'pino';
import { readConfig, type Config } from '../../config.js';
import { createLogger, createPlainLog } from '../../core/log/log.js';
import { CannotListenError, startService } from '../../service.js';
import { openTapePlayer, type TapePlayer } from '../tape/player.js';
import { TapeError } from '../tape/reader.js';
import { listenForInterrupt, messageOf, openTerminal, runCommand } from '../../commands/kit/command.js';

interface Flags {
  speed: number;
  from?: Date;
}

const command = new Command('replay')
  .description(
    `Serves a tape of TAPE_FILE again: the same markets, forecasts and signals at the same times of the tape's day, byte by byte.

The service is a separate demo with a temporary database. You can try paper orders; other data stays untouched, and no
venue or weather service is contacted. The environment sets PORT, HOST and LOG_LEVEL.`,
  )
  .argument('<file>', 'the tape')
  .option('--speed <factor>', 'seconds of the tape per second, 0.01 to 1000', readSpeed, 1)
  .option('--from <time>', 'start at this time of the tape, such as 2026-11-21T14:00:00Z', readTime);

function readSpeed(given: string): number {
  const speed = Number(given);
  if (!/^\d*\.?\d+$/.test(given) || speed < 0.01 || speed > 1000)
    throw new InvalidArgumentError('It must be a number from 0.01 to 1000.');
  return speed;
}

function readTime(given: string): Date {
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(given);
  const time = new Date(given);
  if (!isTime || Number.isNaN(time.getTime()))
    throw new InvalidArgumentError('It must be a time with an offset, like 2026-11-21T14:00:00Z.');
  return time;
}

/** The environment's database and venue belong to the real service. */
function configure(player: TapePlayer, dataDir: string): Config {
  const { PORT, HOST, LOG_LEVEL } = process.env;
  const markets = player.marketSource === 'kalshi' ? 'kalshi' : 'simulated';
  return readConfig({ PORT, HOST, LOG_LEVEL, DATA_DIR: dataDir, MARKET_SOURCE: markets });
}

async function replay(path: string, flags: Flags): Promise<number> {
  const player = await openTapePlayer({ path, ...flags });
  const stopped = once(listenForInterrupt(), 'abort').then(() => undefined);
  const dataDir = await mkdtemp(join(tmpdir(), 'gauge-replay-'));
  try {
    const config = configure(player, dataDir);
    const destination = pino.destination({ dest: 2, sync: true });
    const starting = startService(config, {
      log: createLogger(config.logLevel, destination, config.secrets),
      accessLog: createPlainLog(config.logLevel, destination),
      clock: player.clock,
      products: { trading: { replay: player } },
    });
    const service = await Promise.race([starting, stopped]);
    // The database of a service that is still starting is discarded.
    if (!service) return 130;
    process.stdout.write(
      `${service.greeting ?? ''}\nPlaying ${path} from ${new Date(player.clock.now()).toISOString()}.\n`,
    );
    await stopped;
    await service.stop();
    return 0;
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}

process.exitCode = await runCommand<Flags>(
  command,
  openTerminal(),
  (flags, [file]) => replay(file!, flags),
  messageOf(TapeError, CannotListenError),
);
// A service that is still starting would keep the process alive.
if (process.exitCode === 130) process.exit();
