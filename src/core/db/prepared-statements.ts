import { Mutex, parse, protocol, type PGlite, type QueryOptions, type Results } from '@electric-sql/pglite';
import type { PgliteClient } from './pglite-port.js';

const { serialize } = protocol;

/** The database keeps all prepared statements in memory. */
const MAX_STATEMENTS = 200;
/** Longer statements insert a varying number of rows, so they rarely repeat. */
const MAX_CHARACTERS = 20_000;
/** Executions after which all plans are discarded, because no autovacuum invalidates a plan when its tables grow. */
const EXECUTIONS_PER_PLAN = 2000;

interface Prepared {
  name: string;
  parameterTypes: number[];
}

/** PGlite itself parses and plans each time, in six calls: a row by its key takes 300 µs instead of 35. */
export function withPreparedStatements(pglite: PGlite): PgliteClient {
  const prepared = new Map<string, Prepared>();
  /** Held during each transaction and each statement outside one. */
  const turns = new Mutex();
  let count = 0;
  let executions = 0;

  const send = async (...parts: Uint8Array[]) =>
    (await pglite.execProtocol(Buffer.concat([...parts, serialize.sync()]), { syncToFs: false })).messages;

  async function prepare(text: string): Promise<Prepared> {
    const known = prepared.get(text);
    if (known) {
      // The map is in order of use.
      prepared.delete(text);
      prepared.set(text, known);
      return known;
    }
    const isKept = text.length <= MAX_CHARACTERS;
    const name = isKept ? `s${++count}` : '';
    const messages = await send(serialize.parse({ name, text }), serialize.describe({ type: 'S', name }));
    const statement = { name, parameterTypes: parse.parseDescribeStatementResults(messages) };
    if (isKept) prepared.set(text, statement);
    if (prepared.size > MAX_STATEMENTS) await closeOldest();
    return statement;
  }

  async function closeOldest(): Promise<void> {
    const [text, { name }] = prepared.entries().next().value!;
    prepared.delete(text);
    await send(serialize.close({ type: 'S', name }));
  }

  function execute<T>(text: string, values: unknown[] = [], options?: QueryOptions): Promise<Results<T>> {
    executions++;
    return pglite.runExclusive(async () => {
      if (pglite.closed) throw new Error('The embedded database is closed.');
      const { name, parameterTypes } = await prepare(text);
      const texts = values.map((value, index) => {
        const toText = pglite.serializers[parameterTypes[index]!] ?? String;
        return value === null || value === undefined ? null : toText(value);
      });
      const messages = await send(
        serialize.bind({ statement: name, values: texts }),
        serialize.describe({ type: 'P' }),
        serialize.execute({}),
      );
      return parse.parseResults(messages, pglite.parsers, options)[0] as Results<T>;
    });
  }

  return {
    query<T>(text: string, values?: unknown[], options?: QueryOptions): Promise<Results<T>> {
      return turns.runExclusive(async () => {
        if (executions >= EXECUTIONS_PER_PLAN) {
          executions = 0;
          await execute('discard plans');
        }
        return execute<T>(text, values, options);
      });
    },
    transaction: (work) =>
      turns.runExclusive(() =>
        pglite.transaction((tx) =>
          work({
            query: (...args) =>
              tx.closed ? Promise.reject(new Error('The transaction has ended.')) : execute(...args),
            rollback: () => tx.rollback(),
          }),
        ),
      ),
    close: () => turns.runExclusive(() => pglite.close()),
  };
}
