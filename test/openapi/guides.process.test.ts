import { execFile, fork, spawn, type ChildProcess, type ExecFileOptions } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeAll, expect, it, vi } from 'vitest';
import { serviceScopes } from '../../src/accounts/api-keys/scopes.js';
import { exampleWorld } from '../../src/core/reference/example-world.js';
import { readGuide } from '../../src/core/reference/guide.js';
import { namedFormats } from '../../src/metering/commands/send/formats.js';
import { topics } from '../../src/mounts/documentation-topics.js';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import { createProduct, grant } from '../metering/support/products.js';
import { createKey, createOrganization, past } from '../support/fixtures.js';
import { findFreePort } from '../support/free-port.js';
import { operatorClient, operatorToken } from '../support/operator.js';
import { hasPython, pythonClient } from '../support/python.js';
import { use, useService } from '../support/use.js';

const run = promisify(execFile);
const { database, service } = useService();
const call = operatorClient(() => service);
const folder = use(
  () => ({ path: mkdtempSync(join(tmpdir(), 'gauge-guides-')) }),
  ({ path }) => rmSync(path, { recursive: true }),
);
const { routes, circumstances } = await describeService(products);
/** Without those whose operation the service does not have. */
const guides = readdirSync('views/docs/guides')
  .map((name) => name.replace('.md', ''))
  .filter((guide) => {
    const { operationId } = topics.find(({ id }) => id === guide)!;
    return operationId === undefined || routes.some((route) => route.operationId === operationId);
  });
const readExamples = (guide: string, origin: string) =>
  readGuide(readFileSync(`views/docs/guides/${guide}.md`, 'utf8'), routes, { origin, circumstances }).flatMap(
    (part) => ('example' in part ? [part.example] : []),
  );
const servers: ChildProcess[] = [];

beforeAll(() => {
  service.clock.set(exampleWorld.now);
  const modules = join(folder.path, 'node_modules');
  mkdirSync(join(modules, 'gauge-client'), { recursive: true });
  for (const name of ['@types', 'express', 'standardwebhooks'])
    symlinkSync(resolve('node_modules', name), join(modules, name));
  symlinkSync(resolve('src/client'), join(modules, 'gauge-client/src'));
  const client = { name: 'gauge-client', type: 'module', exports: { '.': './src/client.ts' } };
  const write = (name: string, text: string) => writeFileSync(join(folder.path, name), text);
  write('node_modules/gauge-client/package.json', JSON.stringify(client));
  const send = `node --import ${import.meta.resolve('tsx')} ${resolve('src/metering/commands/send.ts')}`;
  write('package.json', JSON.stringify({ type: 'module', scripts: { send } }));
  // Objects are printed as JSON in every language, so that one text is right for all.
  write(
    'host.mjs',
    `let printed;
const toText = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
console.log = (...values) => (printed += values.map(toText).join(' ') + '\\n');
process.on('uncaughtException', ({ stack }) => process.send({ printed, error: stack }));
process.on('message', async ({ file, env }) => {
  printed = '';
  Object.assign(process.env, env);
  const error = await import(file).then(() => undefined, ({ stack }) => stack);
  process.send({ printed, error });
});
`,
  );
  write(
    'sitecustomize.py',
    `import builtins, json
say = builtins.print
builtins.print = lambda *all, **more: say(*(one if isinstance(one, str) else json.dumps(one) for one in all), **more)
`,
  );
});

/** Runs the programs in TypeScript one after another, because starting a process for each takes a second. */
const host = use(
  () => ({
    child: fork(join(folder.path, 'host.mjs'), { execArgv: ['--import', import.meta.resolve('tsx')] }),
  }),
  ({ child }) => child.kill(),
);

afterEach(() => {
  for (const server of servers.splice(0)) server.kill();
});

interface World {
  /** Ends the names that other tests use, too. */
  suffix: string;
  env: NodeJS.ProcessEnv;
  secrets: Record<string, string>;
  port: number;
}

async function createWorld(suffix: string): Promise<World> {
  const { db } = database;
  const { id } = await createOrganization(db, { slug: `acme${suffix}` });
  const calls = {
    slug: `api-calls${suffix}`,
    name: 'API calls',
    usageMetric: 'calls',
    unitCap: '1000',
    subjectsSince: past,
  };
  const tokens = { slug: `assistant${suffix}`, name: 'Assistant', usageMetric: 'tokens' };
  await grant(db, id, (await createProduct(db, calls)).id, { features: { max_seats: 5 } });
  await grant(db, id, (await createProduct(db, tokens)).id);
  const scopes = ['usage:write', 'usage:read', 'entitlements:read'];
  const key = await createKey(db, id, { name: 'production runtime', scopes });
  const gateway = { name: 'gateway', livemode: true, scopes: serviceScopes };
  const { body } = await call('POST', '/service-keys', gateway);
  const { secret } = body as { secret: string };
  return {
    suffix,
    secrets: { 'org_live_…': key.secret, 'service_live_…': secret, 'Bearer …': `Bearer ${operatorToken}` },
    port: await findFreePort(),
    env: {
      ...process.env,
      GAUGE_API_KEY: key.secret,
      GAUGE_SERVICE_KEY: secret,
      WEBHOOK_SECRET: `whsec_${randomBytes(24).toString('base64')}`,
      PYTHONPATH: `${join(pythonClient, 'src')}:${folder.path}`,
      PYTHONDONTWRITEBYTECODE: '1',
    },
  };
}

