import { createHash } from 'node:crypto';
import { CloudEvent, emitterFor, httpTransport, Mode } from 'cloudevents';
import { describe, expect, it } from 'vitest';
import { schemaRequirement } from '../../../src/core/db/requirement-table.js';
import { createTenant, readUsage } from '../support/usage.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

const single = 'application/cloudevents+json';
const batch = 'application/cloudevents-batch+json';

async function post(secret: string | undefined, type: string, body: unknown, headers = {}) {
  const response = await fetch(`${service.url}/api/usage/events`, {
    method: 'POST',
    headers: {
      'content-type': type,
      ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read many different fields of a response
  return { status: response.status, body: (await response.json()) as any };
}

async function sender() {
  const { organization, product, key } = await createTenant(database.db);
  const cloudEvent = (id: string, more: object = {}) => ({
    specversion: '1.0',
    id,
    source: '/gateway',
    type: 'calls',
    subject: product.slug,
    time: new Date(service.clock.now()).toISOString(),
    ...more,
  });
  const read = async () =>
    (await readUsage(database.db, organization.id)).events.map(({ key, quantity }) => [key, quantity]);
  return { organization, product, secret: key.secret, cloudEvent, read };
}

describe('CloudEvents', () => {
  it('from the unmodified package are recorded once', async () => {
    const { product, secret, read } = await sender();
    const transport = httpTransport(`${service.url}/api/usage/events`);
    const emit = emitterFor(transport, { mode: Mode.STRUCTURED });
    const time = new Date(service.clock.now()).toISOString();
    const event = new CloudEvent({
      id: 'a',
      source: 'https://gateway.example.com/eu',
      type: 'calls',
      subject: product.slug,
      time,
      data: { quantity: 2.5, model: 'large' },
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    });
    const headers = { authorization: `Bearer ${secret}` };
    const answers = [await emit(event, { headers }), await emit(event, { headers })] as { body: string }[];
    expect(answers.map(({ body }) => JSON.parse(body) as unknown)).toEqual([
      { accepted: 1, deduped: 0, warnings: [] },
      { accepted: 0, deduped: 1, warnings: [] },
    ]);
    const other = event.cloneWith({ id: 'b', subject: 'disk 7', data: { productSlug: product.slug } });
    expect((await post(secret, batch, [event, other])).body).toMatchObject({ accepted: 1, deduped: 1 });
    expect(await read()).toEqual([
      ['https://gateway.example.com/eu/a', '2.5'],
      ['https://gateway.example.com/eu/b', '1'],
    ]);
  });

  it('may omit the time, send null for unset attributes, and declare UTF-8', async () => {
    const { secret, cloudEvent, read } = await sender();
    const nothing = { time: null, data: null, datacontenttype: null, dataschema: null, data_base64: null };
    const type = `${single}; charset=UTF-8`;
    expect((await post(secret, type, cloudEvent('a', nothing))).status).toBe(202);
    expect(await read()).toEqual([['/gateway/a', '1']]);
  });

  it('whose sources and ids join to the same text are counted apart', async () => {
    const { secret, cloudEvent, read } = await sender();
    const pairs = [
      ['a', 'b/c'],
      ['a/b', 'c'],
      ['a', 'b%2Fc'],
      ['a', 'b%252Fc'],
      ['a/b%2Fc', ''],
    ].filter(([, id]) => id !== '');
    for (const [source, id] of pairs)
      expect((await post(secret, single, cloudEvent(id!, { source }))).body).toMatchObject({ accepted: 1 });
    expect(
      (
        await post(
          secret,
          batch,
          pairs.map(([source, id]) => cloudEvent(id!, { source })),
        )
      ).body,
    ).toMatchObject({
      accepted: 0,
      deduped: pairs.length,
    });
    expect((await read()).map(([key]) => key)).toEqual(['a/b%25252Fc', 'a/b%252Fc', 'a/b%2Fc', 'a/b/c']);
  });

  it('that an earlier version recorded without escaping the slash stay repeats', async () => {
    const { secret, cloudEvent, read } = await sender();
    const before = { idempotencyKey: 'a/b/c', productSlug: cloudEvent('').subject, metric: 'calls' };
    const { time } = cloudEvent('');
    expect(
      (await post(secret, 'application/json', { events: [{ ...before, occurredAt: time }] })).status,
    ).toBe(202);
    const resend = () => post(secret, batch, [cloudEvent('b/c', { source: 'a' })]);
    await database.db.orm.update(schemaRequirement).set({ since: new Date(service.clock.now() + 1) });
    expect((await resend()).body).toMatchObject({ accepted: 0, deduped: 1, warnings: [] });
    const other = cloudEvent('b/c', { source: 'a', data: { quantity: 2 } });
    expect((await post(secret, batch, [other])).body).toMatchObject({ accepted: 1 });
    expect(await read()).toEqual([
      ['a/b%2Fc', '2'],
      ['a/b/c', '1'],
    ]);
    await database.db.orm.update(schemaRequirement).set({ since: new Date(0) });
  });

  it('that cannot be read do not keep a lenient batch from recording the others', async () => {
    const { secret, cloudEvent, read } = await sender();
    const quantity = '12345678901234567890.5';
    const events = [cloudEvent('a', { type: '' }), cloudEvent('b', { data: { quantity: 777 } }), null];
    const body = JSON.stringify(events).replace('777', quantity);
    const { status, body: answer } = await post(secret, batch, body, { prefer: 'handling=lenient' });
    expect({ status, answer }).toMatchObject({
      status: 202,
      answer: {
        accepted: 1,
        rejected: [
          { index: 0, code: 'invalid_request', detail: expect.stringMatching(/^type /) },
          { index: 2, code: 'invalid_request', detail: 'The event must be an object' },
        ],
      },
    });
    expect(await read()).toEqual([['/gateway/b', quantity]]);
  });

  it('use the SHA-256 of a name longer than 255 characters as their key', async () => {
    const { secret, cloudEvent, read } = await sender();
    const fits = '🎈'.repeat(255 - '/gateway/'.length);
    const events = [cloudEvent(fits), cloudEvent(`${fits}x`)];
    expect((await post(secret, batch, events)).body).toMatchObject({ accepted: 2 });
    expect((await post(secret, batch, events)).body).toMatchObject({ deduped: 2 });
    const hash = createHash('sha256').update(`/gateway/${fits}x`).digest('hex');
    expect(new Set((await read()).map(([key]) => key))).toEqual(new Set([`/gateway/${fits}`, hash]));
  });

  it('keep all digits of their quantities', async () => {
    const { secret, cloudEvent, read } = await sender();
    const digits = '12345678901234567890.5';
    const json = JSON.stringify([
      cloudEvent('a', { data: { quantity: 1 } }),
      cloudEvent('b', { data: { quantity: 777 } }),
    ]);
    expect((await post(secret, batch, json.replace('"quantity":777', `"quantity":${digits}`))).status).toBe(
      202,
    );
    expect(
      (
        await post(
          secret,
          single,
          JSON.stringify(cloudEvent('c', { data: { quantity: 777 } })).replace(
            '"quantity":777',
            `"quantity":${digits}`,
          ),
        )
      ).status,
    ).toBe(202);
    expect(await read()).toEqual([
      ['/gateway/a', '1'],
      ['/gateway/b', digits],
      ['/gateway/c', digits],
    ]);
  });

  it.each([
    ['/id', { id: undefined }],
    ['/id', { id: '' }],
    ['/source', { source: 'a\u0000b' }],
    ['/source', { source: 'x'.repeat(2_049) }],
    ['/specversion', { specversion: '0.3' }],
    ['/specversion', { specversion: undefined }],
    ['/type', { type: 7 }],
    ['/time', { time: 'yesterday' }],
    ['/time', { time: '2026-01-31T12:00:00' }],
    ['/subject', { subject: undefined }],
    ['/subject', { subject: null, data: { quantity: 1 } }],
    ['/data', { data: 'quantity=1' }],
    ['/data/quantity', { data: { quantity: '1' } }],
    ['/data/quantity', { data: { quantity: -1 } }],
    ['/data/productSlug', { data: { productSlug: '' } }],
    ['/data_base64', { data_base64: 'eyJxdWFudGl0eSI6MX0=' }],
    ['/datacontenttype', { datacontenttype: 'application/xml' }],
  ])('are refused at %s: %j', async (pointer, more) => {
    const { secret, cloudEvent, read } = await sender();
    const one = await post(secret, single, cloudEvent('a', more));
    expect([one.status, one.body.code]).toEqual([400, 'invalid_request']);
    expect(one.body.errors.map((place: object) => place)).toMatchObject([{ pointer }]);
    const two = await post(secret, batch, [cloudEvent('b'), cloudEvent('a', more)]);
    expect(two.body.errors).toMatchObject([{ index: 1, pointer: `/1${pointer}` }]);
    expect(await read()).toEqual([]);
  });

  it('point to broken rules in the original body', async () => {
    const { product, secret, cloudEvent } = await sender();
    const events = [
      cloudEvent('a', { subject: 'nothing' }),
      cloudEvent('b', { data: { productSlug: 'nothing' } }),
      cloudEvent('c', { type: 'bytes' }),
      cloudEvent('d', { time: '2020-01-01T00:00:00Z' }),
    ];
    const strict = await post(secret, batch, events);
    expect(strict.status).toBe(403);
    expect(strict.body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      '/0/subject',
      '/1/data/productSlug',
      '/2/type',
      '/3/time',
    ]);
    const lenient = await post(secret, batch, [...events, cloudEvent('e')], { prefer: 'handling=lenient' });
    expect(lenient.body).toMatchObject({
      accepted: 1,
      rejected: [{ index: 0 }, { index: 1 }, { index: 2 }, { index: 3 }],
    });
    await database.db.orm.execute(`update products set max_quantity = 10 where id = '${product.id}'`);
    const above = await post(secret, single, cloudEvent('f', { data: { quantity: 11 } }));
    expect(above.body.errors).toMatchObject([{ pointer: '/data/quantity', code: 'quantity_out_of_range' }]);
    const digits = `0.${'1'.repeat(101)}`;
    const long = JSON.stringify([cloudEvent('g', { data: { quantity: 777 } })]).replace(
      '"quantity":777',
      `"quantity":${digits}`,
    );
    expect((await post(secret, batch, long)).body.errors).toMatchObject([
      { index: 0, pointer: '/0/data/quantity' },
    ]);
  });

  it.each([
    [batch, [], 400, 'invalid_request'],
    [batch, {}, 400, 'invalid_request'],
    [batch, [null], 400, 'invalid_request'],
    [single, [], 400, 'invalid_request'],
    [single, 'null', 400, 'invalid_request'],
    [single, '{', 400, 'invalid_json'],
    [batch, '[1,', 400, 'invalid_json'],
    [batch, Array.from({ length: 501 }, () => 1), 413, 'batch_too_large'],
    ['application/cloudevents+avro', {}, 415, 'unsupported_media_type'],
    [`${single}; charset=latin1`, {}, 415, 'unsupported_media_type'],
    ['application/cloudeventsxjson', {}, 415, 'unsupported_media_type'],
  ])('%s with %j is %i %s', async (type, body, status, code) => {
    const { secret } = await sender();
    const answer = await post(secret, type, body);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
  });

  it('count for the Organization of the key only', async () => {
    const { product, cloudEvent } = await sender();
    const other = await sender();
    const foreign = await post(other.secret, single, cloudEvent('a'));
    expect([foreign.status, foreign.body.code]).toEqual([403, 'entitlement_required']);
    expect(foreign.body.detail).toContain(product.slug);
  });
});
