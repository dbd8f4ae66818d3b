import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/time.js';
import { createTenant, readUsage } from '../metering/support/usage.js';
import { hasPython } from '../support/python.js';
import { useService } from '../support/use.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'gauge-package-'));
const project = mkdtempSync(join(tmpdir(), 'gauge-fresh-'));
const run = promisify(execFile);

const { database, service } = useService({ context: { clock: systemClock } });
beforeAll(async () => {
  const pack = ['--import', 'tsx', 'tools/clients/pack.ts', 'dist/clients'];
  await run(process.execPath, pack, { cwd: root });
  // Dependencies come from the packages installed here, so that nothing is downloaded.
  const dependencies = ['openapi-fetch', 'openapi-typescript-helpers'];
  const overrides: Record<string, string> = {};
  for (const name of dependencies) {
    const args = ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder];
    const { stdout } = await run('npm', [...args, join(root, 'node_modules', name)]);
    overrides[name] = `file:${join(folder, stdout.trim())}`;
  }
  writeFileSync(
    join(project, 'package.json'),
    JSON.stringify({ name: 'fresh', private: true, type: 'module', overrides }),
  );
  // Without a registry, npm fails if it needs another package.
  const quietly = [
    '--registry=http://127.0.0.1:9',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--silent',
  ];
  await run('npm', ['install', ...quietly, `${service.url}/clients/gauge-client.tgz`], { cwd: project });
});
afterAll(async () => {
  for (const path of [folder, project]) rmSync(path, { recursive: true, force: true });
});

describe('the clients that the service serves', () => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  const wheel = `gauge_client-${version}-py3-none-any.whl`;
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`${service.url}/clients/${path}`, { redirect: 'manual', ...init });

  it.skipIf(!hasPython)('include a wheel that pip installs, with the types', async () => {
    const venv = join(folder, 'venv');
    await run('python3', ['-m', 'venv', venv]);
    await run(join(venv, 'bin/pip'), ['install', '--no-index', '--quiet', `${service.url}/clients/${wheel}`]);
    const check =
      'import gauge, gauge.types, importlib.metadata as m; print(m.version("gauge-client"), m.files("gauge-client") is not None)';
    const { stdout } = await run(join(venv, 'bin/python'), ['-c', check], { cwd: folder });
    expect(stdout).toBe(`${version} True\n`);
    // pip compares each file with RECORD.
    expect((await run(join(venv, 'bin/pip'), ['check'])).stdout).toBe('No broken requirements found.\n');
  });

  it.each([
    ['gauge-client.tgz', `gauge-client-${version}.tgz`],
    ['gauge-client.whl', wheel],
  ])('has %s lead to the current version, which is sent once', async (name, current) => {
    const redirect = await ask(name);
    expect([redirect.status, redirect.headers.get('location')]).toEqual([302, `/clients/${current}`]);
    expect(redirect.headers.get('cache-control')).toBe('no-cache');
    const first = await ask(current);
    expect([first.status, first.headers.get('cache-control')]).toEqual([200, 'public, max-age=0']);
    const again = await ask(current, {
      // fetch would send no-cache, which asks for the whole file.
      headers: { 'if-none-match': first.headers.get('etag')!, 'cache-control': 'max-age=0' },
    });
    expect(again.status).toBe(304);
    const packed = readFileSync(join(root, 'dist/clients', current));
    expect(Buffer.from(await first.arrayBuffer())).toEqual(packed);
  });

  it.each(['', 'other.tgz', '..%2fmain.js', 'gauge-client'])('are named in the 404 of %j', async (name) => {
    const response = await ask(name);
    const { code, detail } = (await response.json()) as { code: string; detail: string };
    expect([response.status, code]).toEqual([404, 'not_found']);
    expect(detail).toBe(`There is no such client. There are gauge-client-${version}.tgz and ${wheel}.`);
  });

  it('are what /docs/start installs', async () => {
    const page = await (await fetch(`${service.url}/docs/start`)).text();
    const html = page.replaceAll(/<[^>]+>/g, '');
    expect(html).toContain(`npm install ${service.url}/clients/gauge-client.tgz`);
    expect(html).toContain(`pip install ${service.url}/clients/${wheel}`);
  });
});

