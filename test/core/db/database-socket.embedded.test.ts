import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sqlState } from '../../../src/core/db/client.js';
import {
  connectDatabaseSocket,
  openDatabaseSocket,
  ServiceEndedError,
} from '../../../src/core/db/database-socket.js';
import { embeddedDatabase } from '../../../src/core/db/embedded.js';
import { servePglite } from '../../../src/core/db/pglite-port.js';

const folder = mkdtempSync(join(tmpdir(), 'gauge-socket-'));
let pglite: PGlite;
beforeAll(async () => {
  pglite = await PGlite.create();
  await pglite.exec('create table note (id int primary key, text text, at timestamptz)');
});
afterAll(async () => {
  await pglite.close();
  rmSync(folder, { recursive: true, force: true });
});

const open = () =>
  openDatabaseSocket(folder, () => {
    const { port1, port2 } = new MessageChannel();
    servePglite(pglite, port1, () => undefined);
    return port2;
  });

const connect = async () => embeddedDatabase((await connectDatabaseSocket(folder))!, () => undefined);

it('reads, writes and reports errors like the database itself', async () => {
  const socket = await open();
  const db = await connect();
  const text = 'é'.repeat(200_000);
  await db.orm.execute(sql`insert into note values (1, ${text}, ${new Date(1_000).toISOString()})`);
  const read = sql`select id, text, at from note`;
  const here = await embeddedDatabase(pglite, () => undefined).orm.execute(read);
  expect((await db.orm.execute(read)).rows).toEqual(here.rows);
  const failed = await db.orm.execute(sql`insert into note values (1)`).catch((error: unknown) => error);
  expect(sqlState(failed)).toBe('23505');
  await db.close();
  socket.close();
});

it('rolls back what a vanished command had begun, and lets the others continue', async () => {
  const socket = await open();
  const [gone, other] = [await connect(), await connect()];
  let begun: () => void;
  const hasBegun = new Promise<void>((resolve) => (begun = resolve));
  const lost = gone.transaction(async (tx) => {
    await tx.execute(sql`insert into note values (2)`);
    begun();
    await new Promise(() => undefined);
  });
  const failed = expect(lost).rejects.toThrow(ServiceEndedError);
  await hasBegun;
  await gone.close();
  await failed;
  expect((await other.orm.execute(sql`select id from note where id = 2`)).rows).toEqual([]);
  await other.close();
  socket.close();
});

it('tells a command that the service has ended, and finds nothing behind a stale socket', async () => {
  const socket = await open();
  const db = await connect();
  socket.close();
  await expect(db.orm.execute(sql`select 1`)).rejects.toMatchObject({
    cause: expect.any(ServiceEndedError) as unknown,
  });
  expect(await connectDatabaseSocket(folder)).toBeUndefined();
});
