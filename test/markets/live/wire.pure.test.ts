import { constants, createPrivateKey, createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pino } from 'pino';
import { ConfigError } from '../../../src/core/config.js';
import { readAnswer, readChange } from '../../../src/markets/live/answer.js';
import {
  compareWithVenue,
  type OurOrder,
  type Ours,
  type Venues,
} from '../../../src/markets/live/compare.js';
import {
  isReadableByOthers,
  readSigningKey,
  readVenueKey,
  signRequest,
} from '../../../src/markets/live/sign.js';
import {
  toVenueFills,
  toWireOrder,
  type SentOrder,
  type VenueOrder,
} from '../../../src/markets/live/wire.js';
import { CENT, parseDollars } from '../../../src/markets/market/money.js';

const order = {
  id: '019c13c7-9a00-7000-8000-000000000001',
  clientOrderId: 'ours-1',
  ticker: 'KXHIGHNY-26JUL04-B80.5',
  side: 'yes',
  action: 'buy',
  contracts: 10,
  limitPrice: parseDollars('0.5600'),
  timeInForce: 'immediate_or_cancel',
  createdAt: new Date('2026-07-04T12:00:00Z'),
} as const;

describe('an order on the wire', () => {
  it.each([
    ['yes', 'buy', 'bid', '0.5600'],
    ['yes', 'sell', 'ask', '0.5600'],
    ['no', 'buy', 'ask', '0.4400'],
    ['no', 'sell', 'bid', '0.4400'],
  ] as const)('%s %s at 0.56 is a %s at %s of the one book of YES', (side, action, book, price) => {
    expect(toWireOrder({ ...order, side, action })).toEqual({
      ticker: 'KXHIGHNY-26JUL04-B80.5',
      client_order_id: 'ours-1',
      side: book,
      count: '10.00',
      price,
      time_in_force: 'immediate_or_cancel',
      self_trade_prevention_type: 'taker_at_cross',
      exchange_index: 0,
      // Without `reduce_only`, selling contracts that are no longer held would buy the other side.
      ...(action === 'sell' ? { reduce_only: true } : {}),
    });
  });

  it('that may rest has its expiry and post-only flag, and no reduce-only flag', () => {
    const expiresAt = new Date('2026-07-04T13:00:00.900Z');
    const rest = { expiresAt, postOnly: true, cancelOn: [] };
    expect(toWireOrder({ ...order, action: 'sell', timeInForce: 'good_till_time', rest })).toEqual({
      ticker: 'KXHIGHNY-26JUL04-B80.5',
      client_order_id: 'ours-1',
      side: 'ask',
      count: '10.00',
      price: '0.5600',
      time_in_force: 'good_till_canceled',
      self_trade_prevention_type: 'taker_at_cross',
      exchange_index: 0,
      expiration_time: Date.parse('2026-07-04T13:00:00Z') / 1000,
      post_only: true,
    });
    const open = { expiresAt: null, postOnly: false, cancelOn: [] };
    const wire = toWireOrder({ ...order, timeInForce: 'good_till_cancelled', rest: open });
    expect(Object.keys(wire)).not.toEqual(expect.arrayContaining(['expiration_time']));
    expect(wire).not.toHaveProperty('post_only');
  });

  it('keeps prices finer than a cent', () => {
    const price = (limit: string) =>
      toWireOrder({ ...order, side: 'no', limitPrice: parseDollars(limit) }).price;
    expect([price('0.0010'), price('0.123456')]).toEqual(['0.9990', '0.876544']);
  });
});

describe('fills from the wire', () => {
  const wire = (id: string, count: string, yes: string, fee = '0.0200') => ({
    fill_id: id,
    order_id: 'v1',
    ticker: order.ticker,
    count_fp: count,
    yes_price_dollars: yes,
    fee_cost: fee,
    created_time: `2026-07-04T12:00:0${id}Z`,
  });
  const sent = { ...order, side: 'no' } as SentOrder;

  it('are at the price of the side that was traded, oldest first', () => {
    const fills = toVenueFills(sent, [wire('2', '3.00', '0.5500'), wire('1', '7.00', '0.5600')]);
    expect(
      fills.map(({ venueFillId, price, contracts, fee }) => [venueFillId, price, contracts, fee]),
    ).toEqual([
      ['1', 440_000n, 7, 20_000n],
      ['2', 450_000n, 3, 20_000n],
    ]);
  });

  it('keep fractional contracts unchanged', () => {
    const fills = toVenueFills(sent, [wire('1', '2.50', '0.5600'), wire('2', '0.01', '0.5510', '0.0002')]);
    expect(fills).toMatchObject([
      { venueFillId: '1', price: 440_000n, contracts: 2.5, fee: 20_000n },
      { venueFillId: '2', price: 449_000n, contracts: 0.01, fee: 200n },
    ]);
  });
});

