import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { selectRow } from '../../../src/core/db/sql.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';

let database: TestDatabase;
beforeAll(async () => (database = await createTestDatabase()));
afterAll(() => database.remove());

const A = '00000000-0000-7000-8000-00000000000a';
const B = '00000000-0000-7000-8000-00000000000b';
const C = '00000000-0000-7000-8000-00000000000c';
const grant = (n: number) => `00000000-0000-7000-8000-0000000000${n}0`;
const NOW = '2026-11-15T10:30:00Z';
const HOUR = '2026-11-15T10:00:00Z';

interface Grant {
  n: number;
  rest: string;
  starts?: string;
  ends?: string;
  scope?: string;
  priority?: number;
  roll?: [percent: number, days: number];
}

const array = (values: readonly unknown[]) => `{${values.map((value) => `"${String(value)}"`).join(',')}}`;

/** The first arguments of `gauge_burn`, which describe the account. */
const account = (grants: Grant[], debts: Record<string, string> = {}) =>
  sql.join(
    [
      sql`${array(grants.map(({ n }) => grant(n)))}::uuid[]`,
      sql`${array(grants.map(({ rest }) => rest))}::numeric[]`,
      sql`${array(grants.map(({ starts = '2026-01-01T00:00:00Z' }) => starts))}::timestamptz[]`,
      sql`${array(grants.map(({ ends = 'infinity' }) => ends))}::timestamptz[]`,
      sql`${array(grants.map(({ scope = '' }) => scope))}::text[]`,
      sql`${array(grants.map(({ priority = 50 }) => priority))}::int[]`,
      sql`${array(grants.map(({ roll }) => roll?.[0] ?? 0))}::int[]`,
      sql`${array(grants.map(({ roll }) => roll?.[1] ?? 0))}::int[]`,
      sql`${array(Object.keys(debts))}::uuid[]`,
      sql`${array(Object.values(debts))}::numeric[]`,
    ],
    sql`, `,
  );

type Demand = [product: string, hour: string, cost: string];

async function burn(grants: Grant[], demands: Demand[], debts: Record<string, string> = {}, at = NOW) {
  const row = await selectRow<{
    grants: string;
    rests: string;
    debtors: string;
    debts: string;
    took: string | null;
  }>(
    database.db.orm,
    sql`select b.grants::text, b.rests::text, b.debtors::text, b.debts::text, (
        select json_agg(json_build_array(kind, grant_id, amount::text) order by place)
        from unnest(b.took_kinds, b.took_from, b.took) with ordinality as x (kind, grant_id, amount, place)
      )::text as took
    from gauge_burn(${account(grants, debts)}, ${array(demands.map(([product]) => product))}::uuid[],
      ${array(demands.map(([, hour]) => hour))}::timestamptz[], ${array(demands.map(([, , cost]) => cost))}::numeric[], ${at}::timestamptz) b`,
  );
  return { ...row!, took: JSON.parse(row!.took ?? '[]') as [kind: string, from: string, amount: string][] };
}

