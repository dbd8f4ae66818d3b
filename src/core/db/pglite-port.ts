import type { MessagePort } from 'node:worker_threads';
import type { PGlite, Results, Transaction } from '@electric-sql/pglite';
import { connectThread } from '../threads.js';

export interface PgliteClient extends Pick<PGlite, 'query' | 'close'> {
  transaction<T>(work: (tx: PgliteTransaction) => Promise<T>): Promise<T>;
}

type PgliteTransaction = Pick<Transaction, 'query' | 'rollback'>;

interface PgliteCalls {
  query(
    text: string,
    values: unknown[] | undefined,
    options: { rowMode?: 'array' | 'object'; asText?: number[] },
    transaction?: number,
  ): Promise<Results>;
  begin(): Promise<number>;
  end(transaction: number, how: 'commit' | 'rollback'): Promise<void>;
  close(): Promise<void>;
}

interface OpenTransaction {
  tx: PgliteTransaction;
  end: (how: 'commit' | 'rollback') => Promise<void>;
}

/** @param onClose called after the database is closed and before the client is notified */
export function servePglite(pglite: PgliteClient, port: MessagePort, onClose: () => void): void {
  const open = new Map<number, OpenTransaction>();
  let count = 0;

  /** The transaction stays open until `end` is called. */
  const begin = (): Promise<number> =>
    new Promise((resolve, reject) => {
      const done = pglite.transaction(async (tx) => {
        const id = ++count;
        const how = await new Promise<'commit' | 'rollback'>((decide) => {
          open.set(id, {
            tx,
            end(wanted) {
              open.delete(id);
              decide(wanted);
              return done;
            },
          });
          resolve(id);
        });
        if (how === 'rollback') await tx.rollback();
      });
      done.catch(reject);
    });

  // Open transactions of a client that has disconnected must not block others.
  port.on('close', () => {
    for (const { end } of open.values()) void end('rollback').catch(() => undefined);
  });
  connectThread<object, PgliteCalls>(port, {
    query(text, values, { rowMode, asText = [] }, transaction) {
      const parsers = Object.fromEntries(asText.map((type) => [type, (value: string) => value]));
      const client = transaction === undefined ? pglite : open.get(transaction)!.tx;
      return client.query(text, values, {
        ...(rowMode && { rowMode }),
        ...(asText.length > 0 && { parsers }),
      });
    },
    begin,
    end: (transaction, how) => open.get(transaction)!.end(how),
    async close() {
      await pglite.close();
      onClose();
    },
  });
}

/** Parsers cannot cross threads, so only those that keep values as text are supported. */
export function connectPglite(port: Parameters<typeof connectThread>[0]): PgliteClient {
  const remote = connectThread<PgliteCalls>(port, {});
  const queryIn =
    (transaction?: number): PGlite['query'] =>
    (text, values, { rowMode, parsers } = {}) => {
      const options = {
        ...(rowMode && { rowMode }),
        ...(parsers && { asText: Object.keys(parsers).map(Number) }),
      };
      return remote.query(text, values, options, transaction) as ReturnType<PGlite['query']> as never;
    };
  return {
    query: queryIn(),
    async transaction(work) {
      const id = await remote.begin();
      let isRolledBack = false;
      const rollback = async (): Promise<void> => {
        isRolledBack = true;
        await remote.end(id, 'rollback');
      };
      try {
        const result = await work({ query: queryIn(id), rollback });
        if (!isRolledBack) await remote.end(id, 'commit');
        return result;
      } catch (error) {
        if (!isRolledBack) await rollback();
        throw error;
      }
    },
    close: () => remote.close(),
  };
}
