import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createUsageReporter } from '../../src/client/reporter.js';
import { systemClock } from '../../src/core/time.js';
import { createRandom } from '../crash/random.js';
import { ownScript } from '../support/own-build.js';
import { createTenant, readUsage } from '../metering/support/usage.js';
import { useService } from '../support/use.js';

const kills = Number(process.env.REPORTER_KILLS ?? 15);
const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));
const random = createRandom(seed);
/** `lost`: the request is recorded, but its answer never arrives. */
const modes = ['up', 'up', 'down', 'lost'] as const;

const { database, service } = useService({ context: { clock: systemClock } });
let gate: Server;
let mode: (typeof modes)[number] = 'up';
const directory = mkdtempSync(join(tmpdir(), 'gauge-reporter-'));

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
  rmSync(directory, { recursive: true, force: true });
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

async function reportUntilKilled(args: string[]): Promise<string[]> {
  const child = spawn(process.execPath, [...ownScript('test/client/reporting'), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  const ready = new Promise<void>((resolve) => {
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      resolve();
    });
  });
  const closed = new Promise((resolve) => child.once('close', resolve));
  // Sometimes the kill hits the start.
  if (random.chance(0.9)) await ready;
  for (let i = 0; i < 3; i++) {
    mode = random.pick(modes);
    await setTimeout(random.between(0, 120));
  }
  child.kill('SIGKILL');
  await closed;
  const whole = output.slice(0, output.lastIndexOf('\n') + 1);
  return whole.split('\n').filter((line) => line !== '' && line !== 'ready');
}

it(
  `every accepted event is counted once although the reporter is killed ${kills} times while the service goes up and down (seed ${seed})`,
  { timeout: 60_000 + kills * 2_000 },
  async () => {
    const { organization, product, key } = await createTenant(database.db);
    const baseUrl = `http://127.0.0.1:${(gate.address() as { port: number }).port}`;
    const accepted = new Set<string>();
    let leftBehind = 0;
    for (let i = 0; i < kills; i++) {
      const keys = await reportUntilKilled([baseUrl, key.secret, directory, product.slug, `run${i}`]);
      for (const one of keys) accepted.add(one);
      if (readdirSync(directory).some((name) => name.endsWith('.ndjson'))) leftBehind++;
    }
    mode = 'up';
    const reporter = await createUsageReporter({ baseUrl, apiKey: key.secret, directory });
    expect(await reporter.close({ timeoutMs: 60_000 })).toBe(true);
    expect(readdirSync(directory)).toEqual([]);

    const { keys: recorded, drift } = await readUsage(database.db, organization.id);
    const known = new Set(recorded);
    expect([...accepted].filter((one) => !known.has(one))).toEqual([]);
    expect(known.size).toBe(recorded.length);
    expect(recorded.filter((one) => !/^run\d+-\d+$/.test(one))).toEqual([]);
    expect(drift).toEqual([]);
    const [sum] = await database.db.run(
      {
        name: 'test_total',
        text: 'select trim_scale(sum(quantity))::text as total from usage_totals where org_id = $1',
      },
      [organization.id],
    );
    expect(sum).toEqual({ total: String(recorded.length) });
    // Without anything to lose, the test would prove nothing.
    expect(accepted.size).toBeGreaterThan(kills * 20);
    expect(leftBehind).toBeGreaterThan(kills / 4);
    if (kills > 100) console.log({ kills, leftBehind, accepted: accepted.size, recorded: recorded.length });
  },
);
