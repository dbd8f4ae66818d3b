import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';

const root = fileURLToPath(new URL('../..', import.meta.url));
const VARIABLE = 'GAUGE_TEST_BUILD';
const shared = globalThis as { [builds]?: { folder: Promise<string>; isKept: boolean; users: number } };
const builds = Symbol.for('gauge test build');

/** Packages that load their own files at run time: WebAssembly, native code and logging threads. */
const unbundled = [/^@electric-sql\//, /^@node-rs\//, /^pino/];

/**
 * Bundles the service, its commands and their packages for tests that start them as processes. A few files load in a
 * third of the time that hundreds take, and a TypeScript loader would add a second to each of about a hundred
 * processes. Runs once for all test projects of a run. If GAUGE_TEST_BUILD names a folder, the bundle stays there for
 * later runs of the same sources.
 * @returns a function that removes the bundle if it does not stay
 */
export async function provideOwnBuild(): Promise<() => void> {
  const kept = process.env[VARIABLE];
  const build = (shared[builds] ??= { folder: bundle(kept), isKept: kept !== undefined, users: 0 });
  build.users++;
  const folder = await build.folder;
  process.env[VARIABLE] = folder;
  return () => {
    if (--build.users === 0 && !build.isKept) rmSync(folder, { recursive: true, force: true });
  };
}

const threads = ['src/core/db/pglite-thread', 'src/markets/thread'];
const scripts = [
  'src/main',
  'test/support/serve',
  'test/client/reporting',
  'test/client/holding',
  'test/core/db/lock-directory',
];
const ofProducts = [
  ...threads,
  'lab/evaluate',
  'test/metering/stripe/sender',
  'test/metering/credit-grants/granter',
];

async function bundle(kept?: string): Promise<string> {
  if (kept !== undefined && existsSync(kept)) return kept;
  // The folder is inside the project, so that packages can be resolved.
  const folder = kept ?? mkdtempSync(join(root, 'node_modules', '.gauge-test-'));
  mkdirSync(join(folder, 'src'), { recursive: true });
  for (const name of ['package.json', 'views', 'migrations', 'lab/evaluate/report']) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    symlinkSync(join(root, name), join(folder, name));
  }
  // The compiled service looks here for the installation's empty database, so that a first start need not create one.
  symlinkSync(join(root, 'dist/database'), join(folder, 'src/database'));
  const data = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
  for (const path of data.filter((name) => /functions\.sql$|\.yaml$/.test(name)))
    cpSync(join(root, 'src', path), join(folder, 'src', path));
  const folders = ['src', ...readdirSync(join(root, 'src')).map((name) => `src/${name}`)]
    .map((name) => `${name}/commands`)
    .filter((name) => existsSync(join(root, name)));
  const commands = folders.flatMap((folder) =>
    readdirSync(join(root, folder)).flatMap((name) =>
      name.endsWith('.ts') ? [`${folder}/${name.slice(0, -3)}`] : [],
    ),
  );
  // A product that was removed has no threads or scripts.
  const names = [
    ...scripts,
    ...ofProducts.filter((name) => existsSync(join(root, `${name}.ts`))),
    ...commands,
  ];
  const bundled = await rolldown({
    input: Object.fromEntries(names.map((name) => [name, join(root, `${name}.ts`)])),
    platform: 'node',
    external: unbundled,
    plugins: [
      {
        // Gives each module the `import.meta.url` that it would have in the bundle's folder if it were not bundled, so
        // that it finds the files beside it.
        name: 'places',
        transform: (code, id) =>
          id.includes('node_modules')
            ? undefined
            : code.replaceAll(
                'import.meta.url',
                JSON.stringify(
                  String(pathToFileURL(join(folder, relative(root, id).replace(/\.ts$/, '.js')))),
                ),
              ),
      },
    ],
  });
  await bundled.write({ dir: folder, entryFileNames: '[name].js' });
  await bundled.close();
  return folder;
}

/**
 * Returns the arguments for Node to run a script of the project, such as `src/commands/reconcile`, from the bundle if
 * the tests' setup has created one. V8's optimizing compiler for WebAssembly, which the embedded database uses, is
 * disabled, because it would take half of the process's time without paying off.
 */
export function ownScript(path: string): string[] {
  const folder = process.env[VARIABLE];
  const script = folder ? [join(folder, `${path}.js`)] : ['--import', 'tsx', join(root, `${path}.ts`)];
  return ['--liftoff-only', ...script];
}
