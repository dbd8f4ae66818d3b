import http, { IncomingMessage, ServerResponse, type Server } from 'node:http';
import { Socket } from 'node:net';
import type { Express } from 'express';

/**
 * A server for an Express app. Express changes the prototype of every request and response, which costs more than the
 * rest of a small request. Requests that are born with Express's prototypes make that change a no-op.
 */
export function createHttpServer(app: Express): Server {
  const server = http.createServer({ ...prepareMessages(app), ...timeouts }, app);
  server.maxRequestsPerSocket = 0;
  return server;
}

/** Slow and idle senders: the whole request within 30 s, its headers within 10 s. */
const timeouts = {
  requestTimeout: 30_000,
  headersTimeout: 10_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384,
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
