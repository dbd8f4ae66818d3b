import { randomUUID } from 'node:crypto';
import { IncomingMessage, STATUS_CODES, ServerResponse, type Server } from 'node:http';
import http from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Express } from 'express';
import type { Logger } from 'pino';
import { AppError, commonStatuses } from '../errors.js';
import {
  createLines,
  limitConnections,
  usualLimits,
  type ConnectionLimits,
  type Lines,
} from './connections.js';
import { toProblem } from './problem.js';

/** Closing immediately would discard the response in transit. */
const LINGER_MS = 1_000;

/** Node rejects some requests before they reach the app; this sends the problem that the app would send. */
function answerRefusals(server: Server, { answersOf }: Lines, accessLog?: Logger): void {
  const refused = new WeakSet<Duplex>();

  function refuse(socket: Duplex, error: AppError): void {
    if (refused.has(socket)) return;
    refused.add(socket);
    const requestId = randomUUID();
    const problem = toProblem(error, commonStatuses[error.code as keyof typeof commonStatuses], requestId);
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
    // The error belongs to the last request; responding would discard the responses to earlier ones.
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
      return new AppError('headers_too_large', 'The headers of a request can have at most 16 KiB in total.');
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
  keepAliveMs?: number;
  log?: Logger;
  accessLog?: Logger;
}

/**
 * Express changes the prototypes of every request and response, which takes half the time of a small request ("JSON and
 * HTTP by hand" in bench/README.md).
 */
export function createHttpServer(
  app: Express,
  { limits, keepAliveMs: keepAliveTimeout = 65_000, log, accessLog }: HttpServerOptions = {},
): Server {
  const lines = createLines(app);
  const server = http.createServer({ ...prepareMessages(app), ...options, keepAliveTimeout }, lines.take);
  server.maxRequestsPerSocket = 0;
  // RFC 9110 (10.1.1) allows servers to ignore unknown expectations.
  server.on('checkExpectation', lines.take);
  limitConnections(server, lines, { ...usualLimits, ...limits }, log);
  answerRefusals(server, lines, accessLog);
  return server;
}

/**
 * Length of the accept queue while the process is busy. Linux caps it at `net.core.somaxconn` and drops the first
 * packet of further connections, which clients resend after 1, 2, 3, 4, 5, 7, 11 and 19 s (Linux 6.5 and later). With
 * 2,000 connections to a process blocked for 8 s, the last response came after 20.4 s with Node's default of 511, and
 * after 8.1 s with this value.
 */
const BACKLOG = 4_096;

export function listen(server: Server, { port, host }: { port: number; host: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host, backlog: BACKLOG }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** A whole request may take 30 s, its headers 10 s. */
const options = {
  requestTimeout: 30_000,
  headersTimeout: 10_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
  // The app itself rejects requests without a Host header, with problem details.
  requireHostHeader: false,
};

/** Returns nothing if this Node version's constructors cannot be called as functions. */
function prepareMessages(app: Express): Pick<http.ServerOptions, 'IncomingMessage' | 'ServerResponse'> {
  function Request(this: IncomingMessage, socket: Socket) {
    callAsFunction(IncomingMessage, this, socket);
  }
  function Response(this: ServerResponse, request: IncomingMessage, options: unknown) {
    callAsFunction(ServerResponse, this, request, options);
  }
  // V8 sizes new objects by the fields that the constructor chain assigns.
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

function callAsFunction(constructor: unknown, self: object, ...args: unknown[]): void {
  (constructor as Callable).call(self, ...args);
}
