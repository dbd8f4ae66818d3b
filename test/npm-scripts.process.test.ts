import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { findFreePort } from './support/free-port.js';
import { ownScript } from './support/own-build.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};

it('each service command replaces its shell, because dash would swallow the signals that npm sends', () => {
  const commands = Object.entries(scripts).filter(([, script]) =>
    /\b(src\/(main|(\w+\/)?commands)|dist\/main)\b.*\.[jt]s/.test(script),
  );
  const running = commands.filter(([name, script]) => name !== 'prepare' && !script.startsWith('tsx '));
  expect(running.map(([name]) => name)).toEqual(
    expect.arrayContaining(['start', 'dev', 'replay', 'backfill']),
  );
  expect(readFileSync(join(root, 'tools/run'), 'utf8')).toMatch(/\nexec node [^\n]*\n$/);
  for (const [name, script] of running) {
    expect(script, name).toMatch(/^exec (env (\w+=\S+ )+)?(node|tools\/run) [^&|;]*$/);
  }
});

it('npm start builds first if there is no build, or if a source is newer', () => {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-npm-'));
  const run = () =>
    execFileSync('sh', ['-c', `npm() { echo "$@"; }\n${scripts.prestart}`], {
      cwd: folder,
      encoding: 'utf8',
    });
  for (const name of ['dist', 'src', 'src/client']) mkdirSync(join(folder, name));
  const sources = [
    'package-lock.json',
    'tsconfig.json',
    'src',
    'src/client',
    'src/client/api.d.ts',
    'src/main.ts',
  ];
  for (const name of ['package-lock.json', 'tsconfig.json', 'src/client/api.d.ts', 'src/main.ts'])
    writeFileSync(join(folder, name), '');
  for (const name of sources) utimesSync(join(folder, name), 1, 1);
  expect(run()).toBe('run build\n');
  writeFileSync(join(folder, 'dist/built'), '');
  utimesSync(join(folder, 'dist/built'), 2, 2);
  expect(run()).toBe('');
  utimesSync(join(folder, 'src/main.ts'), 3, 3);
  expect(run()).toBe('run build\n');
  rmSync(folder, { recursive: true });
});

/**
 * A separate project with this project's scripts and with the build that the tests use. All tests share the project, so
 * that only the first start creates the demo.
 */
let project: string;
let port: number;
let child: ChildProcess | undefined;
beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), 'gauge-npm-'));
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'gauge', type: 'module', scripts }));
  symlinkSync(dirname(ownScript('src/main').at(-1)!), join(project, 'dist'));
  for (const name of ['src', 'node_modules', 'tools', 'tsconfig.json'])
    symlinkSync(join(root, name), join(project, name));
});
afterAll(() => rmSync(project, { recursive: true, force: true }));
beforeEach(async () => {
  port = await findFreePort();
});
afterEach(() => {
  if (child?.pid !== undefined) killGroup(child.pid);
});

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {}
}

/** Resolves once the service responds. `output()` returns everything printed so far. */
async function start(command: string[]) {
  const env = {
    PATH: process.env.PATH,
    TERM: 'dumb',
    HOME: project,
    PORT: String(port),
    DATA_DIR: join(project, 'data'),
    MARKETS: 'off',
    npm_config_update_notifier: 'false',
  };
  const started = spawn(command[0]!, command.slice(1), { cwd: project, env, detached: true });
  child = started;
  let output = '';
  const exit = new Promise<[code: number | null, signal: string | null]>((resolve) => {
    started.once('exit', (code, signal) => resolve([code, signal]));
  });
  await new Promise<void>((resolve, reject) => {
    for (const stream of [started.stdout, started.stderr])
      stream.on('data', (chunk) => {
        output += String(chunk);
        if (output.includes('Gauge is running at')) resolve();
      });
    void exit.then(() => reject(new Error(`npm ended: ${output}`)));
  });
  return { started, exit, output: () => output };
}

const isListening = (): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });

// Skips `prestart`, which would build the project.
const npmStart = ['npm', 'start', '--ignore-scripts'];
const npmDev = ['npm', 'run', 'dev'];

describe.each([
  ['npm start', npmStart],
  ['npm run dev', npmDev],
])('%s', (_name, command) => {
  it('finishes accepted requests and ends the server when only npm gets SIGTERM', async () => {
    const { started, exit, output } = await start(command);
    started.kill('SIGTERM');
    expect(await exit).toEqual([0, null]);
    expect(await isListening()).toBe(false);
    expect(output()).toContain('"msg":"stopped"');
  }, 120_000);

  it.runIf(process.platform === 'linux')(
    'finishes accepted requests on Ctrl-C, which reaches the server from both the terminal and npm',
    async () => {
      const { started, exit, output } = await start([
        'script',
        '-qefc',
        `exec ${command.join(' ')}`,
        '/dev/null',
      ]);
      started.stdin.write('\x03');
      expect(await exit).toEqual([0, null]);
      expect(await isListening()).toBe(false);
      expect(output()).toContain('INFO: stopped');
    },
    120_000,
  );
});
