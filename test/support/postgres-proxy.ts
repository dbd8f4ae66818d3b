import { connect, createServer, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';

export interface Step {
  /** Number of the statement since `arm`, counted from 1 across all connections. */
  number: number;
  pid: number;
  sql: string;
}

/** A fault for the connection that reaches the armed step. */
export type Fault =
  /** The request never reaches Postgres: the proxy runs `act` and then cuts both connections. */
  | { when: 'before'; act: (step: Step) => Promise<void> | void }
  /**
   * The end of the response is held back until `act` has run. It then arrives together with whatever the server has
   * sent since, usually its shutdown message, between two statements.
   */
  | { when: 'after'; act: (step: Step) => Promise<void> | void; isCut?: boolean };

/** Responds to matching statements with this error; the server never sees them. */
interface Refusal {
  pattern: RegExp;
  code: string;
  message: string;
}

export interface PostgresProxy {
  url: string;
  /** Injects `fault` at this step, counted from now; with step 0, only counts. */
  arm(step: number, fault?: Fault): void;
  refuse(refusal: Refusal | undefined): void;
  readonly steps: Step[];
  readonly hasStruck: boolean;
  close(): Promise<void>;
}

const SYNC = 'S'.charCodeAt(0);
const QUERY = 'Q'.charCodeAt(0);
const PARSE = 'P'.charCodeAt(0);
const READY = 'Z'.charCodeAt(0);
const BIND = 'B'.charCodeAt(0);
const KEY_DATA = 'K'.charCodeAt(0);

/** A proxy between a client and Postgres that parses the protocol (version 3) and can inject a fault at any statement. */
export async function createPostgresProxy(target: string): Promise<PostgresProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let armed: { step: number; fault: Fault | undefined } = { step: 0, fault: undefined };
  let steps: Step[] = [];
  let hasStruck = false;
  let refused: Refusal | undefined;

  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
    }
    const cut = () => {
      client.destroy();
      upstream.destroy();
    };
    let pid = 0;
    let sql = '';
    let isStarted = false;
    let asked: Buffer[] = [];
    let struck: { fault: Fault; step: Step } | undefined;
    let held: Buffer[] | undefined;
    const textOf = new Map<string, string>();

    const fromClient = splitMessages(
      () => isStarted,
      (message, type) => {
        isStarted = true;
        if (type === QUERY) sql = readString(message, 5).text;
        if (type === PARSE) {
          const name = readString(message, 5);
          sql = readString(message, name.end).text;
          textOf.set(name.text, sql);
        }
        if (type === BIND) sql = textOf.get(readString(message, readString(message, 5).end).text) ?? sql;
        asked.push(message);
        // Forwards a request once it is complete.
        if (type !== SYNC && type !== QUERY && isExtended(type)) return;
        const question = Buffer.concat(asked);
        asked = [];
        if (type === SYNC || type === QUERY) {
          const step = { number: steps.length + 1, pid, sql };
          steps.push(step);
          if (armed.step === step.number && !hasStruck && armed.fault) {
            hasStruck = true;
            struck = { fault: armed.fault, step };
          }
        }
        if (refused?.pattern.test(sql)) {
          client.write(errorAnswer(refused.code, refused.message));
          return;
        }
        if (struck?.fault.when === 'before') {
          void Promise.resolve(struck.fault.act(struck.step)).then(cut);
          return;
        }
        upstream.write(question);
      },
    );
    const fromServer = splitMessages(
      () => true,
      (message, type) => {
        if (type === KEY_DATA) pid = message.readInt32BE(5);
        if (held) {
          held.push(message);
          return;
        }
        if (type !== READY || struck?.fault.when !== 'after') {
          client.write(message);
          return;
        }
        const { fault, step } = struck;
        const last = (held = [message]);
        void (async () => {
          await fault.act(step);
          for (let i = 0; i < 200 && !fault.isCut && !upstream.destroyed; i++) await setTimeout(5);
          client.end(Buffer.concat(last));
        })();
      },
    );
    client.on('data', fromClient);
    upstream.on('data', fromServer);
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => {
      if (!held) client.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as { port: number }).port);
  return {
    url: url.href,
    arm(step, fault) {
      armed = { step, fault };
      steps = [];
      hasStruck = false;
    },
    refuse(refusal) {
      refused = refusal;
    },
    get steps() {
      return steps;
    },
    get hasStruck() {
      return hasStruck;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** Calls `take` with each complete message. A client's first message has no type byte. */
function splitMessages(hasType: () => boolean, take: (message: Buffer, type: number) => void) {
  let rest = Buffer.alloc(0);
  return (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const start = hasType() ? 1 : 0;
      if (rest.length < start + 4) return;
      const length = start + rest.readInt32BE(start);
      if (rest.length < length) return;
      const message = rest.subarray(0, length);
      rest = rest.subarray(length);
      take(message, start === 1 ? message[0]! : 0);
    }
  };
}

/** Parse, Bind, Describe, Execute and Close wait for a Sync. */
const isExtended = (type: number): boolean => 'PBDEC'.includes(String.fromCharCode(type));

function readString(message: Buffer, start: number): { text: string; end: number } {
  const end = message.indexOf(0, start);
  return { text: message.toString('utf8', start, end), end: end + 1 };
}

function errorAnswer(code: string, message: string): Buffer {
  const fields = Buffer.from(`SERROR\0VERROR\0C${code}\0M${message}\0\0`);
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(fields.length + 4, 1);
  // ReadyForQuery with status I (not in a transaction); the client rolls back its own transaction.
  return Buffer.concat([head, fields, Buffer.from([READY, 0, 0, 0, 5, 'I'.charCodeAt(0)])]);
}
