import { eq } from 'drizzle-orm';
import { beforeEach, describe, expect, it } from 'vitest';
import type { AnyType } from '../../../src/accounts/webhooks/types.js';
import { recordGates } from '../../../src/markets/scores/judge.js';
import { unjudged, type Gate } from '../../../src/markets/signals/signal.js';
import { organizations } from '../../../src/accounts/organizations/table.js';
import { operatorClient, unique } from '../../support/operator.js';
import {
  createListeningOrganization,
  readWebhookData,
  readWebhookMessages,
} from '../../support/webhook-messages.js';
import { useService } from '../../support/use.js';

const START = '2026-05-14T10:00:00.000Z';
const at = (time: string) => new Date(time);

const { database, service } = useService();
beforeEach(() => service.clock.set(START));
const operator = operatorClient(() => service);

const dataOf = (orgId: string, type: AnyType) => readWebhookData(database.db, orgId, type);

const listener = (type: AnyType, livemodes?: boolean[]) =>
  createListeningOrganization(database.db, type, livemodes);

describe('trading.halted', () => {
  it('reports when an Organization’s switch becomes stricter or looser, and the service’s switch to every Organization that trades', async () => {
    const { id, slug } = await listener('trading.halted', [true, false]);
    const other = await listener('trading.halted');
    const barred = await listener('trading.halted');
    const { orm } = database.db;
    await orm.update(organizations).set({ marketAccess: 'none' }).where(eq(organizations.id, barred.id));
    const own = `/organizations/${slug}/trading/switch`;
    await operator('PUT', own, { state: 'halt', reason: 'Unexplained fills.' });
    await operator('PUT', own, { state: 'halt', reason: 'Unexplained fills!' });
    await operator('PUT', own, { state: 'open' });
    const halted = { owner: 'operator', state: 'halt', reason: 'Unexplained fills.', changedAt: START };
    expect(await dataOf(id, 'trading.halted')).toEqual([halted, halted]);
    service.clock.advance(1_000);
    await operator('PUT', '/trading/switch', { state: 'reduce_only', reason: 'Maintenance.' });
    await operator('PUT', '/trading/switch', { state: 'open' });
    const ofService = { owner: 'service', state: 'reduce_only', reason: 'Maintenance.' };
    expect(await dataOf(other.id, 'trading.halted')).toMatchObject([ofService]);
    expect((await dataOf(id, 'trading.halted')).slice(2)).toMatchObject([ofService, ofService]);
    expect(await readWebhookMessages(database.db, barred.id)).toEqual([]);
  });
});

describe('signal.gate_changed', () => {
  it('reports once that a gate opens or closes, whichever instance judges it', async () => {
    const { id } = await listener('signal.gate_changed');
    const sources = { marketSource: unique('market'), forecastSource: 'test' };
    const judged = async (isOpen: boolean, madeAt: string) => {
      const gate: Gate = {
        kind: 'daily_maximum',
        stationId: 'KNYC',
        leadHours: 12,
        isOpen,
        ...unjudged,
        n: 62,
        reason: 'For a test.',
      };
      const book = { madeAt: at(madeAt), gates: [{ ...gate, stationId: 'KMIA', isOpen: false }, gate] };
      await Promise.all([1, 2].map(() => recordGates(service.context, sources, book)));
    };
    await judged(false, '2026-05-14T10:00:00.000Z');
    await judged(false, '2026-05-14T10:05:00.000Z');
    expect(await readWebhookMessages(database.db, id)).toEqual([]);
    await judged(true, '2026-05-14T10:10:00.000Z');
    // A lagging instance records an older judgement.
    await judged(false, '2026-05-14T10:05:00.000Z');
    await judged(true, '2026-05-14T10:15:00.000Z');
    expect(await dataOf(id, 'signal.gate_changed')).toEqual([
      { kind: 'daily_maximum', station: 'KNYC', leadHours: 12, state: 'open', n: 62, reason: 'For a test.' },
    ]);
    await judged(false, '2026-05-14T10:20:00.000Z');
    expect((await dataOf(id, 'signal.gate_changed')).map(({ state }) => state)).toEqual(['open', 'closed']);
  });
});
