import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { findFreePort } from '../support/free-port.js';

// Plays the Dockerfile without a container engine: runs each step of each stage in a folder that has only what the stage
// would have, starts the image's command, and waits for its health check. Folders replace file systems, so absolute
// paths are taken below the stage's folder, and the user stays the same.

const root = fileURLToPath(new URL('../..', import.meta.url));
const work = mkdtempSync(join(tmpdir(), 'gauge-image-'));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));

interface Stage {
  folder: string;
  workdir: string;
  env: Record<string, string>;
  command: string[];
  health: string[];
}

/** Copies the committed files that .dockerignore does not exclude, as `COPY . .` would. */
function copyContext(to: string): void {
  const patterns = readFileSync(join(root, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => `:(exclude,glob)${line}`);
  const below = patterns.map((pattern) => `${pattern}/**`);
  const files = execFileSync('git', ['ls-files', '-z', '--', '.', ...patterns, ...below], { cwd: root });
  for (const file of files.toString().split('\0').filter(Boolean)) cpSync(join(root, file), join(to, file));
}

const readSteps = (dockerfile: string) =>
  dockerfile
    .replace(/^\s*#.*\n/gm, '')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .flatMap((line) => [...line.matchAll(/^([A-Z]+) +(.+)$/g)])
    .map(([, instruction, rest]) => ({ instruction: instruction!, rest: rest! }));

function play(context: string): Stage {
  const stages = new Map<string, Stage>();
  let stage!: Stage;
  const place = (path: string) => join(stage.folder, path.startsWith('/') ? '' : stage.workdir, path);
  const runs: Record<string, (rest: string) => void> = {
    ARG: () => undefined,
    FROM: (rest) => {
      const name = / AS (.+)$/.exec(rest)?.[1] ?? `stage-${stages.size}`;
      const folder = join(work, name);
      mkdirSync(folder);
      stages.set(name, (stage = { folder, workdir: '/', env: {}, command: [], health: [] }));
    },
    WORKDIR: (rest) => {
      stage.workdir = rest;
      mkdirSync(place('.'), { recursive: true });
    },
    ENV: (rest) => {
      for (const pair of rest.split(' '))
        stage.env[pair.split('=', 1)[0]!] = pair.slice(pair.indexOf('=') + 1);
    },
    COPY: (rest) => {
      const words = rest.split(' ');
      const source = /^--from=(.+)$/.exec(words[0]!)?.[1];
      const from = source === undefined ? context : stages.get(source)!.folder;
      const [target, ...sources] = words.slice(source === undefined ? 0 : 1).toReversed() as [string];
      for (const path of sources as string[]) {
        const to = target.endsWith('/') ? join(place(target), path.split('/').at(-1)!) : place(target);
        cpSync(join(from, path), to, { recursive: true, verbatimSymlinks: true });
      }
    },
    RUN: (rest) => {
      const asThisUser = rest.replace(/ -[og] node\b/g, '');
      execFileSync('sh', ['-ec', asThisUser], {
        cwd: place('.'),
        env: cleanEnv(stage.env),
        stdio: 'inherit',
      });
    },
    HEALTHCHECK: (rest) => (stage.health = JSON.parse(rest.slice(rest.indexOf('['))) as string[]),
    CMD: (rest) => (stage.command = JSON.parse(rest) as string[]),
    USER: () => undefined,
    EXPOSE: () => undefined,
  };
  for (const { instruction, rest } of readSteps(readFileSync(join(context, 'Dockerfile'), 'utf8'))) {
    process.stdout.write(`${instruction} ${rest}\n`);
    runs[instruction]!(rest);
  }
  return stage;
}

const cleanEnv = (env: Record<string, string>) => ({
  PATH: process.env.PATH!,
  HOME: process.env.HOME ?? '/',
  // Without the machine's certificate authority, npm tries each package for a minute.
  ...(process.env.NODE_EXTRA_CA_CERTS ? { NODE_EXTRA_CA_CERTS: process.env.NODE_EXTRA_CA_CERTS } : {}),
  ...env,
});

async function isHealthy({ folder, workdir, env, command, health }: Stage): Promise<boolean> {
  const secret = () => randomBytes(32).toString('hex');
  const given = {
    ...cleanEnv(env),
    PORT: String(await findFreePort()),
    PUBLIC_URL: 'https://gauge.example.com',
    TRUST_PROXY: '0',
    SESSION_KEYS: secret(),
    SECRET_KEYS: secret(),
  };
  const options = { cwd: join(folder, workdir), env: given };
  const service = spawn(command[0]!, command.slice(1), {
    ...options,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => service.once('close', () => resolve()));
  try {
    while (service.exitCode === null && service.signalCode === null) {
      const check = spawn(health[0]!, health.slice(1), options);
      if ((await new Promise((resolve) => check.once('close', resolve))) === 0) return true;
      await setTimeout(500);
    }
    return false;
  } finally {
    service.kill('SIGTERM');
    await ended;
  }
}

const context = join(work, 'context');
copyContext(context);
for (const secret of ['.env', 'data'])
  if (existsSync(join(context, secret))) throw new Error(`${dirname(context)} must not contain ${secret}`);
const image = play(context);
if (!(await isHealthy(image))) throw new Error('The image’s service ended before its health check passed.');
process.stdout.write('The image is built, starts, and passes its health check.\n');