const program = `
import { createGaugeClient, type UsageAnswer } from 'gauge-client';
import { createUsageReporter, SpoolFullError, type RefusedEvent } from 'gauge-client/reporter';

const [baseUrl = '', apiKey = '', productSlug = '', directory = ''] = arguments_;
const gauge = createGaugeClient({ baseUrl, apiKey });
const first = { productSlug, metric: 'calls', idempotencyKey: 'by the client' };
const { data, error } = await gauge.POST('/api/usage/events', { body: { events: [first] } });
if (error) throw new Error(error.code);
const answer: UsageAnswer = data;

const refused: RefusedEvent[] = [];
const reporter = await createUsageReporter({ baseUrl, apiKey, directory, onRefused: (events) => refused.push(...events) });
await reporter.report({ productSlug, metric: 'calls', quantity: 2, idempotencyKey: 'by the reporter' });
await reporter.report({ productSlug: 'nothing', metric: 'calls' });
const isSent: boolean = await reporter.close();
console.log(JSON.stringify({ accepted: answer.accepted, isSent, refused: refused.length, name: SpoolFullError.name }));
`;

it('a new TypeScript project compiles against the package and its types, and type errors are found', async () => {
  const compilerOptions = {
    target: 'ES2023',
    lib: ['ES2023', 'DOM'],
    module: 'NodeNext',
    strict: true,
    skipLibCheck: false,
    types: [],
    noEmit: true,
  };
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['good.ts'] }));
  writeFileSync(join(project, 'wrong.json'), JSON.stringify({ compilerOptions, files: ['wrong.ts'] }));
  const good = `declare const arguments_: string[];\n${program}`;
  writeFileSync(join(project, 'good.ts'), good);
  writeFileSync(join(project, 'wrong.ts'), good.replace('quantity: 2', 'amount: 2'));
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
  const compile = (config: string) =>
    run(process.execPath, [tsc, '-p', join(project, config)], { cwd: project });
  await compile('tsconfig.json');
  // As `npm init -y` makes it: CommonJS, without top-level await.
  const folderOf = (name: string) => join(project, name);
  mkdirSync(folderOf('cjs'));
  writeFileSync(folderOf('cjs/package.json'), JSON.stringify({ type: 'commonjs' }));
  const asFunction = good.replace(/^const \[baseUrl/m, 'async function main() {\nconst [baseUrl');
  writeFileSync(folderOf('cjs/good.ts'), `${asFunction}\n}\nvoid main();`);
  for (const module of ['commonjs', 'node16', 'node20']) {
    const config = `cjs/${module}.json`;
    const options = { ...compilerOptions, module, esModuleInterop: true };
    writeFileSync(folderOf(config), JSON.stringify({ compilerOptions: options, files: ['good.ts'] }));
    await compile(config);
  }
  await expect(compile('wrong.json')).rejects.toMatchObject({
    stdout: expect.stringContaining('amount') as string,
  });
});

const adapters = ['ai-sdk', 'express', 'fetch', 'opentelemetry'] as const;

