import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { Database } from '../../../src/core/db/client.js';
import { CENT } from '../../../src/markets/market/money.js';
import type { StreamLimits } from '../../../src/markets/api/stream.js';
import { connectionRefused, failingDatabase } from '../../openapi/support/failing-database.js';
import { startTestService, type TestService } from '../../support/service.js';
import { ScriptedMarkets, ScriptedWeather } from '../support/scripted-sources.js';
import { until } from '../../support/until.js';

const noDatabase = failingDatabase({} as Database, connectionRefused());
const origin = 'https://app.example.com';
const [newYork, settled, denver] = [
  'KXHIGHNY-26JAN31-T40',
  'KXHIGHNY-26JAN31-T39',
  'KXHIGHDEN-26JAN31-B50.5',
];

let service: TestService;
let markets: ScriptedMarkets;
let weather: ScriptedWeather;
const clients: ClientRequest[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await service.stop();
});

async function start(streamLimits: Partial<StreamLimits> = {}): Promise<void> {
  [markets, weather] = [new ScriptedMarkets(), new ScriptedWeather()];
  service = await startTestService(noDatabase, {
    env: { CORS_ORIGINS: origin, TRUST_PROXY: '1' },
    trading: { markets, weather, streamLimits },
  });
  service.clock.set('2026-01-31T12:00:00Z');
  markets.clock = weather.clock = service.clock;
}

const refresh = () => service.trading.refresher.refresh();

function bid(cents: bigint): void {
  markets.markets = markets.markets.map((market) =>
    market.ticker === newYork ? { ...market, yesBid: cents * CENT } : market,
  );
}

interface Event {
  event: string;
  id: string;
  data: { asOf: string; sources: unknown[]; markets: Record<string, unknown>[]; removed?: string[] };
}

class Client {
  text = '';
  hasEnded = false;
  readonly answer: IncomingMessage;
  constructor(answer: IncomingMessage) {
    this.answer = answer;
    answer.setEncoding('utf8').on('data', (chunk: string) => (this.text += chunk));
    answer.on('close', () => (this.hasEnded = true));
    answer.on('error', () => undefined);
  }
  get events(): Event[] {
    return [...this.text.matchAll(/^event: (\w+)\nid: (\S+)\ndata: (.*)\n\n/gm)].map(
      ([, event, id, data]) => ({
        event: event!,
        id: id!,
        data: JSON.parse(data!) as Event['data'],
      }),
    );
  }
  async next(count: number): Promise<Event[]> {
    await until(() => this.events.length >= count);
    return this.events;
  }
}

function open(path = '/stream', headers: Record<string, string> = {}, method = 'GET'): Promise<Client> {
  return new Promise((resolve, reject) => {
    const client = request(`${service.url}${path}`, { headers, method, agent: false }, (res) =>
      resolve(new Client(res)),
    );
    clients.push(client);
    client.on('error', reject);
    client.end();
  });
}

const tickers = ({ data }: Event) => data.markets.map(({ ticker }) => ticker);

describe('a stream', () => {
  it('starts with all markets, then sends the changes of each refresh', async () => {
    await start();
    await refresh();
    const client = await open('/stream', { origin });
    expect(client.answer.statusCode).toBe(200);
    expect(client.answer.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
      'access-control-allow-origin': origin,
    });
    expect(client.answer.headers['content-encoding']).toBeUndefined();
    const [first] = await client.next(1);
    expect(client.text).toMatch(/^retry: [2-4]\d{3}\n\n/);
    expect(first!.event).toBe('snapshot');
    expect(first!.data.asOf).toBe('2026-01-31T12:00:00.000Z');
    expect(tickers(first!)).toEqual([newYork, settled, denver]);
    const { probability, ...market } = first!.data.markets[0]!;
    expect(market).toEqual({
      ticker: newYork,
      status: 'active',
      yesBid: '0.4000',
      yesAsk: '0.4300',
      noBid: '0.5700',
      noAsk: '0.6000',
      yesBidSize: 12,
      yesAskSize: 7,
      lastPrice: '0.4100',
      bookState: 'whole',
    });
    expect(probability).toBeGreaterThan(0);
    expect(first!.data.markets[2]).toMatchObject({ probability: null });

    service.clock.advance(30_000);
    bid(41n);
    markets.markets = markets.markets.filter(({ ticker }) => ticker !== denver);
    await refresh();
    const [, second] = await client.next(2);
    expect(second!.event).toBe('changes');
    expect(second!.data).toMatchObject({ asOf: '2026-01-31T12:00:30.000Z', removed: [denver] });
    expect(second!.data.markets).toMatchObject([{ ticker: newYork, yesBid: '0.4100' }]);

    markets.behaviour = new Error('down');
    await refresh();
    const [, , third] = await client.next(3);
    expect(third!.data).toMatchObject({
      markets: [],
      removed: [],
      sources: [{ state: 'failing' }, { state: 'ok' }],
    });
  });

  it('can be limited to one station', async () => {
    await start();
    await refresh();
    const client = await open('/stream?station=kden');
    expect(tickers((await client.next(1))[0]!)).toEqual([denver]);
    bid(41n);
    await refresh();
    expect((await client.next(2))[1]!.data).toMatchObject({ markets: [], removed: [] });
  });

  it('opened before the first load waits for it', async () => {
    await start();
    const client = await open();
    await refresh();
    expect((await client.next(1))[0]!.event).toBe('snapshot');
  });

  it('sends comments as heartbeats', async () => {
    await start({ heartbeatMs: 20 });
    const client = await open();
    await until(() => client.text.split('\n').filter((line) => line === ':').length >= 3);
  });

  it('refuses unknown parameters, and answers HEAD without staying open', async () => {
    await start();
    for (const [path, status] of [
      ['/stream?station=KJFK', 404],
      ['/stream?station=%00', 400],
      ['/stream?station=KNYC&station=KDEN', 400],
      ['/stream?other=1', 400],
    ] as const)
      expect((await open(path)).answer.statusCode).toBe(status);
    const head = await open('/stream', {}, 'HEAD');
    expect(head.answer.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    await until(() => head.hasEnded);
  });
});

