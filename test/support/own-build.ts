import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';

const root = fileURLToPath(new URL('../..', import.meta.url));
const VARIABLE = 'GAUGE_TEST_BUILD';
const shared = globalThis as { [builds]?: { folder: Promise<string>; users: number } };
const builds = Symbol.for('gauge test build');

/**
 * Bundles the service and its commands for tests that start them as processes of their own: a few files load in half of the
 * time of hundreds, there are a hundred such processes, and a loader would take a second more for each. Once, for all
 * projects of a run.
 * @returns removes it
 */
export async function provideOwnBuild(): Promise<() => void> {
  const build = (shared[builds] ??= { folder: bundle(), users: 0 });
  build.users++;
  const folder = await build.folder;
  process.env[VARIABLE] = folder;
  return () => {
    if (--build.users === 0) rmSync(folder, { recursive: true, force: true });
  };
}

const scripts = ['src/main', 'test/support/serve', 'test/client/reporting', 'test/core/db/lock-directory'];

async function bundle(): Promise<string> {
  // Below the project, where packages are found.
  const folder = mkdtempSync(join(root, 'node_modules', '.gauge-test-'));
  for (const name of ['package.json', 'views', 'migrations'])
    symlinkSync(join(root, name), join(folder, name));
  // Where the compiled service looks for the empty database of the installation: a first start makes none of its own.
  mkdirSync(join(folder, 'src'));
  symlinkSync(join(root, 'dist/database'), join(folder, 'src/database'));
  const commands = ['src/commands', 'src/metering/commands', 'src/markets/commands'].flatMap((folder) =>
    readdirSync(join(root, folder)).flatMap((name) =>
      name.endsWith('.ts') ? [`${folder}/${name.slice(0, -3)}`] : [],
    ),
  );
  const names = [...scripts, ...commands];
  const bundled = await rolldown({
    input: Object.fromEntries(names.map((name) => [name, join(root, `${name}.ts`)])),
    platform: 'node',
    external: /^[^./]/,
    plugins: [
      {
        // What a module finds beside it, it finds beside what is compiled of it.
        name: 'places',
        transform: (code, id) =>
          code.replaceAll(
            'import.meta.url',
            JSON.stringify(String(pathToFileURL(join(folder, relative(root, id))))),
          ),
      },
    ],
  });
  await bundled.write({ dir: folder, entryFileNames: '[name].js' });
  await bundled.close();
  return folder;
}

/**
 * What Node is started with to run a script of the project, `src/commands/reconcile`: compiled if the tests' setup did that.
 * Such a process ends before it would pay to optimize the embedded database's code: that is half of its time.
 */
export function ownScript(path: string): string[] {
  const folder = process.env[VARIABLE];
  const script = folder ? [join(folder, `${path}.js`)] : ['--import', 'tsx', join(root, `${path}.ts`)];
  return ['--liftoff-only', ...script];
}
