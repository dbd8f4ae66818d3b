import { expect, it } from 'vitest';
import { createTestDatabase } from '../support/database.js';
import { runLiveFaults } from './live/run.js';

const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 1e6));

it(
  `sends no live order twice, and agrees with the venue to the last digit, whatever is lost, late or killed (seed ${seed})`,
  { timeout: 300_000 },
  async () => {
    const database = await createTestDatabase();
    const report = await runLiveFaults({
      db: database.db,
      databaseUrl: database.url!,
      orders: 14,
      kills: 1,
      traders: 4,
      seed,
      speed: 10,
      patienceMs: 3_000,
    });
    await database.remove();
    expect(report.violations).toEqual([]);
    // This test is meaningful only if there was work to lose.
    expect(report.arrived).toBeGreaterThan(5);
  },
);