function prepare(code: string, { suffix, secrets, port }: World): string {
  const named = code
    .replace(/\b(acme|api-calls|assistant|team)\b/g, `$1${suffix}`)
    .replace(/\b4000\b/g, `${port}`);
  return Object.entries(secrets).reduce((text, [shown, secret]) => text.replaceAll(shown, secret), named);
}

let samplesRun = 0;

const interpreters: Record<string, (code: string, options: ExecFileOptions) => Promise<string>> = {
  async curl(code, options) {
    const withStatus = code.replace("-w '\\n'", "-w '\\n%{http_code}'");
    return (await run('bash', ['-euo', 'pipefail', '-c', withStatus], options)).stdout as string;
  },
  python: async (code, options) => (await run('python3', ['-c', code], options)).stdout as string,
  async typescript(code, { env }) {
    const file = join(folder.path, `sample-${++samplesRun}.ts`);
    writeFileSync(file, code);
    host.child.send({ file, env });
    const [{ printed, error }] = (await once(host.child, 'message')) as [{ printed: string; error?: string }];
    if (error !== undefined) throw new Error(error);
    return printed;
  },
};

async function execute(language: string, code: string, world: World): Promise<string> {
  const options = { env: world.env, cwd: folder.path };
  const prepared = prepare(code, world);
  if (code.includes('serve_forever')) {
    servers.push(spawn('python3', ['-c', prepared], { ...options, stdio: 'ignore' }));
    await vi.waitFor(() => canConnect(world.port), { timeout: 600_000 });
    return '';
  }
  const printed = await interpreters[language]!(prepared, options);
  return printed.trim().replaceAll(world.suffix, '').replace(/^ +/gm, '');
}

const canConnect = (port: number) =>
  new Promise<void>((done, fail) => {
    const socket = connect(port, '127.0.0.1', () => done(void socket.end()));
    socket.on('error', fail);
  });

/** `…` stands for what differs from run to run. */
const toPattern = (shown: string): RegExp =>
  new RegExp(`^${shown.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').replaceAll('…', '.*')}$`);

const toExpected = (answer: unknown): unknown => {
  if (Array.isArray(answer)) return answer.map(toExpected);
  if (typeof answer === 'string')
    return answer.includes('…') ? expect.stringMatching(toPattern(answer)) : answer;
  if (typeof answer !== 'object' || answer === null) return answer;
  return Object.fromEntries(Object.entries(answer).map(([name, value]) => [name, toExpected(value)]));
};

/** The client for Python returns only the rows of a list. */
function expectAnswer(printed: string, status: number, shown: string): void {
  const [, before, json, after] = /^(?:(\d{3}) )?([[{].*?)\n?(\d{3})?$/s.exec(printed)!;
  expect(Number(before ?? after ?? status)).toBe(status);
  const answer = JSON.parse(shown) as object;
  const body = JSON.parse(json!) as unknown;
  const expected = Array.isArray(body) ? Object.values(answer).find(Array.isArray) : answer;
  expect(body).toMatchObject(toExpected(expected) as object);
}

/** A sample without this language runs in its first one, so that what follows finds its result. */
const passes = guides.flatMap((guide) => {
  const samples = readExamples(guide, '').flatMap((example) => example.samples);
  return [...new Set(samples.map(({ id }) => id))].map((language) => ({ guide, language }));
});

it.each(passes)('the guide $guide works as shown, in $language', async ({ guide, language }) => {
  if (language === 'python' && !hasPython) return;
  const world = await createWorld(`-${guide}-${language}`);
  for (const { samples, status, answer } of readExamples(guide, service.url)) {
    const sample = samples.find(({ id }) => id === language) ?? samples[0]!;
    const printed = await execute(sample.id, sample.code, world);
    if (answer && status) expectAnswer(printed, status, answer);
    // Python writes a blank after a colon.
    else if (answer)
      expect(printed.replaceAll('": "', '":"')).toMatch(toPattern(answer.replace(/^ +/gm, '')));
  }
});

it('the TypeScript samples compile in a strict project', async () => {
  const samples = guides.flatMap((guide) =>
    readExamples(guide, service.url).flatMap(({ samples }, i) => {
      const code = samples.find(({ id }) => id === 'typescript')?.code;
      if (code === undefined) return [];
      const file = join(folder.path, `${guide}-${i}.ts`);
      // Makes a module of a program without imports.
      writeFileSync(file, `${code}\nexport {};\n`);
      return [file];
    }),
  );
  const compilerOptions = {
    strict: true,
    module: 'nodenext',
    target: 'es2023',
    noEmit: true,
    skipLibCheck: true,
  };
  const types = { types: ['node'], allowImportingTsExtensions: true, noUncheckedIndexedAccess: true };
  const config = { compilerOptions: { ...compilerOptions, ...types }, files: samples };
  writeFileSync(join(folder.path, 'tsconfig.json'), JSON.stringify(config));
  const { stdout } = await run(resolve('node_modules/.bin/tsc'), ['-p', folder.path]).catch(
    (error: Error) => error as never,
  );
  expect(stdout).toBe('');
});

it('the guide to files names every format of `send`', () => {
  const text = readFileSync('views/docs/guides/files.md', 'utf8').toLowerCase();
  expect(Object.keys(namedFormats).filter((format) => !text.includes(format))).toEqual([]);
});
