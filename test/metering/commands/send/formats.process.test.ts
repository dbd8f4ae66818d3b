import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { namedFormats } from '../../../../src/metering/commands/send/formats.js';
import { createFolder, send } from './run-send.js';

type SentEvent = Record<string, unknown> & { idempotencyKey: string };

const folder = createFolder();
let server: Server;
let env: { GAUGE_URL: string; GAUGE_API_KEY: string };
let sent: SentEvent[];

/** Accepts every event and keeps it. */
beforeAll(async () => {
  server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const { events } = JSON.parse(Buffer.concat(chunks).toString()) as { events: SentEvent[] };
    sent.push(...events);
    res.writeHead(202, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ accepted: events.length, deduped: 0, warnings: [], rejected: [] }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  env = { GAUGE_URL: `http://127.0.0.1:${port}`, GAUGE_API_KEY: 'org_live_key' };
});
beforeEach(() => void (sent = []));
afterEach(() => expect(new Set(sent.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(sent.length));
afterAll(() => {
  server.close();
  server.closeAllConnections();
  folder.remove();
});

const run = (file: string, args: string) =>
  send(
    [file, ...args.split(' ').filter(Boolean), '--json', '--concurrency', '1', '--rejected', rejected],
    env,
  );
const rejected = folder.path('rejected.ndjson');
async function runText(name: string, text: string, args: string) {
  const file = folder.path(name);
  writeFileSync(file, text);
  return run(file, args);
}

const json = JSON.stringify;
const lines = (...records: object[]) => records.map((record) => json(record)).join('\n');

/** Each format's own fields, in two records that differ only where their keys must. */
const examples: Record<keyof typeof namedFormats, { file: string; text: string; events: object[] }> = {
  openmeter: {
    file: 'openmeter.json',
    text: json(
      ['eu', 'us'].map((source) => ({
        event: { id: '1', source, type: 'calls', subject: 'c', time: '2026-11-26T07:53:05Z', data: {} },
      })),
    ),
    events: ['eu/1', 'us/1'].map((idempotencyKey) => ({
      productSlug: 'p',
      metric: 'calls',
      occurredAt: '2026-11-26T07:53:05Z',
      subject: 'c',
      idempotencyKey,
    })),
  },
  lago: {
    file: 'lago.csv',
    text: 'transaction_id,external_subscription_id,code,timestamp,properties\nt,a,calls,1795679585.123,"{""n"":5}"\nt,b,calls,1795679585,{}\n',
    events: [
      { metric: 'calls', occurredAt: '2026-11-26T07:53:05.123Z', subject: 'a', idempotencyKey: 'a/t' },
      { metric: 'calls', occurredAt: '2026-11-26T07:53:05Z', subject: 'b', idempotencyKey: 'b/t' },
    ],
  },
  stripe: {
    file: 'stripe.csv',
    text: 'identifier,event_name,timestamp,payload_stripe_customer_id,payload_value\ni,calls,1795679585,cus_A,100\n',
    events: [
      {
        metric: 'calls',
        quantity: 100,
        occurredAt: '2026-11-26T07:53:05Z',
        subject: 'cus_A',
        idempotencyKey: 'i',
      },
    ],
  },
  litellm: {
    file: 'litellm.csv',
    text: 'request_id,total_tokens,startTime,user\nr,30,2026-11-26 07:53:05.123,\n',
    events: [{ metric: 'tokens', quantity: 30, occurredAt: '2026-11-26T07:53:05.123Z', idempotencyKey: 'r' }],
  },
  openai: {
    file: 'openai.json',
    text: json({
      data: [
        {
          start_time: 1795651200,
          end_time: 1795737600,
          results: ['a', 'b'].map((model) => ({ model, project_id: 'x', user_id: null, input_tokens: 7 })),
        },
        { start_time: 1795737600, end_time: 1795824000, results: [] },
      ],
    }),
    events: ['a', 'b'].map((model) => ({
      metric: 'input_tokens',
      quantity: 7,
      occurredAt: '2026-11-26T00:00:00Z',
      idempotencyKey: `input_tokens/1795651200/1795737600/x///${model}/`,
    })),
  },
  anthropic: {
    file: 'anthropic.json',
    text: json({
      data: [
        {
          starting_at: '2026-11-26T00:00:00Z',
          ending_at: '2026-11-27T00:00:00Z',
          results: [{ workspace_id: 'w', model: 'm', output_tokens: 9 }],
        },
      ],
    }),
    events: [{ metric: 'output_tokens', quantity: 9, occurredAt: '2026-11-26T00:00:00Z', subject: 'w' }],
  },
  'aws-cur': {
    file: 'cur.csv',
    text: 'identity/LineItemId,identity/TimeInterval,lineItem/UsageAccountId,lineItem/UsageStartDate,lineItem/ProductCode,lineItem/UsageType,lineItem/UsageAmount\nx,A/B,4,2026-11-26T07:00:00Z,AmazonS3,Requests,0.0000000001\nx,B/C,4,2026-11-26T07:00:00Z,AmazonS3,Requests,1\n',
    events: ['A/B/x', 'B/C/x'].map((idempotencyKey) => ({
      productSlug: 'amazons3',
      metric: 'Requests',
      idempotencyKey,
    })),
  },
  nginx: {
    file: 'nginx.ndjson',
    text: lines({ time: '2026-11-26T07:53:05+00:00', request_id: 'q', remote_user: '' }),
    events: [
      { metric: 'requests', quantity: 1, occurredAt: '2026-11-26T07:53:05+00:00', idempotencyKey: 'q' },
    ],
  },
  orb: {
    file: 'orb.ndjson',
    text: lines({
      event_name: 'calls',
      idempotency_key: 'k',
      external_customer_id: 'c',
      timestamp: '2026-11-26T07:53:05Z',
      properties: { n: 4 },
    }),
    events: [{ metric: 'calls', subject: 'c', occurredAt: '2026-11-26T07:53:05Z', idempotencyKey: 'k' }],
  },
  metronome: {
    file: 'metronome.ndjson',
    text: lines({
      event_type: 'calls',
      transaction_id: 'k',
      customer_id: 'c',
      timestamp: '2026-11-26T07:53:05Z',
    }),
    events: [{ metric: 'calls', subject: 'c', occurredAt: '2026-11-26T07:53:05Z', idempotencyKey: 'k' }],
  },
};

it.each(Object.entries(examples))(
  '--format %s reads an export as it is',
  async (name, { file, text, events }) => {
    const product = name === 'aws-cur' ? '' : '--product-slug =p';
    const ended = await runText(file, text, `--format ${name} ${product}`);
    expect(ended).toMatchObject({ code: 0, summary: { accepted: events.length, rejected: 0 } });
    expect(sent).toMatchObject(events);
  },
);

it('a flag replaces a field of the format, and the key follows the metric', async () => {
  const { text } = examples.openai;
  await runText('a.json', text, '--format openai --product-slug =p');
  await runText(
    'a.json',
    text.replaceAll('input_', 'output_'),
    '--format openai --product-slug =p --metric =output_tokens --quantity results.output_tokens',
  );
  expect(sent.map(({ metric }) => metric)).toEqual([
    'input_tokens',
    'input_tokens',
    'output_tokens',
    'output_tokens',
  ]);
});

describe('a repeat within one input', () => {
  it('is rejected, counted apart and written to the rejected file', async () => {
    const ended = await runText(
      'repeat.csv',
      'id\na\nb\na\na\n',
      '--product-slug =p --metric =m --idempotency-key id',
    );
    expect(ended).toMatchObject({ code: 1, summary: { accepted: 2, deduped: 0, rejected: 2, repeated: 2 } });
    const refusals = readFileSync(rejected, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(refusals).toMatchObject([
      { line: 4, code: 'repeated_key', original: { id: 'a' } },
      { line: 5, code: 'repeated_key', original: { id: 'a' } },
    ]);
  });

  it('is found across requests, and in 200,000 records none is taken for another', async () => {
    const keys = Array.from({ length: 200_000 }, (_, i) => `${i}`);
    const ended = await runText(
      'many.csv',
      ['id', ...keys, '7'].join('\n'),
      '--product-slug =p --metric =m --idempotency-key id',
    );
    expect(ended).toMatchObject({ code: 1, summary: { accepted: 200_000, repeated: 1 } });
  });

  it.each(['1.79585E+17', '1,79585E+17', '1.79585e17', '2E+15'])(
    'the key %s is named as cut off',
    async (key) => {
      const ended = await runText(
        'ids.ndjson',
        lines({ id: key }, { id: '12e45' }),
        '--product-slug =p --metric =m --idempotency-key id',
      );
      expect(ended).toMatchObject({ code: 1, summary: { accepted: 1, rejected: 1 } });
      expect(readFileSync(rejected, 'utf8')).toContain('scientific notation');
    },
  );
});

it('a line sep= names the delimiter, and --decimal-comma reads commas but no points', async () => {
  const text = '\ufeffsep=;\r\nid;n\r\na;1,5\r\nb;1.234\r\nc;1.234,5\r\nd;7\r\n';
  const args = '--product-slug =p --metric =m --idempotency-key id --quantity n';
  const ended = await runText('excel.csv', text, `${args} --decimal-comma`);
  expect(ended).toMatchObject({ code: 1, summary: { accepted: 2, rejected: 2 } });
  expect(sent.map(({ quantity }) => quantity)).toEqual([1.5, 7]);
  sent = [];
  expect((await runText('excel.csv', text, args)).summary).toMatchObject({ accepted: 2, rejected: 2 });
  expect(sent.map(({ quantity }) => quantity)).toEqual([1.234, 7]);
});

it('without times, the summary says into which month the events book', async () => {
  const file = folder.path('untimed.csv');
  writeFileSync(file, 'id,occurredAt\na,2026-11-26T07:53:05Z\n');
  const args = [file, '--product-slug', '=p', '--metric', '=m', '--idempotency-key', 'id'];
  expect((await send(args, env)).stdout).not.toContain('month of receipt');
  sent = [];
  const month = new Date().toISOString().slice(0, 7);
  expect((await send([...args, '--occurred-at', 'none'], env)).stdout).toContain(
    `1 event had no time. They count in the month of receipt, ${month} (UTC).`,
  );
});

const report = (name: string) =>
  fileURLToPath(new URL(`../../../../../shared/data/reports/${name}`, import.meta.url));
const own = '--product-slug =p --metric =m --idempotency-key id --occurred-at at';

describe.skipIf(!existsSync(report('README.md')))('files as people have them', () => {
  it.each<[name: string, args: string, rejections?: number]>([
    ['openmeter-events.json', '--format openmeter --product-slug =p --quantity event.data.tokens'],
    ['lago-events.csv', '--format lago --product-slug =p --quantity properties.tokens'],
    ['stripe-meter-events.csv', '--format stripe --product-slug =p'],
    ['litellm-spendlogs.csv', '--format litellm --product-slug =p'],
    ['openai-usage.json', '--format openai --product-slug =p'],
    ['aws-cur.csv', '--format aws-cur', 2],
    ['nginx-access.ndjson', '--format nginx --product-slug =p', 1],
    ['pg-copy.csv', own],
    ['bq.csv', own],
    [
      'mongo.json',
      '--format ndjson --product-slug =p --metric =m --idempotency-key _id.$oid --occurred-at at.$date --quantity n.$numberLong',
    ],
    [
      'excel-de.csv',
      '--product-slug produkt --metric =m --idempotency-key id --quantity menge --decimal-comma --occurred-at zeit --time-zone Europe/Berlin',
    ],
  ])(
    '%s is read as it is; only negative amounts and broken lines are rejected',
    async (name, args, rejections = 0) => {
      const ended = await run(report(name), args);
      expect(ended).toMatchObject({ code: rejections && 1, summary: { rejected: rejections, repeated: 0 } });
      expect(ended.summary.accepted).toBeGreaterThan(2);
      for (const event of sent) expect(event.occurredAt).toMatch(/^2026-11-\d\dT\d\d:\d\d:\d\d/);
    },
  );

  it('excel-long-ids.csv is rejected as a whole', async () => {
    const ended = await run(
      report('excel-long-ids.csv'),
      '--product-slug =p --metric =m --idempotency-key event_id',
    );
    expect(ended).toMatchObject({ code: 1, summary: { accepted: 0, rejected: 300 } });
  });
});
