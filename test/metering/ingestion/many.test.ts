import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { DAY_MS } from '../../../src/core/time.js';
import { usageTotals } from '../../../src/metering/ingestion/table.js';
import { operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';
import { createTenant, usageEvent } from '../support/usage.js';

const { database, service } = useService();
const operate = operatorClient(() => service);

async function arrive(count: number, scopes = ['usage:write']) {
  const { body } = await operate('POST', '/service-keys', { name: 'gateway', livemode: true, scopes });
  const { secret, serviceKey } = body as { secret: string; serviceKey: { id: string } };
  const tenants = await Promise.all(Array.from({ length: count }, () => createTenant(database.db)));
  const send = async (events: object[] | string, headers: object = {}, query = '') => {
    const response = await fetch(`${service.url}/service/usage/events${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json', ...headers },
      body: `{"events":${typeof events === 'string' ? events : JSON.stringify(events)}}`,
    });
    return { status: response.status, body: (await response.json()) as Record<string, any> };
  };
  const event = (tenant: number, key: string, more: object = {}) => {
    const { organization, product } = tenants[tenant]!;
    return { organization: organization.slug, ...usageEvent(product.slug, key, more) };
  };
  const used = async (tenant: number) => {
    const own = eq(usageTotals.orgId, tenants[tenant]!.organization.id);
    return (await database.db.orm.select().from(usageTotals).where(own)).map(({ quantity }) => quantity);
  };
  return {
    tenants,
    send,
    event,
    used,
    id: serviceKey.id,
    slugs: tenants.map(({ organization }) => organization.slug),
  };
}

const lenient = { prefer: 'handling=lenient' };

describe('events of many Organizations', () => {
  it('are each counted once, for their own Organization, however often they are sent', async () => {
    const { send, event, used } = await arrive(3);
    const events = [
      event(0, 'a', { quantity: 2 }),
      event(1, 'a', { quantity: 3 }),
      event(0, 'b'),
      event(2, 'a'),
    ];
    expect(await send(events)).toEqual({ status: 202, body: { accepted: 4, deduped: 0, warnings: [] } });
    expect(await send(events)).toEqual({ status: 202, body: { accepted: 0, deduped: 4, warnings: [] } });
    expect([await used(0), await used(1), await used(2)]).toEqual([['3'], ['3'], ['1']]);
  });

  it('keep all their digits', async () => {
    const { send, event, used } = await arrive(2);
    const quantity = '0.12345678901234567891';
    const events = JSON.stringify([event(0, 'a'), event(1, 'b', { quantity: 7 })]);
    expect((await send(events.replace('"quantity":7', `"quantity":${quantity}`))).status).toBe(202);
    expect([await used(0), await used(1)]).toEqual([['1'], [quantity]]);
  });

  it('of one Organization are refused alone, with their places in the body', async () => {
    const { send, event, used, slugs } = await arrive(3);
    const { body, status } = await send([
      event(0, 'a'),
      event(1, 'a'),
      { ...event(1, 'b'), productSlug: 'unknown' },
      { ...event(2, 'a'), quantity: -1 },
      { ...event(0, 'b'), organization: 'nobody' },
      event(0, 'c'),
    ]);
    expect(status).toBe(202);
    expect(body).toMatchObject({
      accepted: 2,
      refused: [
        {
          organization: slugs[1],
          status: 403,
          code: 'entitlement_required',
          detail: expect.stringMatching(/^Nothing was recorded\. Event 2: /),
          errors: [{ index: 2, pointer: '/events/2/productSlug' }],
        },
        {
          organization: slugs[2],
          status: 400,
          code: 'invalid_request',
          detail: expect.stringMatching(/^\/events\/3\/quantity /),
          errors: [{ index: 3, pointer: '/events/3/quantity' }],
        },
        {
          organization: 'nobody',
          status: 404,
          code: 'not_found',
          errors: [{ index: 4, pointer: '/events/4/organization' }],
        },
      ],
    });
    expect([await used(0), await used(1), await used(2)]).toEqual([['2'], [], []]);
  });

  it('are decided one by one if the sender prefers', async () => {
    const { send, event, used } = await arrive(2);
    const answer = await send(
      [
        event(0, 'a'),
        { ...event(1, 'a'), productSlug: 'unknown' },
        event(1, 'b'),
        { ...event(0, 'b'), quantity: 'two' },
      ],
      lenient,
    );
    expect(answer).toMatchObject({
      status: 202,
      body: {
        accepted: 2,
        rejected: [
          { index: 1, code: 'entitlement_required' },
          { index: 3, code: 'invalid_request' },
        ],
      },
    });
    expect([await used(0), await used(1)]).toEqual([['1'], ['1']]);
  });

  it('warn by Organization and index', async () => {
    const { send, event, slugs } = await arrive(2);
    await send([event(0, 'x'), event(1, 'a')]);
    const { body } = await send([event(0, 'y'), event(1, 'b'), event(1, 'a', { quantity: 9 })]);
    expect(body.warnings).toEqual([{ organization: slugs[1], code: 'duplicate_mismatch', index: 2 }]);
  });

  it('have the status of the first refused part if none was recorded', async () => {
    const { send, event } = await arrive(2);
    const { status, body } = await send([
      { ...event(0, 'a'), organization: 'nobody' },
      { ...event(1, 'a'), productSlug: 'unknown' },
    ]);
    expect({ status, body }).toMatchObject({
      status: 404,
      body: { code: 'not_found', errors: [{ index: 0 }] },
    });
  });

  it('of an Organization that was archived meanwhile are refused as of an unknown one, with their place', async () => {
    const { send, event, used, slugs } = await arrive(2);
    expect((await send([event(0, 'a'), event(1, 'a')])).status).toBe(202);
    const archived = { name: 'gone', archived: true };
    expect((await operate('PUT', `/organizations/${slugs[1]}`, archived)).status).toBe(200);
    const refusal = { code: 'not_found', detail: `The Organization "${slugs[1]}" is archived.` };
    const place = (index: number) => [{ index, pointer: `/events/${index}/organization`, code: 'not_found' }];
    expect(await send([event(0, 'b'), event(1, 'b')])).toMatchObject({
      status: 202,
      body: { accepted: 1, refused: [{ status: 404, ...refusal, errors: place(1) }] },
    });
    expect(await send([event(1, 'b')])).toMatchObject({
      status: 404,
      body: { ...refusal, errors: place(0) },
    });
    expect([await used(0), await used(1)]).toEqual([['2'], ['1']]);
  });

  it.each([
    [[], '/events'],
    [[{ productSlug: 'a' }], '/events/0/organization'],
    [[{ organization: 7 }], '/events/0/organization'],
    [[null], '/events/0'],
  ])('are refused as a whole if one names no Organization: %j', async (events, pointer) => {
    const { send } = await arrive(1);
    expect(await send(events as object[])).toMatchObject({ status: 400, body: { errors: [{ pointer }] } });
  });

  it('are at most 500', async () => {
    const { send, event } = await arrive(1);
    const events = Array.from({ length: 501 }, (_, i) => event(0, String(i)));
    expect(await send(events)).toMatchObject({ status: 413, body: { code: 'batch_too_large' } });
  });

  it('change nothing in a dry run', async () => {
    const { send, event, used } = await arrive(2);
    expect(await send([event(0, 'a'), event(1, 'a')], {}, '?dryRun=true')).toMatchObject({
      status: 202,
      body: { accepted: 2 },
    });
    expect([await used(0), await used(1)]).toEqual([[], []]);
  });

  it('may be 400 days old with usage:backfill, beside new ones', async () => {
    const { send, event, used } = await arrive(2, ['usage:write', 'usage:backfill']);
    const occurredAt = new Date(service.clock.now() - 60 * DAY_MS).toISOString();
    expect(await send([event(0, 'a', { occurredAt }), event(1, 'a')])).toMatchObject({
      status: 202,
      body: { accepted: 2 },
    });
    expect([await used(0), await used(1)]).toEqual([['1'], ['1']]);
  });

  it('are refused after the key was revoked', async () => {
    const { send, event, used, id } = await arrive(2);
    expect((await send([event(0, 'a'), event(1, 'a')])).status).toBe(202);
    expect((await operate('DELETE', `/service-keys/${id}`)).status).toBe(200);
    expect(await send([event(0, 'b')])).toMatchObject({ status: 401, body: { code: 'key_revoked' } });
    expect(await used(0)).toEqual(['1']);
  });
});
