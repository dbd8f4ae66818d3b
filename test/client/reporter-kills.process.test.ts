import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../src/core/time.js';
import { createRandom } from '../crash/random.js';
import { ownScript } from '../support/own-build.js';
import { hasPython, pythonClient } from '../support/python.js';
import { grant } from '../metering/support/products.js';
import { createTenant, readUsage } from '../metering/support/usage.js';
import { createOrganization, createServiceKey } from '../support/fixtures.js';
import { useService } from '../support/use.js';

const kills = Number(process.env.REPORTER_KILLS ?? 10);
const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));
const random = createRandom(seed);
/** `lost`: the request is recorded, but the response never arrives. */
const modes = ['up', 'up', 'down', 'lost'] as const;

const { database, service } = useService({ context: { clock: systemClock } });
let gate: Server;
let mode: (typeof modes)[number] = 'up';
const folder = mkdtempSync(join(tmpdir(), 'gauge-reporter-'));

beforeAll(async () => {
  gate = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of req) chunks.push(chunk as Buffer);
      const answer = mode === 'down' ? undefined : await forward(req, Buffer.concat(chunks));
      if (!answer || mode === 'lost') res.destroy();
      else res.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.text);
    } catch {
      res.destroy();
    }
  });
  await new Promise<void>((resolve) => gate.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  gate.closeAllConnections();
  gate.close();
  rmSync(folder, { recursive: true, force: true });
});

async function forward({ headers, url }: IncomingMessage, body: Buffer) {
  const { authorization = '', prefer } = headers;
  const answer = await fetch(service.url + url!, {
    method: 'POST',
    headers: { authorization, prefer: String(prefer), 'content-type': 'application/json' },
    body,
  });
  return { status: answer.status, text: await answer.text() };
}

const programs = {
  TypeScript: () => [process.execPath, ...ownScript('test/client/reporting')],
  Python: () => ['python3', '-B', join(pythonClient, 'tests/reporting.py')],
};
type Language = keyof typeof programs;

function startProgram(language: Language, args: string[]) {
  const [command, ...script] = programs[language]();
  const env = { ...process.env, PYTHONPATH: join(pythonClient, 'src') };
  const child = spawn(command!, [...script, ...args], { stdio: ['ignore', 'pipe', 'inherit'], env });
  let output = '';
  const ready = new Promise<void>((resolve) => {
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      resolve();
    });
  });
  const closed = new Promise((resolve) => child.once('close', resolve));
  return { child, ready, closed, lines: () => output.split('\n').slice(0, -1) };
}

/** Returns the number of bytes of unsent events left by earlier runs, and the keys accepted in this run. */
async function reportUntilKilled(language: Language, args: string[]) {
  const { child, ready, closed, lines } = startProgram(language, args);
  // Sometimes the process is killed while it is still starting.
  if (random.chance(0.9)) await ready;
  for (let i = 0; i < 3; i++) {
    mode = random.pick(modes);
    await setTimeout(random.between(0, 120));
  }
  child.kill('SIGKILL');
  await closed;
  const [first = 'ready 0', ...keys] = lines();
  return { bytes: Number(first.slice('ready '.length)), keys };
}

const languages = hasPython ? (['TypeScript', 'Python'] as const) : (['TypeScript'] as const);

it.for(languages.flatMap((language) => [1, 40].map((count) => ({ language, count }))))(
  `every accepted event is counted once although the reporter is killed ${kills} times while the service goes up and down, in $language for $count Organizations (seed ${seed})`,
  { timeout: 60_000 + kills * 2_000 },
  async ({ language, count }) => {
    const directory = join(folder, `${language}-${count}`);
    const { organization, product, key } = await createTenant(database.db);
    const organizations = [organization];
    for (let i = 1; i < count; i++) {
      const other = await createOrganization(database.db);
      await grant(database.db, other.id, product.id);
      organizations.push(other);
    }
    const slugs = count === 1 ? [] : organizations.map(({ slug }) => slug);
    const { secret } = count === 1 ? key : await createServiceKey(database.db, ['usage:write']);
    const baseUrl = `http://127.0.0.1:${(gate.address() as { port: number }).port}`;
    const accepted = new Set<string>();
    let leftBehind = 0;
    for (let i = 0; i < kills; i++) {
      const args = [baseUrl, secret, directory, product.slug, `run${i}`, ...slugs];
      const { bytes, keys } = await reportUntilKilled(language, args);
      for (const one of keys) accepted.add(one);
      if (bytes > 0) leftBehind++;
    }
    mode = 'up';
    const last = startProgram(language, [baseUrl, secret, directory, product.slug, '', ...slugs]);
    await last.closed;
    expect(last.lines().at(-1)).toBe('true');

    const recorded: string[] = [];
    for (const [i, { id }] of organizations.entries()) {
      const { keys, drift } = await readUsage(database.db, id);
      expect(keys.filter((one) => Number(/^run\d+-(\d+)$/.exec(one)?.[1]) % count !== i)).toEqual([]);
      expect(drift).toEqual([]);
      const [sum] = await database.db.run(
        {
          name: 'test_total',
          text: 'select trim_scale(sum(quantity))::text as total from usage_totals where org_id = $1',
        },
        [id],
      );
      expect(sum).toEqual({ total: keys.length > 0 ? String(keys.length) : null });
      recorded.push(...keys);
    }
    const known = new Set(recorded);
    expect([...accepted].filter((one) => !known.has(one))).toEqual([]);
    expect(known.size).toBe(recorded.length);
    // The test would prove nothing if there were no events to lose.
    expect(accepted.size).toBeGreaterThan(kills * 20);
    expect(leftBehind).toBeGreaterThan(kills / 4);
    if (kills > 100)
      console.log({ language, count, kills, leftBehind, accepted: accepted.size, recorded: recorded.length });
  },
);
