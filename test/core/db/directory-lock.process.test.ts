import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DirectoryInUseError, lockDirectory } from '../../../src/core/db/directory-lock.js';
import { ownScript } from '../../support/own-build.js';

const script = ownScript('test/core/db/lock-directory');
let directory: string;
let children: ChildProcess[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'gauge-lock-'));
});
afterEach(async () => {
  await Promise.all(children.map(kill));
  children = [];
  rmSync(directory, { recursive: true });
});

function kill(child: ChildProcess): Promise<unknown> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  return ended;
}

/** Starts a process that claims directories on request. */
async function startOther() {
  const child = spawn(process.execPath, script, { stdio: ['pipe', 'pipe', 'inherit'] });
  children.push(child);
  const nextLine = async () => String((await once(child.stdout, 'data'))[0]).trim();
  expect(await nextLine()).toBe('ready');
  const claim = (of = directory, startAtMs = 0) => {
    child.stdin.write(`${startAtMs} ${of}\n`);
    return nextLine();
  };
  return { child, claim };
}

it('refuses a second opener with a message that says what to do', async () => {
  const first = await startOther();
  expect(await first.claim()).toBe('locked');
  const refusal = lockDirectory(directory);
  await expect(refusal).rejects.toThrow(DirectoryInUseError);
  await expect(refusal).rejects.toThrow(
    `The embedded database in ${directory} is in use by process ${first.child.pid}. Stop that process first`,
  );
  expect(await (await startOther()).claim()).toMatch(/^refused .* in use by process/);
});

it('refuses a second opener in the same process, and admits it after the release', async () => {
  const unlock = await lockDirectory(directory);
  await expect(lockDirectory(directory)).rejects.toThrow(DirectoryInUseError);
  unlock();
  (await lockDirectory(directory))();
  expect(readdirSync(directory)).toEqual([]);
});

it('takes over the claim of a killed process', async () => {
  const first = await startOther();
  expect(await first.claim()).toBe('locked');
  await kill(first.child);
  const unlock = await lockDirectory(directory);
  expect(readdirSync(directory)).toHaveLength(1);
  unlock();
});

it('does not mistake a claim for a live one because its process id was reused', async () => {
  writeFileSync(join(directory, `gauge-${process.ppid}-1-00000000.lock`), '');
  (await lockDirectory(directory))();
  expect(readdirSync(directory)).toEqual([]);
});

it('exactly one of many processes that race for a stale claim wins', async () => {
  const stale = await startOther();
  const racers = await Promise.all(Array.from({ length: 4 }, startOther));
  const rounds = [1, 2, 3].map((round) => join(directory, String(round)));
  for (const round of rounds) {
    mkdirSync(round);
    expect(await stale.claim(round)).toBe('locked');
  }
  await kill(stale.child);
  for (const round of rounds) {
    const startAtMs = Date.now() + 100;
    const output = await Promise.all(racers.map(({ claim }) => claim(round, startAtMs)));
    expect(output.filter((answer) => answer === 'locked')).toHaveLength(1);
    expect(output.filter((answer) => answer.startsWith('refused'))).toHaveLength(3);
  }
});