describe('burning', () => {
  it('takes from the grants in their order and leaves the rest as an overdraft of the product', async () => {
    const left = await burn(
      [
        { n: 1, rest: '1.5' },
        { n: 2, rest: '2', scope: B },
        { n: 3, rest: '0.25' },
      ],
      [[A, HOUR, '2']],
    );
    expect(left.took).toEqual([
      ['burn', grant(1), '1.5'],
      ['burn', grant(3), '0.25'],
      ['burn', A, '0.25'],
    ]);
    expect(left).toMatchObject({ rests: '{0.0,2,0.00}', debtors: `{${A}}`, debts: '{0.25}' });
  });

  it('burns no grant that has not begun, or ended before the hour of the usage', async () => {
    const left = await burn(
      [
        { n: 1, rest: '5', starts: '2026-11-15T10:30:01Z' },
        { n: 2, rest: '5', ends: HOUR },
        { n: 3, rest: '5', ends: '2026-11-15T11:00:00Z' },
      ],
      [[A, HOUR, '1']],
    );
    expect(left.took).toEqual([['burn', grant(3), '1']]);
  });

  it('lets late usage burn a grant that has expired since', async () => {
    const left = await burn([{ n: 1, rest: '5', ends: HOUR }], [[A, '2026-11-15T09:00:00Z', '1']]);
    expect(left.took).toEqual([['burn', grant(1), '1']]);
  });

  it('removes an expired grant after 8 days, and a spent one at once', async () => {
    const left = await burn(
      [
        { n: 1, rest: '5', ends: '2026-11-07T10:00:00Z' },
        { n: 2, rest: '0' },
        { n: 3, rest: '4', ends: '2026-11-07T11:00:00Z' },
      ],
      [],
    );
    expect(left.took).toEqual([['expire', grant(1), '5']]);
    expect(left.grants).toBe(`{${grant(3)}}`);
  });

  it('rolls over once, to its new place in the order', async () => {
    const grants: Grant[] = [
      { n: 1, rest: '10', ends: HOUR, roll: [25, 30] },
      { n: 2, rest: '7', ends: '2026-11-20T00:00:00Z' },
    ];
    const left = await burn(grants, [[A, HOUR, '8']]);
    expect(left.took).toEqual([
      ['roll', grant(1), '2.5'],
      ['expire', grant(1), '7.5'],
      ['burn', grant(2), '7'],
      ['burn', grant(1), '1'],
    ]);
    const later = await burn(grants, [], {}, '2026-12-24T00:00:00Z');
    expect(later.took).toEqual([
      ['roll', grant(1), '2.5'],
      ['expire', grant(1), '7.5'],
      ['expire', grant(1), '2.5'],
      ['expire', grant(2), '7'],
    ]);
    expect(later.grants).toBe('{}');
  });

  it('pays overdrafts first, once a grant has begun', async () => {
    const grants: Grant[] = [{ n: 1, rest: '5', starts: '2026-11-15T10:31:00Z', scope: `${A} ${B}` }];
    const debts = { [A]: '2', [B]: '1' };
    expect((await burn(grants, [], debts)).took).toEqual([]);
    const left = await burn(grants, [[A, HOUR, '3']], debts, '2026-11-15T10:31:00Z');
    expect(left.took).toEqual([
      ['repay', grant(1), '2'],
      ['repay', grant(1), '1'],
      ['burn', grant(1), '2'],
      ['burn', A, '1'],
    ]);
    expect(left).toMatchObject({ debtors: `{${A}}`, debts: '{1}' });
  });
});

describe('room', () => {
  const room = async (product: string, held: [product: string, cost: string][], debts = {}) => {
    const grants: Grant[] = [
      { n: 1, rest: '10' },
      { n: 2, rest: '3', scope: B },
      { n: 3, rest: '9', ends: HOUR },
      { n: 4, rest: '2', scope: C },
    ];
    const row = await selectRow<{ room: string }>(
      database.db.orm,
      sql`select trim_scale((gauge_rooms(${account(grants, debts)}, ${array(held.map(([one]) => one))}::uuid[],
        ${array(held.map(([, cost]) => cost))}::numeric[], array[${product}::uuid], ${NOW}::timestamptz)).room)::text as room`,
    );
    return row!.room;
  };

  it('is what holds leave of the open grants of a product', async () => {
    expect(await room(A, [])).toBe('10');
    expect(await room(B, [])).toBe('13');
    expect(await room(A, [[B, '4']])).toBe('6');
    expect(await room(B, [[A, '11']])).toBe('3');
  });

  it('is the same in any order of the holds, if one needs a grant that the other can spare', async () => {
    const holds: [string, string][] = [
      [A, '8'],
      [B, '4'],
    ];
    for (const held of [holds, holds.toReversed()]) {
      expect(await room(A, held)).toBe('0');
      expect(await room(B, held)).toBe('1');
      // The grant for another product is not touched.
      expect(await room(C, held)).toBe('2');
    }
  });

  it('pays overdrafts first, and is never below 0', async () => {
    expect(await room(A, [], { [A]: '4' })).toBe('6');
    expect(await room(A, [], { [A]: '14' })).toBe('0');
  });
});