describe('a reader that reconnects', () => {
  it('gets the changes since, over several refreshes, each once', async () => {
    await start();
    await refresh();
    const [seen] = await (await open()).next(1);
    bid(41n);
    await refresh();
    markets.markets = markets.markets.filter(({ ticker }) => ticker !== denver);
    await refresh();
    const [resumed] = await (await open('/stream', { 'last-event-id': seen!.id })).next(1);
    expect(resumed).toMatchObject({ event: 'changes', data: { removed: [denver] } });
    expect(tickers(resumed!)).toEqual([newYork]);
    const [again] = await (await open('/stream', { 'last-event-id': resumed!.id })).next(1);
    expect(again).toMatchObject({ event: 'changes', id: resumed!.id, data: { markets: [], removed: [] } });
  });

  it('gets everything if this process does not know its last event', async () => {
    await start();
    await refresh();
    const { id } = (await (await open()).next(1))[0]!;
    const instance = id.split('-')[0]!;
    for (const unknown of [
      'x',
      '000000000000-1',
      `${instance}-2`,
      `${instance}-99999999999999999999`,
      `${instance}-`,
      `a${id}`,
    ]) {
      const [event] = await (await open('/stream', { 'last-event-id': unknown })).next(1);
      expect([event!.event, event!.data.markets.length], unknown).toEqual(['snapshot', 3]);
    }
  });
});

describe('the cost of streams', () => {
  it('is limited per address, and an ended stream makes room', async () => {
    await start({ readersPerAddress: 2 });
    const from = (address: string) => open('/stream', { 'x-forwarded-for': address });
    const [first] = [await from('192.0.2.1'), await from('192.0.2.1')];
    const refused = await from('192.0.2.1');
    expect([refused.answer.statusCode, refused.answer.headers['retry-after']]).toEqual([429, '30']);
    await until(() => refused.text.includes('"rate_limited"'));
    expect((await from('192.0.2.2')).answer.statusCode).toBe(200);
    first.answer.destroy();
    await until(() => first.hasEnded);
    await sleep(20);
    expect((await from('192.0.2.1')).answer.statusCode).toBe(200);
  });

  it('is limited in total', async () => {
    await start({ readers: 1 });
    await open();
    const refused = await open();
    expect(refused.answer.statusCode).toBe(503);
    await until(() => refused.text.includes('"unavailable"'));
    expect(await service.context.metrics.registry.metrics()).toContain('gauge_stream_readers 1');
  });

  it('does not grow with slow readers, which are dropped while others continue', async () => {
    await start({ unreadBytes: 16 * 1024 });
    await refresh();
    const { snapshots } = service.trading;
    const first = snapshots.current!;
    const [market] = first.data.markets;
    /** Publishes enough markets to fill a connection's socket buffers within a few refreshes. */
    const flood = (round: number) => {
      const yesBid = BigInt(round) * CENT;
      const many = Array.from({ length: 3_000 }, (_, i) => ({ ...market!, ticker: `T-${i}`, yesBid }));
      snapshots.replace({ ...first, sequence: 1 + round, data: { ...first.data, markets: many } });
    };
    const lazy = connect(Number(new URL(service.url).port), '127.0.0.1');
    lazy.on('error', () => undefined);
    lazy.write('GET /stream HTTP/1.1\r\nHost: test\r\n\r\n');
    lazy.pause();
    const keen = await open();
    const dropped = async () =>
      (await service.context.metrics.streamsDropped.get()).values.some(({ value }) => value > 0);
    for (let round = 1; !(await dropped()); round++) {
      if (round > 90) throw new Error('The reader who does not read was not dropped.');
      flood(round);
      await keen.next(round + 1);
    }
    expect(keen.hasEnded).toBe(false);
    lazy.destroy();
  });
});

describe('a shutdown', () => {
  it('ends every stream at once and accepts no new ones', async () => {
    await start();
    await refresh();
    const client = await open();
    await client.next(1);
    await service.trading.stop();
    await until(() => client.hasEnded);
    expect(client.answer.complete).toBe(true);
    expect((await open()).answer.statusCode).toBe(503);
  });
});

it('an instance that must not answer ends every stream with its next event, and the reader gets 503', async () => {
  await start();
  await refresh();
  const client = await open();
  await client.next(1);
  service.context.lifecycle.refusal = { code: 'clock_off', detail: "This instance's clock is off." };
  bid(41n);
  await refresh();
  await until(() => client.hasEnded);
  expect(client.events).toHaveLength(1);
  expect((await open()).answer.statusCode).toBe(503);
});
