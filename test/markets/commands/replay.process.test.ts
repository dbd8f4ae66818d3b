import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, expect, it } from 'vitest';
import { DOLLAR } from '../../../src/markets/market/money.js';
import { createTapeWriter } from '../../../src/markets/tape/writer.js';
import { ownScript } from '../../support/own-build.js';
import { TestClock } from '../../support/service.js';
import { ScriptedMarkets } from '../support/scripted-sources.js';
import { nothingLearned } from '../../../src/markets/snapshot/snapshot.js';

const folder = mkdtempSync(join(tmpdir(), 'gauge-replay-test-'));
const running = new Set<{ child: ChildProcess; closed: Promise<unknown> }>();
afterAll(async () => {
  for (const { child, closed } of running) {
    child.kill('SIGKILL');
    await closed;
  }
  rmSync(folder, { recursive: true, force: true });
});
const log = pino({ level: 'silent' });

async function makeTape(): Promise<string> {
  const file = join(folder, 'day.tape.gz');
  const header = { marketSource: 'kalshi', forecastSource: 'openmeteo', bankroll: DOLLAR };
  const tape = createTapeWriter({ file, header, log });
  const clock = new TestClock();
  clock.set('2026-01-31T12:00:00Z');
  const markets = new ScriptedMarkets();
  markets.clock = clock;
  const data = await markets.read(new AbortController().signal);
  const at = new Date(clock.now());
  tape.write({ sequence: 7, at, data, weather: undefined, calibration: nothingLearned, sources: [] });
  await tape.close();
  return file;
}

function start(args: string[]) {
  const child = spawn(process.execPath, [...ownScript('src/markets/commands/replay'), ...args], {
    env: { PATH: process.env.PATH, TMPDIR: folder, PORT: '0', LOG_LEVEL: 'warn' },
  });
  const output = { out: '', err: '' };
  child.stdout.on('data', (chunk: Buffer) => (output.out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output.err += chunk.toString()));
  const closed = once(child, 'close') as Promise<[number | null]>;
  const started = { child, output, closed };
  running.add(started);
  void closed.then(() => running.delete(started));
  return started;
}

it('a taped day is replayed at its own time and leaves nothing behind', async () => {
  const { child, output, closed } = start([await makeTape()]);
  while (!output.out.includes('Playing')) await once(child.stdout, 'data');
  const url = /Gauge is running at (\S+)/.exec(output.out)![1]!;
  const response = await fetch(`${url}/markets`);
  const body = (await response.json()) as {
    asOf: string;
    ageSeconds: number;
    markets: { ticker: string }[];
  };
  expect(body.asOf).toBe('2026-01-31T12:00:00.000Z');
  expect(body.ageSeconds).toBeLessThan(30);
  expect(body.markets.map(({ ticker }) => ticker)).toContain('KXHIGHNY-26JAN31-T40');
  // The venue data is real, so no page may claim that it is simulated.
  expect(output.out).not.toContain('invented');
  // One Ctrl-C under npm sends two signals: one from the terminal and one from npm.
  child.kill('SIGINT');
  child.kill('SIGINT');
  expect((await closed)[0]).toBe(0);
  expect(readdirSync(folder).filter((name) => name.startsWith('gauge-replay-'))).toEqual([]);
});

it('a file that cannot be played is explained in a sentence', async () => {
  const noTape = join(folder, 'notes.txt');
  writeFileSync(noTape, 'x'.repeat(100));
  const cases = [
    [[noTape], 'no record of a tape'],
    [[join(folder, 'none')], 'no such file'],
    [[noTape, '--from', 'yesterday'], 'must be a time with an offset'],
  ] as const;
  await Promise.all(
    cases.map(async ([args, message]) => {
      const { output, closed } = start([...args]);
      expect((await closed)[0]).toBe(2);
      expect(output.err).toContain(message);
      expect(output.err).not.toContain('    at ');
    }),
  );
  expect(existsSync(join(folder, 'data'))).toBe(false);
});
