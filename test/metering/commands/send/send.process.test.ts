import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, request as forward, type Server } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createKey, createOrganization, createServiceKey, uniqueSlug } from '../../../support/fixtures.js';
import { createProduct, grant } from '../../support/products.js';
import { operatorToken } from '../../../support/operator.js';
import { createFolder, send, startSend } from './run-send.js';
import { useService } from '../../../support/use.js';

// Some tests start processes, which is slow on a busy machine.

const { database, service } = useService();

const folder = createFolder();
afterAll(async () => {
  folder.remove();
});

/** Creates an Organization with a key and a live entitlement for each product. */
async function entitled(slugs: string[], usageMetric = 'contracts', unitCap: string | null = null) {
  const organization = await createOrganization(database.db);
  for (const slug of slugs) {
    const product = await createProduct(database.db, { slug, usageMetric, unitCap });
    await grant(database.db, organization.id, product.id);
  }
  const key = await createKey(database.db, organization.id);
  return { organization, env: { GAUGE_URL: service.url, GAUGE_API_KEY: key.secret } };
}

/** An Organization's recorded usage by product, from both events and totals. */
async function recorded(orgId: string) {
  const result: unknown = await database.db.orm.execute(sql`
    select p.slug, trim_scale(t.quantity)::text as total, t.events::text as counted,
      (select trim_scale(sum(quantity))::text from usage_events e where e.org_id = t.org_id and e.product_id = t.product_id) as sum,
      (select count(*)::text from usage_events e where e.org_id = t.org_id and e.product_id = t.product_id) as events
    from usage_totals t join products p on p.id = t.product_id where t.org_id = ${orgId} order by 1`);
  return (result as { rows: Record<'slug' | 'total' | 'counted' | 'sum' | 'events', string>[] }).rows;
}

type Trades = Record<string, Record<string, { trade_id: string; count: number }[]>>;

/** The expected sums from the file: contracts and number of trades per series. */
function sumsOf(trades: Trades) {
  return Object.entries(trades)
    .map(([series, tickers]) => {
      const list = Object.values(tickers).flat();
      const total = String(list.reduce((sum, trade) => sum + trade.count, 0));
      const events = String(list.length);
      return { slug: series.toLowerCase(), total, counted: events, sum: total, events };
    })
    .toSorted((a, b) => (a.slug < b.slug ? -1 : 1));
}

const tradeFlags =
  '--product-slug lower($1) --metric =contracts --quantity count --idempotency-key trade_id --occurred-at none'.split(
    ' ',
  );

const smallTrades: Trades = {
  SERIESA: {
    'SERIESA-1': [
      { trade_id: 'a1', count: 10 },
      { trade_id: 'a2', count: 1 },
    ],
    'SERIESA-2': [{ trade_id: 'a3', count: 27 }],
    'SERIESA-3': [],
  },
  SERIESB: { 'SERIESB-1': [{ trade_id: 'b1', count: 4 }] },
};

const day = fileURLToPath(
  new URL('../../../../../shared/data/kalshi/raw_trades_5cities_2025-04-15.json.gz', import.meta.url),
);

describe('recorded trades in one JSON document', () => {
  async function sendTwice(file: string, trades: Trades) {
    const sums = sumsOf(trades);
    const count = sums.reduce((sum, { events }) => sum + Number(events), 0);
    const { organization, env } = await entitled(sums.map(({ slug }) => slug));
    const first = await send([file, ...tradeFlags, '--json'], env);
    expect(first).toMatchObject({ code: 0, summary: { accepted: count, deduped: 0, rejected: 0 } });
    const second = await startSend([file, ...tradeFlags, '--json'], env).ended;
    expect(second).toMatchObject({ code: 0, summary: { accepted: 0, deduped: count, warnings: [] } });
    expect(await recorded(organization.id)).toEqual(sums);
    expect(existsSync(`${file}.rejected.ndjson`)).toBe(false);
  }

  it('are counted once when sent twice', async () => {
    const file = folder.path('small.json.gz');
    writeFileSync(file, gzipSync(JSON.stringify(smallTrades)));
    await sendTwice(file, smallTrades);
  });

  it.skipIf(!existsSync(day))('of a whole day are counted once when sent twice', async () => {
    const trades = JSON.parse(gunzipSync(readFileSync(day)).toString()) as Trades;
    expect(Object.values(trades).flatMap((t) => Object.values(t).flat())).toHaveLength(6108);
    const file = folder.path('day.json.gz');
    copyFileSync(day, file);
    await sendTwice(file, trades);
  });
});

