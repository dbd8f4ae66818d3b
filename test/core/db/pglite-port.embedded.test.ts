import { once } from 'node:events';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { sql } from 'drizzle-orm';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { sqlState } from '../../../src/core/db/client.js';
import { embeddedDatabase } from '../../../src/core/db/embedded.js';
import { connectPglite, servePglite } from '../../../src/core/db/pglite-port.js';

let pglite: PGlite;
beforeAll(async () => {
  pglite = await PGlite.create();
  await pglite.exec('create table note (id int primary key, text text, at timestamptz, parts numeric[])');
});
afterAll(() => pglite.close());

let port: MessagePort;
let db: ReturnType<typeof embeddedDatabase>;
beforeEach(async () => {
  await pglite.exec('truncate note');
  ({ port, db } = connect());
});
afterEach(() => port.close());

function connect() {
  const { port1, port2 } = new MessageChannel();
  servePglite(pglite, port1, () => undefined);
  return { port: port2, db: embeddedDatabase(connectPglite(port2), () => undefined) };
}

const insert = (id: number) =>
  sql`insert into note values (${id}, 'text', '2026-11-25T01:02:03.000004Z', '{1.50}')`;
const list = async () =>
  (await pglite.query<{ id: number }>('select id from note order by id')).rows.map(({ id }) => id);

it('reads and writes like a database on the same thread', async () => {
  await db.orm.execute(insert(1));
  const read = sql`select id, text, at, parts from note`;
  const there = await db.orm.execute(read);
  const here = await embeddedDatabase(pglite, () => undefined).orm.execute(read);
  expect(there.rows).toEqual(here.rows);
  expect(there.rows).toEqual([
    { id: 1, text: 'text', at: expect.stringContaining('03.000004'), parts: '{1.50}' },
  ]);
  const statement = { name: 'notes', text: 'select id::text from note where id = $1' };
  expect(await db.run(statement, [1])).toEqual([{ id: '1' }]);
  const readRow = ([id]: readonly (string | null)[]) => ({ number: id });
  expect(await db.run({ ...statement, readRow }, [1])).toEqual([{ number: '1' }]);
});

it('commits a transaction, and rolls it back if the work or a statement fails', async () => {
  await db.transaction((tx) => tx.execute(insert(1)));
  const failing = db.transaction(async (tx) => {
    await tx.execute(insert(2));
    throw new Error('no');
  });
  await expect(failing).rejects.toThrow('no');
  const repeated = await db
    .transaction(async (tx) => {
      await tx.execute(insert(3));
      await tx.execute(insert(1));
    })
    .catch((error: unknown) => error);
  expect(sqlState(repeated)).toBe('23505');
  expect(await list()).toEqual([1]);
});

it('discards a dry run', async () => {
  const result = await db.dryRun((run) =>
    run({ name: 'insert_note', text: "insert into note values (4, 'dry') returning id::text" }, []),
  );
  expect(result).toEqual([{ id: '4' }]);
  expect(await list()).toEqual([]);
});

it('keeps others waiting during a transaction, but not once its client has ended', async () => {
  const other = connect();
  const begun = new Promise<void>((resolve) => {
    void other.db.transaction(async (tx) => {
      await tx.execute(insert(5));
      resolve();
      await new Promise(() => undefined);
    });
  });
  await begun;
  const written = db.orm.execute(insert(6));
  const closed = once(other.port, 'close');
  other.port.close();
  await closed;
  await written;
  expect(await list()).toEqual([6]);
});
