import fc from 'fast-check';
import { it } from 'vitest';
import { isEmbedded } from '../../support/database.js';
import { anyCommand, TURN_OF_MONTH } from './model/commands.js';
import type { Model, ModelKey } from './model/model.js';
import { addKey, createSystem, putEntitlement } from './model/system.js';
import { useService } from '../../support/use.js';

const ORGANIZATIONS = 2;
const PRODUCTS = 3;
const DAY_MS = 86_400_000;
/**
 * Use MODEL_RUNS=2000 for a long run and MODEL_SEED to repeat one. By default, the embedded database runs half as many
 * as Postgres.
 */
const numRuns = Number(process.env.MODEL_RUNS ?? (isEmbedded ? 20 : 40));
const seed = process.env.MODEL_SEED === undefined ? {} : { seed: Number(process.env.MODEL_SEED) };

const { database, service } = useService();

/**
 * Starts each run with a live and a test key and two grants per Organization, so that even short sequences have an
 * effect.
 */
async function setUp(startsAt: number) {
  service.clock.set(new Date(startsAt).toISOString());
  const model: Model = {
    now: startsAt,
    products: Array.from({ length: PRODUCTS }, (_, p) => ({
      metric: 'calls',
      unitCap: p === 0 ? 10_000 : null,
    })),
    keys: [],
    entitlements: new Map(),
    events: Array.from({ length: ORGANIZATIONS }, () => new Map()),
    lastBatch: undefined,
  };
  const real = await createSystem(service, database.db, model);
  for (let org = 0; org < ORGANIZATIONS; org++) {
    for (const livemode of [true, false]) {
      const scopes = ['usage:write', 'entitlements:read'];
      const key: ModelKey = { org, livemode, scopes, expiresAt: null, isRevoked: false, isRotated: false };
      model.keys.push(key);
      await addKey(real, key);
    }
    for (const product of [0, 1]) {
      const entitlement = { kind: 'live' as const, startsAt: startsAt - 1, endsAt: null };
      model.entitlements.set(`${org} ${product}`, entitlement);
      await putEntitlement(real, org, product, entitlement);
    }
  }
  return { model, real };
}

it(
  'answers and totals match a plain model through any sequence of commands',
  { timeout: 600_000 },
  async () => {
    // Starts around the turn of a month, so that the seven-day window spans two months.
    const start = fc.integer({ min: TURN_OF_MONTH - 3 * DAY_MS, max: TURN_OF_MONTH + 6 * DAY_MS });
    const commands = fc.commands(anyCommand(ORGANIZATIONS, PRODUCTS), { maxCommands: 40, size: 'max' });
    await fc.assert(
      fc.asyncProperty(start, commands, async (startsAt, sequence) => {
        let state: Awaited<ReturnType<typeof setUp>>;
        await fc.asyncModelRun(async () => (state = await setUp(startsAt)), sequence);
        return state! !== undefined;
      }),
      { numRuns, ...seed },
    );
  },
);