describe("the venue's answer to an order", () => {
  const judge = (status: number, body: unknown) =>
    readAnswer(
      { status, body: typeof body === 'string' ? body : JSON.stringify(body), contentType: 'text/html' },
      order,
    );
  const created = { order_id: 'v1', client_order_id: 'ours-1', fill_count: '4.00', remaining_count: '0.00' };
  const error = (code: string) => ({ error: { code, message: 'words' } });

  it.each([
    ['accepted', 201, created, 'accepted'],
    ['accepted, without our client order id', 201, { ...created, client_order_id: undefined }, 'accepted'],
    ['about another order', 201, { ...created, client_order_id: 'other' }, 'unexpected'],
    ['more filled than ordered', 201, { ...created, fill_count: '11.00' }, 'unexpected'],
    ['a renamed field', 201, { ...created, fill_count: undefined, filled: '4.00' }, 'unexpected'],
    ['a number instead of a string', 201, { ...created, fill_count: 4 }, 'unexpected'],
    ['an error with status 200', 200, error('deprecated_v1_order_endpoint'), 'unexpected'],
    ['a retired endpoint', 410, error('deprecated_v1_order_endpoint'), 'unexpected'],
    ['insufficient balance', 400, error('insufficient_balance'), 'refused'],
    ['a plain error', 400, { code: 'bad_request', message: 'bad' }, 'refused'],
    ['not signed', 401, error('authentication_error'), 'refused'],
    ['an unknown refusal', 400, { oops: true }, 'unexpected'],
    ['rate limited', 429, { error: 'too many requests' }, 'refused'],
    ['rate limited, as a page', 429, '<html>', 'refused'],
    ['killed', 409, error('fill_or_kill_insufficient_resting_volume'), 'killed'],
    ['a duplicate', 409, error('order_already_exists'), 'conflict'],
    ['a venue time-out', 408, error('timeout'), 'unclear'],
    ['a server error', 500, error('internal'), 'unclear'],
    ['a proxy page', 502, '<html>', 'unclear'],
    ['an HTML page', 200, '<html>', 'unclear'],
    ['cut short', 201, '{"order_id": "v', 'unclear'],
  ])('%s', (_name, status, body, kind) => {
    expect(judge(status, body).kind).toBe(kind);
  });

  it('has a remaining count only for an order that may rest', () => {
    const resting = { ...order, timeInForce: 'good_till_cancelled' } as const;
    const answer = { ...created, remaining_count: '6.00' };
    const read = (body: object, of: SentOrder) =>
      readAnswer({ status: 201, body: JSON.stringify(body), contentType: null }, of);
    expect(read(answer, resting)).toMatchObject({ kind: 'accepted', filled: 4, remaining: 6 });
    expect(read(answer, order)).toMatchObject({ kind: 'accepted', filled: 4, remaining: 0 });
    expect(read({ ...answer, remaining_count: '6.01' }, resting).kind).toBe('unexpected');
  });

  it.each([
    [
      'done',
      200,
      { order_id: 'v1', client_order_id: 'ours-1', reduced_by: '6.00', ts_ms: 1 },
      'acknowledged',
    ],
    ['about another order', 200, { order_id: 'v2', reduced_by: '6.00' }, 'unexpected'],
    ['a renamed field', 200, { id: 'v1' }, 'unexpected'],
    ['an error with status 200', 200, error('deprecated_v1_order_endpoint'), 'unexpected'],
    ['not found', 404, error('order_not_found'), 'refused'],
    ['a conflict', 409, error('conflict'), 'refused'],
    ['rate limited', 429, '<html>', 'refused'],
    ['a server error', 503, error('unavailable'), 'unclear'],
    ['an HTML page', 200, '<html>', 'unclear'],
  ])('to a cancellation: %s', (_name, status, body, kind) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    expect(readChange({ status, body: text, contentType: null }, 'v1').kind).toBe(kind);
  });

  it("gives the venue's own code as the reason, without unstorable characters", () => {
    expect(judge(400, { error: { code: 'invalid_order', message: 'm', details: 'post\u0000only' } })).toEqual(
      {
        kind: 'refused',
        reason: 'invalid_order: post only',
      },
    );
  });
});

