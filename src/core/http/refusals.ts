import { randomUUID } from 'node:crypto';
import { STATUS_CODES, type Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { AppError } from '../errors.js';
import { toProblem } from './problem.js';
import type { Lines } from './connections.js';

/** How long a refused sender may take to read why: closing at once would destroy the answer on its way. */
const LINGER_MS = 1_000;

/** Answers what Node refuses before there is a request for the app: with the problem that the app would answer with. */
export function answerRefusals(server: Server, { answersOf }: Lines, accessLog?: Logger): void {
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
