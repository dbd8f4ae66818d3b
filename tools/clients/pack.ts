import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { zipSync } from 'fflate';

// npm run client:pack -- [folder]: packs only the clients: an npm package, gauge-client-….tgz, and a wheel for Python.
const root = fileURLToPath(new URL('../..', import.meta.url));
const adapters = ['ai-sdk', 'express', 'fetch', 'opentelemetry'];
const entries = {
  '.': 'client',
  './reporter': 'reporter',
  ...Object.fromEntries(adapters.map((name) => [`./${name}`, name])),
};
/** Each adapter needs one of them, which the program has anyway. */
const frameworks = { ai: '>=6', express: '>=5', hono: '>=4', '@opentelemetry/sdk-trace-base': '>=2' };

interface Manifest {
  version: string;
  license: string;
  engines: Record<string, string>;
  dependencies: Record<string, string>;
}

const destination = resolve(process.argv[2] ?? '.');
mkdirSync(destination, { recursive: true });
console.log(packModules());
console.log(packWheel());

function packModules(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-client-'));
  try {
    compile(folder);
    describe(folder, JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest);
    const args = ['pack', folder, '--silent', '--ignore-scripts', '--pack-destination', destination];
    return join(destination, execFileSync('npm', args, { encoding: 'utf8' }).trim());
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Without Python, which the service does not need. `clients/python/backend.py` builds the same wheel. */
function packWheel(): string {
  const python = join(root, 'clients/python');
  const read = (path: string) => readFileSync(join(python, path));
  const [, version] = /^Version: (.+)$/m.exec(read('METADATA').toString())!;
  const info = `gauge_client-${version}.dist-info`;
  const modules = readdirSync(join(python, 'src/gauge')).filter((name) => /\.py$|typed$/.test(name));
  const files: Record<string, Buffer> = {
    ...Object.fromEntries(modules.sort().map((name) => [`gauge/${name}`, read(`src/gauge/${name}`)])),
    [`${info}/METADATA`]: Buffer.concat([read('METADATA'), read('README.md')]),
    [`${info}/WHEEL`]: read('WHEEL'),
    [`${info}/LICENSE`]: read('LICENSE'),
  };
  const record = Object.entries(files).map(
    ([name, data]) =>
      `${name},sha256=${createHash('sha256').update(data).digest('base64url')},${data.length}\n`,
  );
  files[`${info}/RECORD`] = Buffer.from(`${record.join('')}${info}/RECORD,,\n`);
  const path = join(destination, `gauge_client-${version}-py3-none-any.whl`);
  // The same sources make the same bytes.
  writeFileSync(path, zipSync(files, { mtime: '1980-01-02' }));
  return path;
}

function compile(folder: string): void {
  const config = join(folder, 'tsconfig.json');
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    rootDir: join(root, 'src'),
    outDir: folder,
    typeRoots: [join(root, 'node_modules/@types')],
  };
  const files = Object.values(entries).map((entry) => join(root, `src/client/${entry}.ts`));
  writeFileSync(
    config,
    JSON.stringify({ extends: join(root, 'tsconfig.json'), compilerOptions, files, include: [] }),
  );
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
  execFileSync(process.execPath, [tsc, '-p', config], { stdio: 'inherit' });
  rmSync(config);
  // The compiler does not copy declaration files.
  copyFileSync(join(root, 'src/client/api.d.ts'), join(folder, 'client/api.d.ts'));
  // A program in CommonJS may load the modules with require, but its compiler accepts only types of CommonJS.
  const isTypes = (path: string) => !path.endsWith('.js');
  for (const part of ['client', 'core'])
    cpSync(join(folder, part), join(folder, 'cjs', part), { recursive: true, filter: isTypes });
  writeFileSync(join(folder, 'cjs/package.json'), JSON.stringify({ type: 'commonjs' }));
}

function describe(folder: string, { version, license, engines, dependencies }: Manifest): void {
  const { GITHUB_REPOSITORY } = process.env;
  const name = 'openapi-fetch';
  const exportOf = (entry: string) => ({
    import: { types: `./client/${entry}.d.ts`, default: `./client/${entry}.js` },
    require: { types: `./cjs/client/${entry}.d.ts`, default: `./client/${entry}.js` },
  });
  const manifest = {
    name: 'gauge-client',
    version,
    description: 'Typed client for Gauge and a durable usage reporter',
    license,
    // npm compares it with the statement of provenance.
    ...(GITHUB_REPOSITORY && { repository: `github:${GITHUB_REPOSITORY}` }),
    type: 'module',
    engines,
    sideEffects: false,
    exports: Object.fromEntries(Object.entries(entries).map(([path, entry]) => [path, exportOf(entry)])),
    // For compilers that do not read `exports`.
    main: './client/client.js',
    types: './cjs/client/client.d.ts',
    typesVersions: {
      '*': Object.fromEntries(
        ['reporter', ...adapters].map((entry) => [entry, [`./cjs/client/${entry}.d.ts`]]),
      ),
    },
    peerDependencies: frameworks,
    peerDependenciesMeta: Object.fromEntries(
      Object.keys(frameworks).map((framework) => [framework, { optional: true }]),
    ),
    dependencies: { [name]: dependencies[name] },
  };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest, null, 2));
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  copyFileSync(join(root, 'src/client/README.md'), join(folder, 'README.md'));
  for (const adapter of adapters)
    copyFileSync(join(root, `src/client/${adapter}.md`), join(folder, `${adapter}.md`));
}