describe('signing', () => {
  let folder: string;
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'gauge-key-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('signs time, method and path with RSA-PSS, SHA-256 and a salt of the digest’s length', () => {
    const path = '/trade-api/v2/portfolio/balance';
    const key = { id: 'key-1', privateKey: readSigningKey(write('key.pem', pem)) };
    const headers = signRequest(key, { atMs: 1_703_123_456_789, method: 'GET', path });
    expect(headers['KALSHI-ACCESS-KEY']).toBe('key-1');
    expect(headers['KALSHI-ACCESS-TIMESTAMP']).toBe('1703123456789');
    const signature = Buffer.from(headers['KALSHI-ACCESS-SIGNATURE']!, 'base64');
    const padding = constants.RSA_PKCS1_PSS_PADDING;
    const isValid = (text: string) =>
      verify('sha256', Buffer.from(text), { key: publicKey, padding, saltLength: 32 }, signature);
    expect(isValid(`1703123456789GET${path}`)).toBe(true);
    expect(isValid(`1703123456789POST${path}`)).toBe(false);
  });

  it('signs with Ed25519 if the key is Ed25519', () => {
    const pair = generateKeyPairSync('ed25519');
    const file = write('ed.pem', pair.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string);
    const path = '/trade-api/v2/portfolio/balance';
    const key = { id: 'key-2', privateKey: readSigningKey(file) };
    const headers = signRequest(key, { atMs: 1_703_123_456_789, method: 'GET', path });
    const signature = Buffer.from(headers['KALSHI-ACCESS-SIGNATURE']!, 'base64');
    const isValid = (text: string) => verify(null, Buffer.from(text), pair.publicKey, signature);
    expect(isValid(`1703123456789GET${path}`)).toBe(true);
    expect(isValid(`1703123456789POST${path}`)).toBe(false);
  });

  it('matches the Ed25519 test vector of RFC 8032', () => {
    // Test 1 of the RFC: the secret key in PKCS #8, and its known public key. Requests are never empty, so this test
    // signs and verifies a text instead of the RFC's empty message.
    const secret = '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60';
    const known = 'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a';
    const der = Buffer.from(`302e020100300506032b657004220420${secret}`, 'hex');
    const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
    const spki = Buffer.from(`302a300506032b6570032100${known}`, 'hex');
    const publicKey = createPublicKey({ key: spki, format: 'der', type: 'spki' });
    const headers = signRequest({ id: 'k', privateKey }, { atMs: 1, method: 'DELETE', path: '/x' });
    const signature = Buffer.from(headers['KALSHI-ACCESS-SIGNATURE']!, 'base64');
    expect(signature).toHaveLength(64);
    expect(verify(null, Buffer.from('1DELETE/x'), publicKey, signature)).toBe(true);
  });

  it('reads keys in both forms, and detects whether others may read the file', () => {
    const old = write('old.pem', privateKey.export({ type: 'pkcs1', format: 'pem' }) as string);
    expect(readSigningKey(old).asymmetricKeyType).toBe('rsa');
    expect(isReadableByOthers(old)).toBe(false);
    chmodSync(old, 0o644);
    expect(isReadableByOthers(old)).toBe(true);
  });

  it('fails with a configuration error that names the reason and never shows the file', () => {
    const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    const files: [string, RegExp][] = [
      [join(folder, 'none.pem'), /does not exist/],
      [folder, /is a folder/],
      [write('empty.pem', ''), /is not a private key/],
      [
        write('public.pem', publicKey.export({ type: 'spki', format: 'pem' }) as string),
        /is not a private key/,
      ],
      [write('cut.pem', pem.slice(0, 400)), /is not a private key/],
      [write('ec.pem', ec.export({ type: 'pkcs8', format: 'pem' }) as string), /is a key for ec/],
      [
        write(
          'locked.pem',
          privateKey.export({
            type: 'pkcs8',
            format: 'pem',
            cipher: 'aes-256-cbc',
            passphrase: 'x',
          }) as string,
        ),
        /is encrypted/,
      ],
    ];
    for (const [file, reason] of files) {
      const read = () => readVenueKey({ keyId: 'k', privateKeyFile: file }, pino({ level: 'silent' }));
      expect(read, file).toThrow(ConfigError);
      expect(read, file).toThrow(reason);
      expect(read, file).not.toThrow(pem.slice(100, 130));
    }
  });

  it('never prints the key', () => {
    const key = readVenueKey(
      { keyId: 'k', privateKeyFile: write('key.pem', pem) },
      pino({ level: 'silent' }),
    );
    expect(JSON.stringify(key)).toBe('{"id":"k","privateKey":{}}');
    expect(inspect(key)).not.toContain(pem.slice(100, 130));
  });
});

