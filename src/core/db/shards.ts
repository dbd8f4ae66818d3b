import type { Database, Names, Run, ShardGroup, Shards, Statement, Template } from './client.js';

/** The shard group is no more, because it was split: its Organizations have to be looked for again. */
export class ShardGroupGoneError extends Error {
  /** To a caller that does not look again it is what it is in the database: in the way of the statement, for a moment. */
  readonly code = '40001';
}

/**
 * The statements of one shard group, each built once.
 * @param held what holds the group while a statement runs; left out where it cannot move
 */
export function createStatements(
  nameOf: (table: string) => string,
  { suffix = '', held }: { suffix?: string; held?: string } = {},
): (template: Template) => Statement {
  const names: Names = Object.assign((table: string) => nameOf(table), {
    with: held === undefined ? 'with' : `with held as materialized (select ${held} as ok),`,
    held: held === undefined ? '' : ' join held on held.ok = 1',
  });
  const built = new Map<Template, Statement>();
  return (template) => {
    let statement = built.get(template);
    if (!statement) {
      statement = { name: template.name + suffix, text: template.text(names) };
      built.set(template, statement);
    }
    return statement;
  };
}

/** A database that is not sharded: one group, with the tables' own names, and nothing that could move. */
export function oneShardGroup(
  db: Pick<Database, 'parallel' | 'run' | 'dryRun'>,
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
  };
  return { whole, groups: [whole], locate: () => whole, load: () => Promise.resolve() };
}
