import type { Database, Run, ShardGroup, Shards, Statement, Template } from '../../src/core/db/client.js';
import { oneShardGroup } from '../../src/core/db/shards.js';
import { isCitus } from './database.js';

export interface FaultyDatabase {
  db: Database;
  /** Holds the statements whose names start with this prefix. */
  hold(prefix: string): void;
  release(): void;
  readonly held: number;
  /** Runs before each hot statement; if it throws, the database responds with that error. */
  before: (statement: Statement, values: unknown[]) => void;
  after: (statement: Statement, values: unknown[]) => void;
}

export function makeFaulty(real: Database): FaultyDatabase {
  let heldPrefix: string | undefined;
  let waiting: (() => void)[] = [];
  const through =
    (run: Database['run']) =>
    async <Row>(statement: Statement, values: unknown[]): Promise<Row[]> => {
      if (heldPrefix !== undefined && statement.name.startsWith(heldPrefix))
        await new Promise<void>((resolve) => waiting.push(resolve));
      faulty.before(statement, values);
      const rows = await run<Row>(statement, values);
      faulty.after(statement, values);
      return rows;
    };
  const main = {
    orm: real.orm,
    parallel: real.parallel,
    run: through((statement, values) => real.run(statement, values)),
    dryRun: <T>(work: (run: Database['run']) => Promise<T>) => real.dryRun((run) => work(through(run))),
  };
  const faulty: FaultyDatabase = {
    db: { ...real, ...main, shards: isCitus ? throughGroups(real.shards, through) : oneShardGroup(main) },
    hold: (prefix) => void (heldPrefix = prefix),
    release() {
      heldPrefix = undefined;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
    get held() {
      return waiting.length;
    },
    before: () => undefined,
    after: () => undefined,
  };
  return faulty;
}

type Through = (run: Database['run']) => Database['run'];

/** Identifies statements by name, because their text differs between groups. */
function throughGroups(shards: Shards, through: Through): Shards {
  const known = new Map<ShardGroup, ShardGroup>();
  const wrapRun = (run: Run): Run => {
    const templates = new Map<string, Template>();
    const guarded = through(({ name }, values) => run(templates.get(name)!, values));
    return (template, values) => {
      templates.set(template.name, template);
      return guarded({ name: template.name, text: '' }, values);
    };
  };
  const wrap = (group: ShardGroup): ShardGroup => {
    const wrapped = known.get(group) ?? {
      ...group,
      id: group.id,
      parallel: group.parallel,
      run: wrapRun(group.run),
      dryRun: (work) => group.dryRun((run) => work(wrapRun(run))),
      select: (build) => group.select(build),
    };
    known.set(group, wrapped);
    return wrapped;
  };
  return {
    ...shards,
    get groups() {
      return shards.groups.map(wrap);
    },
    locate(hashedSecret) {
      const group = shards.locate(hashedSecret);
      return 'then' in group ? group.then(wrap) : wrap(group);
    },
  };
}

export const databaseError = (code: string, message = `injected ${code}`) =>
  Object.assign(new Error(message), { code });