describe('the comparison', () => {
  const mine: OurOrder = {
    clientOrderId: 'ours-1',
    venueOrderId: 'v1',
    status: 'filled',
    contracts: 10,
    filledContracts: 10,
    reserved: 0n,
  };
  const ours: Ours = {
    cash: 100_000_000n,
    positions: [{ ticker: 'A', side: 'yes', contracts: 10 }],
    orders: [mine],
    expected: new Set(['ours-1']),
    foreignPositions: {},
    accepted: [],
    settled: [],
  };
  const wireOrder = {
    order_id: 'v1',
    client_order_id: 'ours-1',
    ticker: 'A',
    status: 'executed' as const,
    yes_price_dollars: '0.5000',
    initial_count_fp: '10.00',
    fill_count_fp: '10.00',
    remaining_count_fp: '0.00',
    created_time: '2026-07-04T12:00:00Z',
  };
  const exactly = (amount: bigint) => ({ amount, step: 1n });
  const venues: Venues = {
    cash: exactly(100_000_000n),
    positions: [{ ticker: 'A', position_fp: '10.00' }],
    orders: [wireOrder],
    fills: [],
    settlements: [],
    transfers: [],
  };
  const differ = (mine: Partial<Ours>, theirs: Partial<Venues>) =>
    compareWithVenue({ ...ours, ...mine }, { ...venues, ...theirs });
  const told = (mine: Partial<Ours>, theirs: Partial<Venues>) =>
    differ(mine, theirs).differences.map((one) => `${one.kind} ${one.subject}: ${one.ours} / ${one.venues}`);

  it('finds no difference if both sides agree, to the resolution of the venue’s cash', () => {
    expect(told({}, {})).toEqual([]);
    expect(told({}, { cash: exactly(100_000_100n) })).toEqual(['cash cash: 100.0000 / 100.0001']);
    const inCents = { amount: 100_000_000n, step: CENT };
    expect(told({ cash: 100_009_900n }, { cash: inCents })).toEqual([]);
    expect(told({ cash: 100_010_000n }, { cash: inCents })).toHaveLength(1);
  });

  it('reports each difference', () => {
    expect(told({}, { cash: exactly(99_990_000n) })).toEqual(['cash cash: 100.0000 / 99.9900']);
    expect(told({}, { positions: [] })).toEqual(['position A: 10.00 / 0.00']);
    expect(told({}, { positions: [{ ticker: 'A', position_fp: '-10.00' }] })).toEqual([
      'position A: 10.00 / -10.00',
    ]);
    expect(told({}, { orders: [] })).toEqual(['order v1: filled, 10.00 filled / not listed']);
    expect(told({}, { orders: [{ ...wireOrder, fill_count_fp: '12.00' }] })).toEqual([
      'fill v1: filled, 10.00 filled / executed, 12.00 filled',
    ]);
    expect(told({}, { orders: [{ ...wireOrder, status: 'resting' }] })).toEqual([
      'order v1: filled, 10.00 filled / resting, 10.00 filled',
    ]);
  });

  const resting: OurOrder = { ...mine, status: 'resting', filledContracts: 4, reserved: 3_000_000n };
  const restingThere = {
    ...wireOrder,
    status: 'resting' as const,
    fill_count_fp: '4.00',
    remaining_count_fp: '6.00',
  };

  it('matches an order that rests on both sides, and allows for the cash that it may take', () => {
    const both = { orders: [restingThere] };
    const ofOurs = { orders: [resting] };
    expect(told(ofOurs, both)).toEqual([]);
    for (const cash of [100_000_000n, 98_000_000n, 97_000_000n])
      expect(told(ofOurs, { ...both, cash: exactly(cash) })).toEqual([]);
    expect(told(ofOurs, { ...both, cash: exactly(96_999_900n) })).toEqual(['cash cash: 97.0000 / 96.9999']);
    expect(told(ofOurs, { ...both, cash: exactly(100_000_100n) })).toHaveLength(1);
    // Another party's order may cost up to a dollar per contract.
    const foreign = { ...restingThere, order_id: 'v2', client_order_id: '' };
    const more = { orders: [restingThere, foreign] };
    expect(told(ofOurs, { ...more, cash: exactly(91_000_000n) })).toEqual([]);
    expect(told(ofOurs, { ...more, cash: exactly(90_990_000n) })).toHaveLength(1);
  });

  it('looks up a resting order whose state differs', () => {
    const changes: Partial<VenueOrder>[] = [
      { fill_count_fp: '5.00', remaining_count_fp: '5.00' },
      { remaining_count_fp: '2.00' },
      { status: 'canceled', remaining_count_fp: '0.00' },
      { status: 'executed', fill_count_fp: '10.00', remaining_count_fp: '0.00' },
    ];
    for (const change of changes) {
      const found = differ({ orders: [resting] }, { orders: [{ ...restingThere, ...change }] });
      expect(found).toMatchObject({ late: ['ours-1'], differences: [{ kind: 'order', subject: 'v1' }] });
    }
    expect(differ({ orders: [resting], expected: new Set() }, { orders: [] })).toMatchObject({
      late: ['ours-1'],
      lost: ['ours-1'],
      differences: [{ ours: 'resting, 4.00 filled', venues: 'not listed' }],
    });
    const ended: OurOrder = { ...resting, status: 'partially_filled', reserved: 0n };
    expect(differ({ orders: [ended] }, { orders: [restingThere] })).toMatchObject({
      late: ['ours-1'],
      differences: [{ ours: 'partially_filled, 4.00 filled', venues: 'resting, 4.00 filled, 6.00 left' }],
    });
  });

  it('does not report an accepted order difference again until it changes', () => {
    const accepted = ['v1 filled, 10.00 filled executed, 12.00 filled'];
    expect(told({ accepted }, { orders: [{ ...wireOrder, fill_count_fp: '12.00' }] })).toEqual([]);
    expect(told({ accepted }, { orders: [{ ...wireOrder, fill_count_fp: '13.00' }] })).toHaveLength(1);
  });

  it('shows the activity of others and leaves it alone', () => {
    const foreign = { ...wireOrder, order_id: 'v2', client_order_id: '', status: 'resting' as const };
    const fill = {
      fill_id: 'f2',
      order_id: 'v2',
      ticker: 'B',
      count_fp: '2.50',
      yes_price_dollars: '0.3000',
      fee_cost: '0.0100',
    };
    const { differences, foreign: shown } = differ(
      { foreignPositions: { B: 250 } },
      {
        orders: [wireOrder, foreign],
        fills: [fill],
        positions: [...venues.positions, { ticker: 'B', position_fp: '2.50' }],
      },
    );
    expect(differences).toEqual([]);
    expect(shown).toMatchObject({
      orders: [{ venueOrderId: 'v2', status: 'resting' }],
      fills: [{ venueFillId: 'f2', contracts: '2.50', yesPrice: 300_000n }],
      positions: [{ ticker: 'B', contracts: '2.50' }],
    });
  });

  it('waits while only one side has settled a market', () => {
    const there = {
      positions: [],
      cash: exactly(110_000_000n),
      settlements: [
        { ticker: 'A', market_result: 'yes', revenue: 1000, settled_time: '2026-07-05T12:00:00Z' },
      ],
    };
    expect(differ({}, there)).toMatchObject({ differences: [], settling: ['A'] });
    const settled = [{ ticker: 'A', side: 'yes' as const, contracts: 10, cashChange: 10_000_000n }];
    const here = { positions: [], settled, cash: 110_000_000n };
    expect(differ(here, {})).toMatchObject({ differences: [], settling: ['A'] });
    // A wrong amount is still reported as a difference.
    expect(differ({}, { ...there, cash: exactly(109_000_000n) }).differences).toHaveLength(1);
  });
});
