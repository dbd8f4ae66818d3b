/**
 * `npm run fuzz:outside -- --seconds N --seed S` starts the service and lets Schemathesis send requests made from its
 * OpenAPI document, first with a credential for each scheme, then without any. Schemathesis prints each failing request
 * as a curl command.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command, InvalidArgumentError } from 'commander';
import { providePackages } from '../support/python.js';
import { startServer } from './server.js';
import { makeWorld, type World } from './world.js';

function parseCount(value: string): number {
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new InvalidArgumentError('must be a whole number above 0');
  return Number(value);
}

const { seconds, seed, only } = new Command('fuzz:outside')
  .option('--seconds <count>', 'how long, in all', parseCount, 120)
  .option('--seed <number>', 'makes the same requests again', parseCount, 1 + Math.floor(Math.random() * 1e6))
  .option('--only <regex>', 'sends only to paths that match')
  .parse()
  .opts<{ seconds: number; seed: number; only?: string }>();

/** Names a credential for each security scheme of the document. */
function credentialsOf({ actors }: World): string {
  const headers = (name: string) => actors.find((actor) => actor.name === name)!.headers;
  const tokenOf = (name: string) => headers(name).authorization!.slice('Bearer '.length);
  const session = /gauge_session=([^;]+)/.exec(headers('owner of fuzz-one').cookie!)![1]!;
  return Object.entries({
    apiKey: { bearer: tokenOf('live key of fuzz-one') },
    serviceKey: { bearer: tokenOf('service key') },
    operator: { bearer: tokenOf('operator') },
    session: { api_key: session },
  })
    .map(([scheme, value]) => `[auth.openapi.${scheme}]\n${toToml(value)}`)
    .join('\n');
}

const toToml = (values: object) =>
  Object.entries(values)
    .map(([name, value]) => `${name} = ${JSON.stringify(value)}\n`)
    .join('');

const rules = fileURLToPath(new URL('outside_rules.py', import.meta.url));
/**
 * The rules have their own check of valid data, because the document cannot state every rule. 413 refuses too many events,
 * and the path of the lookup is also that of an event whose key is `lookup`.
 */
const settings = `
hooks = ${JSON.stringify(rules)}
request-timeout = 60
[checks]
positive_data_acceptance.enabled = false
negative_data_rejection.expected-statuses = ["4xx", "503"]
[[operations]]
include-path-regex = "/usage/events/lookup$"
checks.allow_header_conformance.enabled = false`;

const python = await providePackages('outside-packages.txt');
if (python === undefined) throw new Error('Schemathesis cannot be installed.');
const folder = mkdtempSync(join(tmpdir(), 'gauge-outside-'));
const server = await startServer('embedded');
let hasFailed = false;
try {
  const world = await makeWorld(server.url);
  const document = join(folder, 'openapi.json');
  writeFileSync(document, await (await fetch(`${server.url}/openapi.json`)).text());
  for (const [name, credentials] of [
    ['with credentials', credentialsOf(world)],
    ['without', ''],
  ] as const) {
    console.log(`\n=== ${name}, seed ${seed}`);
    const config = join(folder, 'schemathesis.toml');
    writeFileSync(config, `${settings}\n${credentials}`);
    const run = ['run', document, '--url', server.url, '--seed', String(seed)];
    const limits = ['--max-time', String(Math.ceil(seconds / 2)), '--workers', '1', '--continue-on-failure'];
    const filter = only === undefined ? [] : ['--include-path-regex', only];
    const args = ['-m', 'schemathesis.cli', '--config-file', config, ...run, ...limits, ...filter];
    const quiet = ['--generation-database', 'none', '--warnings', 'off', '--no-color'];
    const child = spawn(python, [...args, ...quiet], { cwd: folder, stdio: 'inherit' });
    const code = await new Promise((resolve) => child.once('close', resolve));
    if (code !== 0) hasFailed = true;
  }
} finally {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(hasFailed ? 1 : 0);