describe('rejected records', () => {
  it('include live events whose keys belong to test events, because they would never count', async () => {
    const { organization, env } = await entitled(['both-modes'], 'calls');
    const { secret } = await createKey(database.db, organization.id, { livemode: false });
    const event = (idempotencyKey: string) =>
      JSON.stringify({ productSlug: 'both-modes', metric: 'calls', idempotencyKey });
    const file = folder.path('both-modes.ndjson');
    writeFileSync(file, [event('a'), event('b')].join('\n'));
    expect((await send([file], { ...env, GAUGE_API_KEY: secret })).code).toBe(0);
    writeFileSync(file, [event('c'), event('a'), event('b')].join('\n'));
    const run = await send([file, '--json'], env);
    expect(run.code).toBe(1);
    expect(run.summary).toMatchObject({ accepted: 1, deduped: 0, rejected: 2, warnings: [] });
    expect(readFileSync(`${file}.rejected.ndjson`, 'utf8')).toMatch(/"duplicate_mismatch".*other mode/);
  });

  it('go to a file with line, reason and record, and the rest is recorded', async () => {
    const { organization, env } = await entitled(['good-one'], 'calls');
    const event = (idempotencyKey: unknown, more: object = {}) =>
      JSON.stringify({ productSlug: 'good-one', metric: 'calls', idempotencyKey, ...more });
    const lines = [
      event('a', { quantity: 2 }),
      '{"productSlug":',
      event('b', { quantity: 'many' }),
      event('c', { productSlug: 'unknown' }),
      event('d', { metric: 'bytes' }),
      event('e', { occurredAt: 'yesterday' }),
      event('f', { occurredAt: '2001-01-01T00:00:00Z' }),
      event('\u0000'),
      event('\ud800'),
      event('x'.repeat(300)),
      event(undefined),
      '"text"',
      '{"__proto__":{"productSlug":"good-one"},"metric":"calls","idempotencyKey":"g"}',
      event('<script>🙂'),
      '',
      event('h', { quantity: -1 }),
      event('i', { quantity: '0.10' }),
    ];
    const file = folder.path('mixed.ndjson');
    writeFileSync(file, `${lines.join('\n')}\n`);
    const run = await send([file, '--json'], env);
    expect(run.code).toBe(1);
    expect(run.summary).toMatchObject({ records: 16, accepted: 3, deduped: 0, rejected: 13 });
    expect(run.summary.rejectedFile).toBe(`${file}.rejected.ndjson`);
    const rejected = readFileSync(`${file}.rejected.ndjson`, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(rejected.map(({ line, code }) => [line, code])).toEqual([
      [2, 'invalid_record'],
      [3, 'invalid_record'],
      [4, 'entitlement_required'],
      [5, 'unknown_metric'],
      [6, 'invalid_record'],
      [7, 'timestamp_out_of_range'],
      [8, 'invalid_request'],
      [9, 'invalid_request'],
      [10, 'invalid_request'],
      [11, 'invalid_record'],
      [12, 'invalid_record'],
      [13, 'invalid_record'],
      [16, 'invalid_record'],
    ]);
    expect(rejected[0]).toMatchObject({ event: null, original: '{"productSlug":' });
    expect(rejected[4]).toMatchObject({ event: null, detail: 'The time "yesterday" cannot be read.' });
    expect(rejected[5]).toMatchObject({
      event: { productSlug: 'good-one', occurredAt: '2001-01-01T00:00:00Z' },
      original: { idempotencyKey: 'f' },
    });
    expect(rejected[9]!.detail).toMatch(/--idempotency-key/);
    expect(await recorded(organization.id)).toMatchObject([{ total: '3.1', events: '3' }]);
  });
});

describe('standard input', () => {
  it('may be gzipped CSV, and quantities keep all their digits', async () => {
    const { organization, env } = await entitled(['exact'], 'bytes', '1');
    const csv = [
      'id;amount;note',
      '12345678901234567890;0.12345678901234567890;plain',
      '12345678901234567891;1e1;"two',
      'lines; and a ""quote"""',
      '',
    ].join('\r\n');
    const flags = ['--format', 'csv', '--delimiter', ';', '--product-slug', '=exact', '--metric', '=bytes'];
    const mapping = ['--quantity', 'amount', '--idempotency-key', 'id'];
    const rejected = ['--rejected', folder.path('stdin.rejected')];
    const run = await send(['-', ...flags, ...mapping, ...rejected], env, gzipSync(csv));
    expect(run.code).toBe(0);
    expect(run.stdout).toMatch(/Sent 2 records to .* accepted +2\n +deduped +0\n +rejected +0\n/s);
    expect(run.stdout.match(/exact is above its cap/g)).toHaveLength(1);
    expect(await recorded(organization.id)).toMatchObject([{ total: '10.1234567890123456789' }]);
  });

  it('needs a format, because it has no extension', async () => {
    const run = await send(['-'], { GAUGE_URL: service.url, GAUGE_API_KEY: 'org_live_x' }, '');
    expect(run).toMatchObject({ code: 2, stderr: expect.stringMatching(/--format/) });
  });
});

it('a dry run records nothing', async () => {
  const { organization, env } = await entitled(['dry'], 'calls');
  const file = folder.path('dry.jsonl');
  writeFileSync(file, '{"productSlug":"dry","metric":"calls","idempotencyKey":"a"}');
  const run = await send([file, '--dry-run', '--json'], env);
  expect(run).toMatchObject({ code: 0, summary: { dryRun: true, accepted: 1 } });
  expect(await recorded(organization.id)).toEqual([]);
});

it('sends old events for an Organization as the operator, and counts them once', async () => {
  const { organization } = await entitled(['old'], 'calls');
  const occurredAt = new Date(service.clock.now() - 30 * 86_400_000).toISOString();
  const lines = Array.from({ length: 1_200 }, (_, i) =>
    JSON.stringify({
      productSlug: i === 7 ? 'unknown' : 'old',
      metric: 'calls',
      quantity: 1,
      occurredAt: i === 8 ? '2020-01-01T00:00:00Z' : occurredAt,
      idempotencyKey: `old-${i}`,
    }),
  );
  const file = folder.path('old.ndjson');
  writeFileSync(file, lines.join('\n'));
  const env = { GAUGE_URL: service.url, OPERATOR_TOKEN: operatorToken };
  const to = ['--organization', organization.slug];
  const dry = await send([file, ...to, '--dry-run', '--json'], env);
  expect(dry).toMatchObject({ code: 1, summary: { dryRun: true, accepted: 1_198 } });
  expect(await recorded(organization.id)).toEqual([]);
  const first = await send([file, ...to, '--json'], env);
  expect(first).toMatchObject({ code: 1, summary: { accepted: 1_198, deduped: 0, rejected: 2 } });
  const rejected = readFileSync(`${file}.rejected.ndjson`, 'utf8');
  expect(rejected).toContain('entitlement_required');
  expect(rejected).toContain('timestamp_out_of_range');
  expect(await send([file, ...to, '--json'], env)).toMatchObject({
    summary: { accepted: 0, deduped: 1_198 },
  });
  expect(await recorded(organization.id)).toMatchObject([{ total: '1198' }]);
  const test = `{"productSlug":"old","metric":"calls","idempotencyKey":"test","occurredAt":"${occurredAt}"}`;
  const asTest = await send(['-', '--format', 'ndjson', ...to, '--test', '--json'], env, test);
  expect(asTest).toMatchObject({ code: 0, summary: { accepted: 1 } });
});

it.each([
  [['--organization', 'nobody'], operatorToken, 'There is no Organization "nobody".'],
  [['--organization', 'nobody'], 'another token of the operator', 'This is not the operator token.'],
  [['--organization', 'nobody'], '', 'OPERATOR_TOKEN is not set'],
  [['--test'], operatorToken, '--test needs --organization'],
])('sends nothing with %j and the token %j', async (flags, token, problem) => {
  const file = folder.path('nothing.ndjson');
  writeFileSync(file, '{"productSlug":"p","metric":"calls","idempotencyKey":"a"}');
  const { code, stderr } = await send([file, ...flags], {
    GAUGE_URL: service.url,
    GAUGE_API_KEY: 'x',
    OPERATOR_TOKEN: token,
  });
  expect([code, stderr]).toEqual([2, expect.stringContaining(problem)]);
});

describe('a file of many Organizations', () => {
  const columns = '--organization-column customer --product-slug =many --metric =calls --quantity n'.split(
    ' ',
  );

  async function arrive() {
    const product = await createProduct(database.db, { slug: uniqueSlug('many'), unitCap: '5' });
    const organizations = await Promise.all(['a', 'b'].map(() => createOrganization(database.db)));
    for (const { id } of organizations) await grant(database.db, id, product.id);
    const { secret } = await createServiceKey(database.db, ['usage:write', 'usage:read']);
    const flags = columns.map((flag) => flag.replace('=many', `=${product.slug}`));
    return { organizations, flags, env: { GAUGE_URL: service.url, GAUGE_API_KEY: secret } };
  }

  it('is counted once for each of them, and the rejected file names them', async () => {
    const { organizations, flags, env } = await arrive();
    const [one, other] = organizations.map(({ slug }) => slug);
    const rows = Array.from({ length: 1_200 }, (_, i) => `${i % 2 ? one : other},${i >> 1},1`);
    // An Organization's keys are its own: both have the keys 0 to 599.
    rows.splice(700, 0, 'nobody,x,1', ',y,1', `${one},0,1`, `${other},z,-1`, 'nobody,w,1');
    const file = folder.path('many.csv');
    writeFileSync(file, ['customer,idempotencyKey,n', ...rows].join('\n'));
    const run = await send([file, ...flags, '--json'], env);
    expect(run).toMatchObject({
      code: 1,
      summary: { accepted: 1_200, deduped: 0, rejected: 5, repeated: 1 },
    });
    for (const { id } of organizations)
      expect(await recorded(id)).toMatchObject([{ total: '600', events: '600' }]);
    expect(run.summary.warnings).toMatchObject([
      { code: 'unit_cap_exceeded', organization: expect.any(String) },
      { code: 'unit_cap_exceeded', organization: expect.any(String) },
    ]);
    const rejected = readFileSync(`${file}.rejected.ndjson`, 'utf8').trim().split('\n');
    expect(rejected.map((line) => JSON.parse(line) as object)).toMatchObject([
      { line: 702, code: 'not_found', event: { organization: 'nobody', idempotencyKey: 'x' } },
      { line: 703, code: 'invalid_record', detail: expect.stringContaining('--organization-column') },
      { line: 704, code: 'repeated_key', event: { organization: one } },
      { line: 705, code: 'invalid_record' },
      { line: 706, code: 'not_found', detail: 'There is no Organization "nobody".' },
    ]);
    const again = await send([file, ...flags], env);
    expect(again.stdout).toMatch(/deduped +1,200\n/);
    expect(again.stdout).toMatch(new RegExp(`is above its cap`));
    expect(again.stdout).toContain(` of ${one} is above its cap`);
  });

  it('can be checked in a dry run', async () => {
    const { organizations, flags, env } = await arrive();
    const ndjson = `{"customer":"${organizations[0]!.slug}","idempotencyKey":"a","n":1}`;
    const run = await send(['-', '--format', 'ndjson', ...flags, '--dry-run', '--json'], env, ndjson);
    expect(run).toMatchObject({ code: 0, summary: { accepted: 1 } });
    expect(await recorded(organizations[0]!.id)).toEqual([]);
  });

  it.each([
    [['--organization-column', 'customer'], 'org_live_x', '--organization-column needs a service key'],
    [['--organization-column', 'a', '--organization', 'b'], 'service_live_x', 'not both'],
    [['--organization-column', 'a', '--test'], 'service_live_x', '--test needs an operator token'],
    [['--organization-column', '='], 'service_live_x', 'has no value after the equals sign'],
    [['--organization', '..'], 'service_live_x', 'It is not the slug of an Organization.'],
    [[], 'service_live_x', 'Add --organization SLUG or --organization-column FIELD.'],
    [['--organization-column', 'missing'], 'service_live_x', 'missing'],
  ])('is not sent with %j and the key %s', async (flags, key, problem) => {
    const { code, stderr } = await send(
      ['-', '--format', 'csv', ...flags],
      { GAUGE_API_KEY: key },
      'a,b\n1,2\n',
    );
    expect([code, stderr]).toEqual([2, expect.stringContaining(problem)]);
  });
});

it('an invalid key stops the run and shows the reason', async () => {
  const file = folder.path('refused.ndjson');
  writeFileSync(file, '{"productSlug":"p","metric":"calls","idempotencyKey":"a"}\n'.repeat(3000));
  const key = `org_live_${'0'.repeat(32)}`;
  const run = await send([file, '--json'], { GAUGE_URL: service.url, GAUGE_API_KEY: key });
  expect(run).toMatchObject({ code: 2, summary: { state: 'stopped', records: 0 } });
  expect(run.stderr).toMatch(/There is no such key\. \(401 invalid_key\)/);
  expect(run.stdout + run.stderr).not.toContain(key);
});

describe('a run that ends early', () => {
  const count = 3000;
  let slow: Server;
  let slowUrl: string;
  let answered = 0;

  /** Puts a slow proxy in front of the service, which leaves time to kill the run halfway. */
  beforeAll(async () => {
    slow = createServer((req, res) => {
      const chunks: Buffer[] = [];
      req.on('data', (chunk: Buffer) => chunks.push(chunk));
      req.on('end', async () => {
        await setTimeout(40);
        const { method, url, headers } = req;
        const passed = forward(service.url + url!, { method: method!, headers }, (answer) => {
          answered++;
          res.writeHead(answer.statusCode!, answer.headers);
          answer.pipe(res);
        });
        passed.on('error', () => res.destroy());
        passed.end(Buffer.concat(chunks));
      });
    });
    await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve));
    slowUrl = `http://127.0.0.1:${(slow.address() as { port: number }).port}`;
  });
  afterAll(() => {
    slow.close();
    slow.closeAllConnections();
  });

  async function prepare(name: string) {
    const { organization, env } = await entitled([name], 'calls');
    const file = folder.path(`${name}.ndjson`);
    const events = Array.from({ length: count }, (_, i) => ({
      productSlug: name,
      metric: 'calls',
      idempotencyKey: `${i}`,
      quantity: i % 7,
    }));
    const broken = [...events.slice(0, 100), { productSlug: 'nobody' }, ...events.slice(100)];
    writeFileSync(file, broken.map((event) => JSON.stringify(event)).join('\n'));
    const total = String(events.reduce((sum, { quantity }) => sum + quantity, 0));
    const args = [file, '--batch', '50', '--concurrency', '2', '--json'];
    return { organization, file, total, args, env: { ...env, GAUGE_URL: slowUrl } };
  }

  async function waitUntilHalfway() {
    const goal = answered + 20;
    while (answered < goal) await setTimeout(10);
  }

  async function expectEverythingOnce(prepared: Awaited<ReturnType<typeof prepare>>) {
    const { organization, file, total, args, env } = prepared;
    const run = await send(args, env);
    expect(run.code).toBe(1);
    const { summary } = run;
    expect(summary.deduped).toBeGreaterThan(0);
    expect(summary.accepted + summary.deduped).toBe(count);
    expect(summary.rejected).toBe(1);
    expect(readFileSync(`${file}.rejected.ndjson`, 'utf8').trim().split('\n')).toHaveLength(1);
    expect(await recorded(organization.id)).toMatchObject([{ total, events: String(count), sum: total }]);
  }

  it('counts every event once if it is sent again after being killed', async () => {
    const prepared = await prepare('killed');
    const { child, ended } = startSend(prepared.args, prepared.env);
    await waitUntilHalfway();
    child.kill('SIGKILL');
    await ended;
    await expectEverythingOnce(prepared);
  });

  it('stops cleanly on the first interrupt and may be sent again', async () => {
    const prepared = await prepare('interrupted');
    const { child, ended } = startSend(prepared.args, prepared.env);
    await waitUntilHalfway();
    child.kill('SIGINT');
    const run = await ended;
    expect(run).toMatchObject({ code: 130, summary: { state: 'stopped' } });
    expect(run.summary.accepted).toBeLessThan(count);
    await expectEverythingOnce(prepared);
  });
});
