import http, { IncomingMessage, ServerResponse, type Server } from 'node:http';
import { Socket } from 'node:net';
import type { Express } from 'express';
import type { Logger } from 'pino';
import { createLines, limitConnections, usualLimits, type ConnectionLimits } from './connections.js';
import { answerRefusals } from './refusals.js';

export interface HttpServerOptions {
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
