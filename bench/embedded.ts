/** Response times of `/healthz` while senders keep the embedded database busy. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { openDatabase } from '../src/core/db/open.js';
import type { Measure } from './measures.js';
import { createTenants, load, PLACEHOLDER, startProduct, usageRequest } from './world.js';

export const embeddedMeasure: Measure = {
  key: 'embedded',
  name: 'embedded database under full load: slowest `/healthz`',
  target: '≤ 250 ms',
  isGood: (value) => value <= 250,
  async run({ seconds }) {
    const dataDir = mkdtempSync(join(tmpdir(), 'gauge-bench-embedded-'));
    const db = await openDatabase({ databaseUrl: undefined, dataDir }, pino({ level: 'silent' }));
    const tenants = await createTenants(db, 16);
    await db.close();
    const product = await startProduct({ DATA_DIR: dataDir });
    try {
      const slowest = { ms: 0, probes: 0 };
      let isLoaded = true;
      const plan = { port: product.port, seconds, placeholder: PLACEHOLDER };
      const loads = Promise.all([
        load({
          ...plan,
          connections: 32,
          requests: tenants.map((t) => usageRequest(t, 1)),
          keyPrefix: `${Date.now().toString(36)}-a-`,
        }),
        load({
          ...plan,
          connections: 8,
          requests: tenants.map((t) => usageRequest(t, 500)),
          keyPrefix: `${Date.now().toString(36)}-b-`,
        }),
      ]).finally(() => (isLoaded = false));
      while (isLoaded) {
        const startedAt = performance.now();
        await (await fetch(`http://127.0.0.1:${product.port}/healthz`)).text();
        slowest.ms = Math.max(slowest.ms, performance.now() - startedAt);
        slowest.probes++;
        await setTimeout(20);
      }
      const [small, large] = await loads;
      const rate = Math.round(small.perSecond + large.perSecond * 500);
      return {
        value: slowest.ms,
        note: `${slowest.probes} probes while ${rate.toLocaleString('en')} events/s went in`,
      };
    } finally {
      await product.stop();
      rmSync(dataDir, { recursive: true, force: true });
    }
  },
};

export const machine = (): string => {
  const model =
    /model name\s*:\s*(.+)/.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 'unknown processor';
  return model.trim();
};