it('each example of the adapters compiles with its framework in a strict project', async () => {
  const compilerOptions = {
    target: 'ES2023',
    lib: ['ES2023', 'DOM'],
    module: 'NodeNext',
    strict: true,
    exactOptionalPropertyTypes: true,
    types: ['node'],
    noEmit: true,
  };
  const folder = join(project, 'adapters');
  mkdirSync(join(folder, 'node_modules'), { recursive: true });
  // The packages of the frameworks that are installed here; gauge-client is the packed one.
  for (const name of ['ai', 'express', 'hono', '@opentelemetry', '@types'])
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  cpSync(join(project, 'node_modules/gauge-client'), join(folder, 'node_modules/gauge-client'), {
    recursive: true,
  });
  const files = adapters.flatMap((adapter) => {
    const page = readFileSync(join(project, `node_modules/gauge-client/${adapter}.md`), 'utf8');
    return [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code], i) => {
      writeFileSync(join(folder, `${adapter}-${i}.ts`), code!);
      return `${adapter}-${i}.ts`;
    });
  });
  expect(files.length).toBeGreaterThanOrEqual(adapters.length);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
  const { stdout } = await run(process.execPath, [tsc, '-p', folder], { cwd: folder }).catch(
    (error: { stdout: string }) => error,
  );
  // The types of a framework may have errors of their own.
  const errors = stdout
    .split('\n')
    .filter((line) => /^\S/.test(line) && !/node_modules\/(?!gauge-client)/.test(line));
  expect(errors).toEqual([]);
});

it('each adapter loads without its framework, as a module and with require', async () => {
  const names = ['createUsageMiddleware', 'createExpressGuard', 'createFetchGuard', 'createUsageProcessor'];
  const entries = adapters.map((adapter) => `'gauge-client/${adapter}'`);
  const list = (load: string) =>
    `[${entries.map((entry, i) => `typeof ${load}(${entry})).${names[i]}`).join()}]`;
  writeFileSync(join(project, 'load.js'), `console.log(String(${list('(await import')}));`);
  writeFileSync(join(project, 'load.cjs'), `console.log(String(${list('(require')}));`);
  for (const file of ['load.js', 'load.cjs']) {
    const { stdout } = await run(process.execPath, [file], { cwd: project });
    expect(stdout).toBe('function,function,function,function\n');
  }
  // Workers and browsers have neither files nor packages of Node.
  for (const part of ['ai-sdk', 'fetch', 'guard', 'hold']) {
    const code = readFileSync(join(project, `node_modules/gauge-client/client/${part}.js`), 'utf8');
    const imports = [...code.matchAll(/from '([^']+)'/g)].map(([, name]) => name);
    expect(['./client.js', './guard.js', './hold.js']).toEqual(expect.arrayContaining(imports));
  }
});

it('the package runs in plain Node and has only the dependency that it needs', async () => {
  const { organization, product, key } = await createTenant(database.db);
  const plain = program
    .replace('arguments_', 'process.argv.slice(2)')
    .replaceAll(/, type \w+/g, '')
    .replaceAll(/const (\w+): [\w[\]]+ =/g, 'const $1 =');
  writeFileSync(join(project, 'main.js'), plain);
  const args = [service.url, key.secret, product.slug, join(project, 'spool')];
  const { stdout } = await run(process.execPath, ['main.js', ...args], { cwd: project });
  expect(JSON.parse(stdout)).toEqual({ accepted: 1, isSent: true, refused: 1, name: 'SpoolFullError' });
  expect((await readUsage(database.db, organization.id)).keys).toEqual(['by the client', 'by the reporter']);
  const manifest = readFileSync(join(project, 'node_modules/gauge-client/package.json'), 'utf8');
  expect(Object.keys((JSON.parse(manifest) as { dependencies: object }).dependencies)).toEqual([
    'openapi-fetch',
  ]);
});

it('a program in CommonJS can require the package', async () => {
  writeFileSync(
    join(project, 'main.cjs'),
    "console.log(typeof require('gauge-client').createGaugeClient, typeof require('gauge-client/reporter').createUsageReporter)",
  );
  const { stdout } = await run(process.execPath, ['main.cjs'], { cwd: project });
  expect(stdout).toBe('function function\n');
});

it('the client alone imports nothing from Node, so browsers can load it', () => {
  const client = join(project, 'node_modules/gauge-client/client');
  const imports = [...readFileSync(join(client, 'client.js'), 'utf8').matchAll(/from '([^']+)'/g)];
  expect(imports.map(([, name]) => name)).toEqual(['openapi-fetch']);
});
