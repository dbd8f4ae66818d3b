import { sql, type SQL } from 'drizzle-orm';
import type { Database, GroupTables, Names, Run, ShardGroup, Shards, Statement, Template } from './client.js';
import { textArray, selectRows } from './sql.js';

/** The group was split; its Organizations must be located again. */
export class ShardGroupGoneError extends Error {
  /** Serialization failure: a caller that does not retry sees a conflict with another transaction. */
  readonly code = '40001';
}

/** @param held clause that locks the group while a statement runs; omitted if the group cannot move */
export function createStatements(
  nameOf: (table: string) => string,
  { suffix = '', held }: { suffix?: string; held?: string } = {},
): (template: Template) => Statement {
  const first = held === undefined ? '' : ` held as materialized (select ${held} as ok),`;
  const names: Names = Object.assign((table: string) => nameOf(table), {
    with: `with${first}`,
    withRecursive: `with recursive${first}`,
    held: held === undefined ? '' : ' join held on held.ok = 1',
  });
  const built = new Map<Template, Statement>();
  return (template) => {
    let statement = built.get(template);
    if (!statement) {
      statement = { name: template.name + suffix, text: template.text(names), readRow: template.readRow };
      built.set(template, statement);
    }
    return statement;
  };
}

export const wholeTables: GroupTables = Object.assign((table: string) => sql`${sql.identifier(table)}`, {
  owns: () => sql`true`,
});

export type ReportedDatabase = Pick<Database, 'run' | 'shards'>;

const sortKeys: Statement = {
  name: 'shards_sort_keys',
  text: `
select (ord - 1)::text as place from unnest($1::text[], $2::text[], $3::text[], $4::text[]) with ordinality as k (a, b, c, d, ord)
order by a, b, c, d limit $5`,
};

/**
 * For reports that the planner cannot split by Organization. `build` must sort each group in the same way.
 * @param keyOf sort key of a row, as text; at most four columns
 */
export async function selectFromAll<T>(
  db: ReportedDatabase,
  build: (tables: GroupTables) => SQL,
  keyOf: (row: T) => string[],
  limit: number,
): Promise<T[]> {
  const [first = [], ...others] = await Promise.all(db.shards.groups.map((group) => group.select<T>(build)));
  if (others.length === 0) return first;
  const rows = [first, ...others].flat();
  const keys = rows.map(keyOf);
  const columns = [0, 1, 2, 3].map((column) => textArray(keys.map((key) => key[column] ?? '')));
  const order = await db.run<{ place: string }>(sortKeys, [...columns, limit]);
  return order.map(({ place }) => rows[Number(place)]!);
}

export function oneShardGroup(
  db: Pick<Database, 'orm' | 'parallel' | 'run' | 'dryRun'>,
): Shards & { whole: ShardGroup } {
  const statementOf = createStatements((table) => table);
  const through =
    (run: Database['run']): Run =>
    (template, values) =>
      run(statementOf(template), values);
  const whole: ShardGroup = {
    id: '',
    worker: '',
    parallel: db.parallel,
    parallelReads: 2,
    run: through(db.run),
    dryRun: (work) => db.dryRun((run) => work(through(run))),
    load: { inFlight: 0, oldestMs: 0 },
    ping: () => Promise.resolve(),
    select: (build) => selectRows(db.orm, build(wholeTables)),
  };
  return {
    whole,
    groups: [whole],
    locate: () => whole,
    locateOrganization: () => whole,
    load: () => Promise.resolve(),
    watch: () => undefined,
  };
}

/** Over all shard groups. @param counts the groups' rows, one each */
export const sumOf = (counts: readonly Record<string, string | null>[][], column: string): number =>
  counts.reduce((sum, [row]) => sum + Number(row![column]), 0);
