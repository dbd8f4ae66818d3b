import { randomUUID } from 'node:crypto';
import { IncomingMessage, STATUS_CODES, ServerResponse, type Server } from 'node:http';
import http from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Express } from 'express';
import type { Logger } from 'pino';
import { AppError } from '../errors.js';
import {
  createLines,
  limitConnections,
  usualLimits,
  type ConnectionLimits,
  type Lines,
} from './connections.js';
import { toProblem } from './problem.js';

/** How long a refused sender may take to read why: closing at once would destroy the answer on its way. */
const LINGER_MS = 1_000;

/** Answers what Node refuses before there is a request for the app: with the problem that the app would answer with. */
function answerRefusals(server: Server, { answersOf }: Lines, accessLog?: Logger): void {
  const refused = new WeakSet<Duplex>();

  function refuse(socket: Duplex, error: AppError): void {
    if (refused.has(socket)) return;
    refused.add(socket);
    const requestId = randomUUID();
    const problem = toProblem(error, requestId);
    const body = JSON.stringify(problem);
    const { status, code } = problem;
    accessLog?.info({ requestId, status, code, ip: (socket as Socket).remoteAddress }, 'request refused');
    const head = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      `X-Request-Id: ${requestId}`,
      'Content-Type: application/problem+json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Cache-Control: no-store',
      'Connection: close',
    ];
    socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  }

  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    const [first, ...others] = answersOf(socket as Socket);
    // What is wrong belongs to the last request: those before it would lose their answers to it.
    const isAnswerable = others.length === 0 && !(first && (first.headersSent || first.req.complete));
    if (error.code === 'ECONNRESET' || !socket.writable || !isAnswerable) socket.destroy();
    else refuse(socket, toRefusal(error.code));
  });

  server.on('connect', (_req, socket) => refuse(socket, badRequest('CONNECT is not supported.')));
}

const badRequest = (detail: string) => new AppError('invalid_request', detail);

function toRefusal(code: string | undefined): AppError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new AppError('headers_too_large', 'The headers of a request may have 16 KiB together.');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new AppError('body_too_large', 'The extensions of a chunk are too long.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new AppError('request_timeout', 'The request did not arrive in time.');
    default:
      return badRequest('The request is not valid HTTP.');
  }
}

interface HttpServerOptions {
  limits?: Partial<ConnectionLimits>;
  log?: Logger;
  /** A line for each request that never reaches the app. */
  accessLog?: Logger;
}

/**
 * A server for an Express app. Express changes the prototype of every request and response, which costs more than the
 * rest of a small request. Requests that are born with Express's prototypes make that change a no-op.
 */
export function createHttpServer(app: Express, { limits, log, accessLog }: HttpServerOptions = {}): Server {
  const lines = createLines(app);
  const server = http.createServer({ ...prepareMessages(app), ...options }, lines.take);
  server.maxRequestsPerSocket = 0;
  // RFC 9110 (10.1.1) lets a server ignore expectations that it does not know.
  server.on('checkExpectation', lines.take);
  limitConnections(server, lines, { ...usualLimits, ...limits }, log);
  answerRefusals(server, lines, accessLog);
  return server;
}

/**
 * Connections that wait to be accepted while the process is busy; Linux keeps `net.core.somaxconn` of them at most. It drops the
 * first packet of further ones, which a client sends again after 1, 2, 3, 4, 5, 7, 11 and 19 s (Linux 6.5 and later). Of 2,000
 * connections to a process that stood still for 8 s, the last had its answer after 20.4 s with Node's 511, after 8.1 s with these.
 */
const BACKLOG = 4_096;

/** Rejects with the system's error where the address cannot be had. */
export function listen(server: Server, { port, host }: { port: number; host: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host, backlog: BACKLOG }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Slow and idle senders: the whole request within 30 s, its headers within 10 s. */
const options = {
  requestTimeout: 30_000,
  headersTimeout: 10_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
  // The app refuses requests without one, with a problem.
  requireHostHeader: false,
};

/** Message classes with the app's prototypes, or nothing where this Node does not let its own be called that way. */
function prepareMessages(app: Express): Pick<http.ServerOptions, 'IncomingMessage' | 'ServerResponse'> {
  function Request(this: IncomingMessage, socket: Socket) {
    callAsFunction(IncomingMessage, this, socket);
  }
  function Response(this: ServerResponse, request: IncomingMessage, options: unknown) {
    callAsFunction(ServerResponse, this, request, options);
  }
  // The engine sizes new objects by the fields that a constructor and those it inherits from assign.
  Object.setPrototypeOf(Request, IncomingMessage);
  Object.setPrototypeOf(Response, ServerResponse);
  Request.prototype = app.request;
  Response.prototype = app.response;
  const classes = {
    IncomingMessage: Request as unknown as typeof IncomingMessage,
    ServerResponse: Response as unknown as typeof ServerResponse,
  };
  try {
    const trial = new classes.ServerResponse(new classes.IncomingMessage(new Socket()));
    return trial.headersSent ? {} : classes;
  } catch {
    return {};
  }
}

type Callable = { call(self: object, ...args: unknown[]): void };

/** Node's message classes are functions that can be called on an object of ours. */
function callAsFunction(constructor: unknown, self: object, ...args: unknown[]): void {
  (constructor as Callable).call(self, ...args);
}
