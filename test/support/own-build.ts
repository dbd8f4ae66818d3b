import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = fileURLToPath(new URL('../..', import.meta.url));
const VARIABLE = 'GAUGE_TEST_BUILD';
const shared = globalThis as { [builds]?: { folder: Promise<string>; users: number } };
const builds = Symbol.for('gauge test build');

/**
 * Compiles the service for tests that start it, or a command of it, as a process of its own: such a process then starts
 * a second earlier than through a loader, and there are a hundred of them. Once, for all projects of a run.
 * @returns removes it
 */
export async function provideOwnBuild(): Promise<() => void> {
  const build = (shared[builds] ??= { folder: compile(), users: 0 });
  build.users++;
  const folder = await build.folder;
  process.env[VARIABLE] = folder;
  return () => {
    if (--build.users === 0) rmSync(folder, { recursive: true, force: true });
  };
}

async function compile(): Promise<string> {
  // Below the project, where packages are found.
  const folder = mkdtempSync(join(root, 'node_modules', '.gauge-test-'));
  for (const name of ['package.json', 'views', 'migrations'])
    symlinkSync(join(root, name), join(folder, name));
  // Where the compiled service looks for the empty database of the installation: a first start makes none of its own.
  mkdirSync(join(folder, 'src'));
  symlinkSync(join(root, 'dist/database'), join(folder, 'src/database'));
  const config = join(folder, 'tsconfig.json');
  const compilerOptions = { noEmit: false, noCheck: true, rootDir: root, outDir: folder, types: [] };
  const include = [
    'src',
    'test/support/serve.ts',
    'test/client/reporting.ts',
    'test/core/db/lock-directory.ts',
  ].map((path) => join(root, path));
  writeFileSync(config, JSON.stringify({ extends: join(root, 'tsconfig.json'), compilerOptions, include }));
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
  await promisify(execFile)(process.execPath, [tsc, '-p', config]);
  return folder;
}

/**
 * What Node is started with to run a script of the project, `src/tools/reconcile`: compiled if the tests' setup did that.
 * Such a process ends before it would pay to optimize the embedded database's code: that is half of its time.
 */
export function ownScript(path: string): string[] {
  const folder = process.env[VARIABLE];
  const script = folder ? [join(folder, `${path}.js`)] : ['--import', 'tsx', join(root, `${path}.ts`)];
  return ['--liftoff-only', ...script];
}
