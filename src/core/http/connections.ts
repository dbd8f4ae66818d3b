import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { addressOf } from './rate-limit.js';

/** The limits apply per process. */
export interface ConnectionLimits {
  connections: number;
  connectionsPerAddress: number;
  /** Responses sent with `endShared` do not count. */
  bufferedBytes: number;
  /** A connection is closed if its client reads nothing of a response for this long. */
  unreadMs: number;
}

export const usualLimits: ConnectionLimits = {
  connections: 10_000,
  connectionsPerAddress: 4_000,
  bufferedBytes: 64 * 1024 * 1024,
  unreadMs: 20_000,
};

/** Per connection. `MAX_WAITING` more may wait. */
const MAX_ANSWERS = 4;
const MAX_WAITING = 60;
/** The sum takes about 1 ms for 10,000 connections. */
const SUM_EVERY_MS = 250;

interface Line {
  answers: ServerResponse[];
  waiting: [IncomingMessage, ServerResponse][];
}

export type Lines = ReturnType<typeof createLines>;

/**
 * Node would start all pipelined requests at once. Each waiting request takes a few kilobytes, and only an attacker
 * pipelines many, so too many close the connection. Clients may repeat them (RFC 9112, 9.3.2).
 */
export function createLines(listener: RequestListener) {
  const lines = new WeakMap<Socket, Line>();

  function start(line: Line, req: IncomingMessage, res: ServerResponse): void {
    line.answers.push(res);
    res.once('close', () => {
      line.answers.splice(line.answers.indexOf(res), 1);
      const next = line.waiting.shift();
      if (next && !req.socket.destroyed) start(line, ...next);
    });
    listener(req, res);
  }

  return {
    take: (req: IncomingMessage, res: ServerResponse): void => {
      let line = lines.get(req.socket);
      if (line === undefined) lines.set(req.socket, (line = { answers: [], waiting: [] }));
      if (req.socket.destroyed) return;
      if (line.answers.length < MAX_ANSWERS) start(line, req, res);
      else if (line.waiting.length < MAX_WAITING) line.waiting.push([req, res]);
      else req.socket.destroy();
    },
    answersOf: (socket: Socket): readonly ServerResponse[] => lines.get(socket)?.answers ?? [],
  };
}

/** Their bytes stay in memory regardless of how many clients have yet to read them. */
const shared = new WeakSet<ServerResponse>();

export function endShared(res: ServerResponse, bytes: Buffer): void {
  shared.add(res);
  res.end(bytes);
}

export function limitConnections(
  server: Server,
  { answersOf }: Lines,
  { connections, connectionsPerAddress, bufferedBytes, unreadMs }: ConnectionLimits,
  log?: Logger,
): void {
  const sockets = new Set<Socket>();
  const perAddress = new Map<string, number>();
  server.maxConnections = connections;

  server.on('connection', (socket: Socket) => {
    const address = addressOf({ ip: socket.remoteAddress });
    const count = perAddress.get(address) ?? 0;
    if (count >= connectionsPerAddress) {
      socket.destroy();
      return;
    }
    perAddress.set(address, count + 1);
    sockets.add(socket);
    socket.once('close', () => {
      sockets.delete(socket);
      const left = perAddress.get(address)! - 1;
      if (left === 0) perAddress.delete(address);
      else perAddress.set(address, left);
    });
  });

  // Node's timer also fires on idle connections. A request that is still being processed gets more time.
  server.timeout = unreadMs;
  server.on('timeout', (socket: Socket) => {
    if (answersOf(socket).length === 0 || unreadOf(socket) > 0) socket.destroy();
    else socket.setTimeout(unreadMs);
  });

  const unreadOf = (socket: Socket, isCounted: (answer: ServerResponse) => boolean = () => true): number =>
    answersOf(socket)
      .filter(isCounted)
      .reduce((sum, answer) => sum + answer.writableLength, 0);
  const heldBy = (socket: Socket) => unreadOf(socket, (answer) => !shared.has(answer));

  const timer = setInterval(() => {
    let sum = 0;
    for (const socket of sockets) sum += heldBy(socket);
    if (sum <= bufferedBytes) return;
    const largest = [...sockets].map((socket) => ({ socket, unread: heldBy(socket) }));
    largest.sort((a, b) => b.unread - a.unread);
    let ended = 0;
    for (; sum > bufferedBytes; ended++) {
      const { socket, unread } = largest[ended]!;
      sum -= unread;
      socket.destroy();
    }
    log?.warn({ ended }, 'too much unread response data; closing the connections that hold the most');
  }, SUM_EVERY_MS).unref();
  server.on('close', () => clearInterval(timer));
}
