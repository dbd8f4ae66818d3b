import pg from 'pg';
import { READ_ONLY, sqlState } from './client.js';

const READ_TIMEOUT = 'Query read timeout';

export interface ConnectionWatch {
  onConnected(): void;
  onError(error: unknown): void;
}

interface Siblings {
  readonly watch: ConnectionWatch;
  closeAll(): void;
}

type Callback = (error: unknown, ...rest: unknown[]) => void;

/**
 * A connection whose failures affect only its own statements. The pool listens only to idle connections, so without
 * this listener a connection that ends during setup would end the process. A statement that times out closes the
 * connection, because the driver would queue a rollback behind it.
 */
export class Connection extends pg.Client {
  private isGivenUp = false;
  private readonly address: Siblings | undefined;

  constructor(config?: pg.ClientConfig & { address?: Siblings }) {
    super(config);
    this.address = config?.address;
    this.on('error', (error) => this.address?.watch.onError(error));
  }

  get isClean(): boolean {
    return !this.isGivenUp && this.getTransactionStatus() === 'I';
  }

  override connect(...args: unknown[]): never {
    return this.observe('connect', args, (error) => {
      if (error) this.address?.watch.onError(error);
      else this.address?.watch.onConnected();
    });
  }

  override query(...args: unknown[]): never {
    return this.observe('query', args, (error) => {
      if (!error) return;
      if (error instanceof Error && error.message === READ_TIMEOUT) this.giveUp();
      // After a failover, this connection still leads to the demoted server.
      if (sqlState(error) === READ_ONLY) {
        this.isGivenUp = true;
        this.address?.closeAll();
      }
      this.address?.watch.onError(error);
    });
  }

  /** The driver's overloads reduce to two forms: a callback as the last argument, or a promise. */
  private observe(method: 'connect' | 'query', args: unknown[], observer: (error: unknown) => void): never {
    const call = super[method].bind(this) as (...args: unknown[]) => unknown;
    const callback = args.at(-1);
    if (typeof callback === 'function') {
      const observed: Callback = (error, ...rest) => {
        observer(error);
        (callback as Callback)(error, ...rest);
      };
      return call(...args.slice(0, -1), observed) as never;
    }
    const observed = (call(...args) as Promise<unknown>).then(
      (result) => {
        observer(undefined);
        return result;
      },
      (error: unknown) => {
        observer(error);
        throw error;
      },
    );
    return observed as never;
  }

  private giveUp(): void {
    this.isGivenUp = true;
    const { connection } = this as unknown as { connection: { stream: { destroy(): void } } };
    connection.stream.destroy();
  }
}
