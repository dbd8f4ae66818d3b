import { expect, it } from 'vitest';
import type { CrossChecks } from '../../../src/markets/climate/watch.js';
import type { IndexState } from '../../../src/markets/weather/kalshi-index.js';
import { stationListSchema } from '../../../src/markets/api/forecast-schema.js';
import { createStationList } from '../../../src/markets/api/station-json.js';
import { indexAreas } from '../../../src/markets/market/stations.js';

const unknown = (): IndexState[] =>
  indexAreas.map((area) => ({ cityId: area.indexId, area, latest: null, calibration: null, problem: null }));

it('the station list shows the venue’s agreement with first reports, and its index, once known', async () => {
  const climate = { crossChecks: new Map() as CrossChecks };
  const index = { states: unknown() as readonly IndexState[] };
  const list = createStationList({ climate, index });
  const readText = async () => (await list().encode('identity', {})).toString();
  const read = async () => stationListSchema.parse(JSON.parse(await readText()));
  const first = list();
  expect((await read()).stations[2]!.crossCheck).toEqual({ maximum: null, minimum: null });
  // The list is reused until the data behind it changes.
  expect(list()).toBe(first);
  const maximum = {
    compared: 56,
    agreed: 55,
    since: '2026-08-14',
    disagreements: [{ date: '2026-09-02', venue: 91, report: 90 }],
  };
  climate.crossChecks = new Map([['KMIA', { daily_maximum: maximum }]]);
  expect((await read()).stations[2]).toMatchObject({ id: 'KMIA', crossCheck: { maximum, minimum: null } });
  expect(list().version).not.toBe(first.version);
  index.states = unknown().with(0, {
    cityId: 'miami',
    area: indexAreas[0]!,
    latest: { at: new Date('2026-09-13T17:59:00Z'), temperatureF: 91.28, status: 'degraded' },
    calibration: {
      version: 'miami-temperature-v1.0',
      effectiveAt: new Date('2026-09-07T00:00:00Z'),
      members: [{ stationId: 'KMIA1M', weight: 0.2, offsetC: -0.4 }],
    },
    // The message may contain a host name, which must not be shown.
    problem: 'connect refused by 10.0.0.1',
  });
  expect((await read()).areas[0]).toMatchObject({
    id: 'INDEX-MIAMI',
    latest: { at: '2026-09-13T17:59:00.000Z', temperatureF: 91.28, status: 'degraded' },
    calibration: {
      version: 'miami-temperature-v1.0',
      members: [{ station: 'KMIA1M', weight: 0.2, offsetC: -0.4 }],
    },
  });
  expect(await readText()).not.toContain('10.0.0.1');
  expect((await read()).otherCities).toEqual([]);
  const calibration = {
    ...index.states[0]!.calibration!,
    members: [{ stationId: 'KHOU1M', weight: 1, offsetC: 0 }],
  };
  index.states = [...unknown(), { cityId: 'houston', area: null, latest: null, calibration, problem: null }];
  expect((await read()).otherCities).toMatchObject([
    {
      indexId: 'houston',
      calibration: { members: [{ station: 'KHOU1M', weight: 1, offsetC: 0 }] },
      reason: expect.stringMatching('no forecasts'),
    },
  ]);
  expect((await read()).areas).toHaveLength(4);
});

it('the station list has only static facts in a simulated world', async () => {
  const bytes = await createStationList({ climate: undefined, index: undefined })().encode('identity', {});
  expect(stationListSchema.parse(JSON.parse(bytes.toString())).areas).toHaveLength(4);
});
