import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, inject, it, vi } from 'vitest';
import { readConfig } from '../../src/config.js';
import { HOUR_MS, systemClock } from '../../src/core/time.js';
import { createBackground } from '../../src/markets/background/background.js';
import { createWorld } from '../../src/markets/venue/simulation/weather.js';
import { startService } from '../../src/service.js';

it('an instance that starts with a wrong clock judges no gates, and answers clock_off until it is right', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-clock-'));
  const dataDir = join(folder, 'data');
  cpSync(inject('embeddedTemplate'), dataDir, { recursive: true });
  const log = pino({ level: 'silent' });
  const judged = vi.fn(() => Promise.resolve());
  const clock = vi.spyOn(systemClock, 'now').mockImplementation(() => Date.now() - HOUR_MS);
  const config = readConfig({ NODE_ENV: 'test', PORT: '0', DATA_DIR: dataDir, SECRET_KEYS: 'k'.repeat(32) });
  const service = await startService(config, {
    log,
    accessLog: log,
    products: {
      trading: {
        pastDays: 0,
        startBackground: (deps, options) => ({
          ...createBackground(deps, options, createWorld()),
          judge: judged,
          fillPast: judged,
        }),
      },
    },
  });
  try {
    const off = await fetch(`${service.url}/readyz`);
    expect([off.status, await off.json()]).toMatchObject([503, { status: 'clock_off' }]);
    expect((await fetch(`${service.url}/markets`)).status).toBe(503);
    expect(judged).not.toHaveBeenCalled();
    clock.mockRestore();
    await expect.poll(async () => (await fetch(`${service.url}/markets`)).status).toBe(200);
  } finally {
    await service.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
