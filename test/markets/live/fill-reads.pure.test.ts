import { generateKeyPairSync } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createVenue } from '../../../src/markets/live/venue.js';
import { plentyOfTokens } from '../support/venue-tokens.js';

const asked: string[][] = [];
let server: Server;
beforeAll(async () => {
  server = createServer((req, res) => {
    const query = new URL(req.url!, 'http://venue').searchParams;
    asked.push(query.get('ticker')!.split(','));
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify({ fills: [], cursor: '' }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(() => server.close());

it('fills of more than 100 markets are read with requests of at most 100 tickers each', async () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const venue = createVenue({
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    key: { id: 'member-key', privateKey },
    clock: { now: Date.now },
    timeoutMs: 10_000,
    budget: plentyOfTokens(),
    backoffMs: 1,
  });
  const tickers = Array.from({ length: 201 }, (_, i) => `KXHIGHNY-26JAN31-T${i}`);
  expect(await venue.listFills({ tickers, sinceSeconds: 0 }, AbortSignal.timeout(10_000))).toEqual({
    rows: [],
    unreadable: [],
  });
  expect(asked.map(({ length }) => length)).toEqual([100, 100, 1]);
  expect(asked.flat()).toEqual(tickers);
});
