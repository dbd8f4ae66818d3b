import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { addressOf } from './rate-limit.js';

/** What callers may hold of this process without ever showing a credential. */
export interface ConnectionLimits {
  /** In all; Node refuses those beyond. */
  connections: number;
  /** Of one address; Infinity behind a proxy, whose connections are those of all callers. */
  connectionsPerAddress: number;
  /** Answers that wait to be read, over all connections; shared bytes do not count. */
  bufferedBytes: number;
  /** An answer of which nothing was read for so long ends its connection. */
  unreadMs: number;
}

export const usualLimits: ConnectionLimits = {
  connections: 10_000,
  connectionsPerAddress: 4_000,
  bufferedBytes: 64 * 1024 * 1024,
  unreadMs: 20_000,
};

/** Pipelined requests of a connection that are answered at once, and those that wait for their turn. */
const MAX_ANSWERS = 4;
const MAX_WAITING = 60;
/** How often the buffered answers are added up: about a millisecond for 10,000 connections. */
const SUM_EVERY_MS = 250;

interface Line {
  answers: ServerResponse[];
  waiting: [IncomingMessage, ServerResponse][];
}

export interface Lines {
  take: (req: IncomingMessage, res: ServerResponse) => void;
  /** What was begun on a connection and is not sent yet. */
  answersOf: (socket: Socket) => readonly ServerResponse[];
}

/**
 * The requests of each connection, a few at a time. Node parses all that has arrived and would start every one. Where
 * too many wait the connection ends at once: each waiting request holds some kilobytes, and clients pipeline that many
 * only to make us hold them. A client that does may send them again (RFC 9112, 9.3.2).
 */
export function createLines(listener: RequestListener): Lines {
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
    take: (req, res) => {
      let line = lines.get(req.socket);
      if (line === undefined) lines.set(req.socket, (line = { answers: [], waiting: [] }));
      if (req.socket.destroyed) return;
      if (line.answers.length < MAX_ANSWERS) start(line, req, res);
      else if (line.waiting.length < MAX_WAITING) line.waiting.push([req, res]);
      else req.socket.destroy();
    },
    answersOf: (socket) => lines.get(socket)?.answers ?? [],
  };
}

/** Answers whose bytes lie in memory anyway, however many wait to be read. */
const shared = new WeakSet<ServerResponse>();

/** Ends an answer with bytes that many answers share, and a little of its own: they leave together, and nothing is copied. */
export function endShared(res: ServerResponse, bytes: Buffer, rest?: Buffer): void {
  shared.add(res);
  if (rest === undefined) {
    res.end(bytes);
    return;
  }
  res.cork();
  res.write(bytes);
  // It uncorks.
  res.end(rest);
}

/** Bounds what connections hold: their number, and the answers that are not read. */
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

  // Node's timer stands still while bytes move; it also ends connections that are idle.
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
    log?.warn({ ended }, 'too many answers wait to be read: the connections with the most are ended');
  }, SUM_EVERY_MS).unref();
  server.on('close', () => clearInterval(timer));
}
