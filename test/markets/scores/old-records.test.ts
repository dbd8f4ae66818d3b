import { sql } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import type { ScoresAnswer } from '../../../src/markets/scores/schema.js';
import { everything, leadingStations } from '../../../src/markets/venue/simulation/world.js';
import { useService } from '../../support/use.js';

const { database, service } = useService({
  trading: { selection: { ...everything, stations: leadingStations } },
});
beforeAll(async () => {
  service.clock.set('2026-11-21T20:00:00Z');
});

/** Inserts records from before calibration, without the columns that calibration introduced. */
async function insertOldRecords(): Promise<number> {
  const settled = service.trading.snapshots.current!.events.filter(
    ({ kind, markets }) => kind === 'daily_maximum' && markets[0]!.status === 'finalized',
  );
  for (const { station, date, markets } of settled) {
    const share = 1 / markets.length;
    const brackets = markets.map(({ ticker, bracket: { floor, cap } }) => ({
      ticker,
      floor,
      cap,
      model: share,
      market: share,
    }));
    await database.db.orm.execute(sql`
      insert into forecast_records (station, date, lead_hours, recorded_at, market_source, forecast_source, method, model_run_at, mean, deviation, brackets)
      values (${station.id}, ${date}, 24, now(), 'simulated', 'simulated', 'raw_ensemble', now(), 50, 3, ${JSON.stringify(brackets)}::jsonb)`);
  }
  return settled.length;
}

it('records from before calibration are scored and shown, and open no gate', async () => {
  const { refresher, scores, background, calibration } = service.trading;
  await refresher.refresh();
  const count = await insertOldRecords();
  expect(count).toBeGreaterThan(0);
  await scores.score();
  await background.judge();
  expect(calibration.current.gates.gates.some(({ isOpen }) => isOpen)).toBe(false);
  const response = await fetch(`${service.url}/scores`);
  expect(response.status).toBe(200);
  const answer = (await response.json()) as ScoresAnswer;
  expect(answer.overall).toMatchObject({ n: 0, model: null, crps: null });
  expect(answer.uncalibrated).toMatchObject({ n: count, waiting: 0, crps: null });
  expect(answer.records).toHaveLength(count);
  expect(answer.records[0]).toMatchObject({ method: 'raw_ensemble', model: { crps: null } });
});
