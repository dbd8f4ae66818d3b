import { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sqlState } from '../../../src/core/db/client.js';
import type { PgliteClient } from '../../../src/core/db/pglite-port.js';
import { withPreparedStatements } from '../../../src/core/db/prepared-statements.js';

let pglite: PGlite;
let client: PgliteClient;
beforeAll(async () => {
  pglite = await PGlite.create();
  await pglite.exec(
    'create table note (id int primary key, text text, tags text[], extra jsonb, at timestamptz)',
  );
  client = withPreparedStatements(pglite);
});
afterAll(() => client.close());

const countPrepared = async (): Promise<number> =>
  (await pglite.query<{ n: number }>('select count(*)::int as n from pg_prepared_statements')).rows[0]!.n;

it('returns what PGlite itself returns, however often', async () => {
  const at = new Date('2026-11-27T12:00:00Z');
  const insert = 'insert into note values ($1, $2, $3, $4, $5)';
  const first = await client.query(insert, [1, 'one', ['a', 'b"c'], { b: [1, null] }, at]);
  expect(first.affectedRows).toBe(1);
  expect((await client.query(insert, [2, null, null, null, undefined])).affectedRows).toBe(1);
  const read = 'select * from note where id <= $1 order by id';
  for (const rowMode of ['object', 'array'] as const)
    for (let repeat = 0; repeat < 7; repeat++)
      expect(await client.query(read, [2], { rowMode })).toEqual(await pglite.query(read, [2], { rowMode }));
});

it('runs statements after one that cannot be prepared or fails', async () => {
  const failing = ['select nothing', 'select 1 / $1::int', 'insert into note values ($1)'];
  for (let repeat = 0; repeat < 3; repeat++) {
    const states = failing.map((text) =>
      client
        .query(text, [0 + (text.startsWith('insert') ? 1 : 0)].slice(0, text.includes('$') ? 1 : 0))
        .catch(sqlState),
    );
    expect(await Promise.all(states)).toEqual(['42703', '22012', '23505']);
    expect((await client.query('select $1::int + 1 as sum', [repeat])).rows).toEqual([{ sum: repeat + 1 }]);
  }
});

it('closes the statements unused for longest, and prepares them again when they are used', async () => {
  for (let n = 0; n < 400; n++) {
    expect((await client.query(`select ${n} as n`)).rows).toEqual([{ n }]);
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  }
  expect(await countPrepared()).toBe(200);
  expect((await client.query('select 0 as n')).rows).toEqual([{ n: 0 }]);
  expect(await countPrepared()).toBe(200);
});

it('keeps no statement of many rows', async () => {
  const values = Array.from({ length: 2000 }, (_, n) => `(${n}, 'text')`).join(', ');
  const before = await countPrepared();
  const { rows } = await client.query(
    `select count(*)::int as n from (values ${values}) v (id, text) where id > $1`,
    [99],
  );
  expect(rows).toEqual([{ n: 1900 }]);
  expect(await countPrepared()).toBe(before);
});

it('makes new plans once a table has grown', async () => {
  await pglite.exec('create table grown (id int, text text); create index on grown (id)');
  const read = 'select text from grown where id = $1';
  const explain = async (): Promise<string> => {
    const { rows } = await pglite.query<{ name: string }>(
      'select name from pg_prepared_statements where statement = $1',
      [read],
    );
    return JSON.stringify(await pglite.exec(`explain execute ${rows[0]!.name}(5)`));
  };
  await pglite.exec("insert into grown values (1, 'first'); analyze grown");
  for (let n = 0; n < 10; n++) await client.query(read, [1]);
  expect(await explain()).toContain('Seq Scan');
  await client.query("insert into grown select n, 'text' from generate_series(2, 5000) n");
  for (let n = 0; n < 2000; n++) await client.query('select 1 as one');
  await client.query(read, [1]);
  expect(await explain()).toMatch(/Index|Bitmap/);
});

it('lets others wait for a transaction, and refuses statements after its end', async () => {
  let ended: Parameters<Parameters<PgliteClient['transaction']>[0]>[0] | undefined;
  const order: string[] = [];
  const done = client.transaction(async (tx) => {
    ended = tx;
    await tx.query("insert into note values (7, 'seven')");
    await new Promise((resolve) => setTimeout(resolve, 20));
    order.push('transaction');
    await tx.rollback();
  });
  const other = client.query('select count(*)::int as n from note where id = 7').then(({ rows }) => {
    order.push('other');
    return rows;
  });
  await done;
  expect([await other, order]).toEqual([[{ n: 0 }], ['transaction', 'other']]);
  await expect(ended!.query('select 1')).rejects.toThrow('The transaction has ended.');
});
