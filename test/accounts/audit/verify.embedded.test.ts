import { sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import { genesisHash, hashRow } from '../../../src/accounts/audit/chain.js';
import { searchAuditRows } from '../../../src/accounts/audit/queries.js';
import { verifyChains, verifyRange } from '../../../src/accounts/audit/verify.js';
import { auditChains, auditLog } from '../../../src/accounts/audit/table.js';
import { createOrganization } from '../../support/fixtures.js';
import { at, shiftRows, swapRows, verify, writeRows } from './support.js';
import { useDatabase } from '../../support/use.js';
import { auditOf } from '../../support/audit.js';

const database = useDatabase();

const ROWS = 12;
let orgId: string;
let rows: Awaited<ReturnType<typeof auditOf>>;
beforeEach(async () => {
  orgId = (await createOrganization(database.db)).id;
  const details = { before: { role: 'member' }, list: [1, 2] };
  await writeRows(database.db, orgId, ROWS, { details, ip: '192.0.2.1', requestId: 'request' });
  rows = await auditOf(database.db, orgId);
});

const problems = async (options = {}) => (await verify(database.db, orgId, options)).problems;
const mismatches = (...seqs: number[]) =>
  seqs.map((seq) => `Row ${seq} does not match its hash or its number.`);
const missing = (seq: number) => `Row ${seq} is missing.`;
const wrongEnd = (recorded: number, last: number) =>
  `The recorded end of the chain, row ${recorded}, does not match the last row, ${last}.`;
const notKept = 'Row 12 does not match the head that was kept.';
const execute = (statement: ReturnType<typeof sql>) => database.db.orm.execute(statement);
const insert = (values: Partial<typeof auditLog.$inferInsert>) =>
  database.db.orm.insert(auditLog).values({ ...rows[0]!, id: uuid(), ...values });

/** Rewrites the rows from number `from` onward with consistent hashes, as a role with full privileges could. */
async function rewrite(change: (row: (typeof rows)[number]) => void, from = 1): Promise<void> {
  let hash = from === 1 ? genesisHash(orgId) : rows[from - 2]!.hash!;
  for (const row of (await auditOf(database.db, orgId)).slice(from - 1)) {
    change(row);
    hash = hashRow(hash, { ...row, seq: row.seq!, at: row.at.toISOString() });
    await database.db.orm
      .update(auditLog)
      .set({ ...row, orgId: undefined, hash })
      .where(sql`org_id = ${orgId} and id = ${row.id}`);
  }
  await database.db.orm
    .update(auditChains)
    .set({ hash })
    .where(sql`org_id = ${orgId}`);
}

it('an intact chain has no problems, whatever the batch size', async () => {
  for (const batchSize of [1, 5, 12, 13, 1000])
    expect(await verify(database.db, orgId, { batchSize })).toMatchObject({
      seq: ROWS,
      hash: rows.at(-1)!.hash,
      problems: [],
    });
});

/**
 * Computed in UTC, because a sharded database requires an expression that depends only on the row, not on the session's
 * time zone.
 */
const later = (by: string) =>
  sql`at = (at at time zone 'UTC' + ${sql.raw(`interval '${by}'`)}) at time zone 'UTC'`;

describe('verification reports a change of', () => {
  it.each([
    ['at', later('1 millisecond')],
    ['at, by less than is displayed', later('1 microsecond')],
    ['at, to infinity', sql`at = 'infinity'`],
    ['action', sql`action = 'test.read'`],
    ['actor', sql`actor = 'operator'`],
    ['target', sql`target = target || ' '`],
    ['a detail', sql`details = jsonb_set(details, '{before,role}', '"owner"')`],
    ['details, by a new field', sql`details = details || '{"more": null}'`],
    ['the order in a list of details', sql`details = jsonb_set(details, '{list}', '[2, 1]')`],
    ['ip', sql`ip = '192.0.2.2'`],
    ['ip, to null', sql`ip = null`],
    ['requestId', sql`request_id = 'other'`],
  ])('%s', async (_name, change) => {
    await execute(sql`update audit_log set ${change} where org_id = ${orgId} and seq = 5`);
    expect(await problems()).toEqual(mismatches(5));
  });

  it('hash, and the row after it', async () => {
    await execute(sql`update audit_log set hash = repeat('0', 64) where org_id = ${orgId} and seq = 5`);
    expect(await problems()).toEqual(mismatches(5, 6));
  });

  it('id', async () => {
    const other = uuid();
    await execute(sql`update audit_log set id = ${other} where org_id = ${orgId} and seq = 5`);
    expect(await problems()).toEqual(mismatches(5));
  });

  it('the first row, the last row, and several rows', async () => {
    await execute(sql`update audit_log set actor = 'x' where org_id = ${orgId} and seq in (1, 7, 8, 12)`);
    expect(await problems({ batchSize: 5 })).toEqual(mismatches(1, 7, 8, 12));
  });

  it('a row and its hash, through the next row', async () => {
    const row = { ...rows[4]!, actor: 'x' };
    const hash = hashRow(rows[3]!.hash!, { ...row, seq: 5, at: row.at.toISOString() });
    await execute(sql`update audit_log set actor = 'x', hash = ${hash} where org_id = ${orgId} and seq = 5`);
    expect(await problems()).toEqual(mismatches(6));
  });

  it('the last row and its hash, through the recorded end', async () => {
    await execute(sql`update audit_log set actor = 'x' where org_id = ${orgId} and seq = 12`);
    const row = (await auditOf(database.db, orgId)).at(-1)!;
    const hash = hashRow(rows[10]!.hash!, { ...row, seq: 12, at: row.at.toISOString() });
    await execute(sql`update audit_log set hash = ${hash} where org_id = ${orgId} and seq = 12`);
    expect(await problems()).toEqual([wrongEnd(12, 12)]);
  });

  it('a row to another Organization’s', async () => {
    const other = await createOrganization(database.db);
    await writeRows(database.db, other.id, ROWS);
    await execute(sql`delete from audit_log where org_id = ${orgId} and seq = 5`);
    await insert({ ...(await auditOf(database.db, other.id))[4]!, orgId });
    expect(await problems()).toEqual(mismatches(5, 6));
  });
});

describe('verification reports a row removed', () => {
  it('from the middle', async () => {
    await execute(sql`delete from audit_log where org_id = ${orgId} and seq in (5, 6, 9)`);
    expect(await problems()).toEqual([missing(5), missing(9)]);
  });

  it('from the beginning', async () => {
    await execute(sql`delete from audit_log where org_id = ${orgId} and seq = 1`);
    expect(await problems()).toEqual([missing(1)]);
  });

  it('from the end, and a log that was emptied', async () => {
    await execute(sql`delete from audit_log where org_id = ${orgId} and seq = 12`);
    expect(await problems()).toEqual([wrongEnd(12, 11)]);
    await execute(sql`delete from audit_log where org_id = ${orgId}`);
    expect(await problems()).toEqual([wrongEnd(12, 0)]);
  });

  it('even if the following rows were renumbered', async () => {
    await execute(sql`delete from audit_log where org_id = ${orgId} and seq = 5`);
    await shiftRows(database.db, orgId, 6, -1);
    expect(await problems()).toEqual([...mismatches(5, 6, 7, 8, 9, 10, 11), wrongEnd(12, 11)]);
  });
});

describe('verification reports a row inserted', () => {
  it('after the end, even with the right hash', async () => {
    const row = { ...rows[0]!, id: uuid(), seq: 13 };
    const hash = hashRow(rows[11]!.hash!, { ...row, at: row.at.toISOString() });
    await insert({ ...row, hash });
    expect(await problems()).toEqual([wrongEnd(12, 13)]);
  });

  it.each(['a hash of its own', 'the right hash'])('between others, with %s', async (kind) => {
    await shiftRows(database.db, orgId, 5, 1);
    const row = { ...rows[0]!, id: uuid(), seq: 5 };
    const right = hashRow(rows[3]!.hash!, { ...row, at: row.at.toISOString() });
    await insert({ ...row, hash: kind === 'the right hash' ? right : 'f'.repeat(64) });
    expect(await problems()).toEqual([
      ...(kind === 'the right hash' ? [] : mismatches(5)),
      ...mismatches(6, 7, 8, 9, 10, 11, 12, 13),
      wrongEnd(12, 13),
    ]);
  });

  it('without a number or with an impossible one', async () => {
    await insert({ id: uuid({ msecs: at.getTime() + 5 }), seq: null, hash: null });
    await insert({ seq: 0 });
    const late = '1 row without a number came after the chain had begun.';
    expect(await problems()).toEqual([...mismatches(0), late]);
  });
});

it('verification reports rows that were exchanged', async () => {
  await swapRows(database.db, orgId, 3, 9);
  expect(await problems()).toEqual(mismatches(3, 4, 9, 10));
});

describe('a manipulated record of the end', () => {
  it.each([
    ['different hash', sql`update audit_chains set hash = repeat('0', 64)`, wrongEnd(12, 12)],
    ['a lower number', sql`update audit_chains set seq = 11`, wrongEnd(11, 12)],
    ['a higher number', sql`update audit_chains set seq = 14`, wrongEnd(14, 12)],
    ['no row', sql`delete from audit_chains`, wrongEnd(0, 12)],
  ])('with %s is found', async (_name, change, expected) => {
    await execute(sql`${change} where org_id = ${orgId}`);
    expect(await problems()).toEqual([expected]);
  });
});

describe('a recorded head', () => {
  it('still matches after more changes', async () => {
    const noted = [await verify(database.db, orgId)];
    await writeRows(database.db, orgId, 3);
    expect(await problems({ noted })).toEqual([]);
  });

  it('exposes a history that was rewritten consistently', async () => {
    const noted = [await verify(database.db, orgId)];
    await rewrite((row) => void (row.seq === 5 && (row.actor = 'somebody else')));
    await writeRows(database.db, orgId, 3);
    expect(await problems()).toEqual([]);
    expect(await problems({ noted })).toEqual([notKept]);
  });

  it('exposes an end that was cut off together with its record', async () => {
    const noted = [await verify(database.db, orgId)];
    await execute(sql`delete from audit_log where org_id = ${orgId} and seq > 10`);
    await execute(sql`update audit_chains set seq = 10, hash = ${rows[9]!.hash} where org_id = ${orgId}`);
    expect(await problems()).toEqual([]);
    expect(await problems({ noted })).toEqual([notKept]);
  });

  it('exposes a chain that was dissolved', async () => {
    const noted = [await verify(database.db, orgId)];
    await execute(sql`update audit_log set seq = null, hash = null where org_id = ${orgId}`);
    await execute(sql`delete from audit_chains where org_id = ${orgId}`);
    expect(await problems()).toEqual([]);
    expect(await problems({ noted })).toEqual([
      notKept,
      '0 rows from before the chain were recorded, but 12 exist.',
    ]);
  });

  it('exposes a missing Organization', async () => {
    const gone = { ...(await verify(database.db, orgId)), orgId: uuid(), organization: 'gone' };
    const reports = await verifyChains(database.db.orm, { noted: [gone] });
    expect(reports.filter(({ problems }) => problems.length > 0)).toContainEqual(
      expect.objectContaining({ organization: 'gone' }),
    );
  });

  it('includes the number of rows from before the chain', async () => {
    const before = uuid({ msecs: 1_000 });
    await insert({ id: before, seq: null, hash: null });
    const noted = [await verify(database.db, orgId)];
    expect(noted[0]).toMatchObject({ unchained: 1, problems: [] });
    await execute(sql`delete from audit_log where org_id = ${orgId} and id = ${before}`);
    expect(await problems()).toEqual([]);
    expect(await problems({ noted })).toEqual(['1 rows from before the chain were recorded, but 0 exist.']);
  });
});

it('of thousands of broken rows, only the first are returned', async () => {
  await execute(sql`insert into audit_log (org_id, id, at, action, actor, target, details, seq, hash)
    select ${orgId}, md5(n::text)::uuid, now(), 'x.y', 'system', 'x', '{}', n, repeat('a', 64) from generate_series(13, 3012) as n`);
  const report = await verify(database.db, orgId);
  expect(report.problems).toHaveLength(100);
  expect(report).toMatchObject({ seq: 3012, problems: mismatches(13).concat(report.problems.slice(1)) });
});

it('a search by object finds a value in the details and examines a bounded number of rows', async () => {
  const { id } = await createOrganization(database.db);
  await writeRows(database.db, id, 1, { target: 'a', details: { after: { name: 'Edge Proxy' } } });
  await writeRows(database.db, id, 3);
  const range = { before: undefined, limit: 51 };
  const search = (object: string, scan: number) =>
    searchAuditRows(database.db.orm, id, { object }, { ...range, scan });
  const [all, some] = [await search('edge', 10), await search('edge', 3)];
  expect(all).toMatchObject({ rows: [{ target: 'a' }], searchedTo: undefined });
  expect(some).toMatchObject({ rows: [], searchedTo: { target: 'target 1' } });
});

it('a range of rows is checked from the row before it', async () => {
  const { id } = await createOrganization(database.db);
  await writeRows(database.db, id, 5);
  const check = (upTo?: number) => verifyRange(database.db.orm, id, { upTo, limit: 2 });
  expect(await check()).toEqual({ first: 4, last: 5, end: 5, brokenAt: undefined });
  expect(await check(2)).toEqual({ first: 1, last: 2, end: 5, brokenAt: undefined });
  await database.db.orm.execute(
    sql`update audit_log set actor = 'operator' where org_id = ${id} and seq = 3`,
  );
  expect(await check()).toMatchObject({ brokenAt: undefined });
  expect(await check(4)).toMatchObject({ first: 3, brokenAt: 3 });
});
