import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { MAX_ANSWER_MS, type FuzzAnswer } from './check.js';
import type { FuzzRequest } from './requests.js';

const agent = new Agent({ keepAlive: true, maxSockets: 32 });
/** Time after which the connection is abandoned, shortly after the response is considered late. */
const GIVE_UP_MS = MAX_ANSWER_MS + 1_000;

/** @throws Error if the connection closes without a response */
export function send(url: URL, { operation, path, headers, body }: FuzzRequest): Promise<FuzzAnswer> {
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        agent,
        host: url.hostname,
        port: url.port,
        method: operation.method.toUpperCase(),
        path,
        headers: { ...headers, ...(body ? { 'content-length': body.length } : {}) },
        timeout: GIVE_UP_MS,
      },
      (incoming) => {
        const chunks: Buffer[] = [];
        const finish = () =>
          resolve({
            status: incoming.statusCode!,
            headers: incoming.headers,
            body: decode(Buffer.concat(chunks), incoming.headers['content-encoding']),
            ms: performance.now() - startedAt,
          });
        const isEndless = incoming.headers['content-type']?.startsWith('text/event-stream') === true;
        incoming.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          if (!isEndless) return;
          finish();
          outgoing.destroy();
        });
        incoming.on('end', finish);
        incoming.on('error', reject);
      },
    );
    outgoing.on('timeout', () => outgoing.destroy(new Error(`no answer within ${GIVE_UP_MS} ms`)));
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

const decode = (bytes: Buffer, encoding: string | undefined): string =>
  (encoding === 'gzip'
    ? gunzipSync(bytes)
    : encoding === 'br'
      ? brotliDecompressSync(bytes)
      : bytes
  ).toString();

const MAX_RAW_ANSWER = 1_000_000;

/** Sends raw bytes and returns a description of the fault in the response; undefined if the response is correct. */
export function sendRaw(url: URL, bytes: Buffer): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(Number(url.port), url.hostname);
    let answer = '';
    const timer = setTimeout(() => {
      socket.destroy();
      resolve(`the connection was still open after ${MAX_ANSWER_MS} ms`);
    }, MAX_ANSWER_MS);
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
      // An event stream never ends, and the first part of a large response is enough.
      if (answer.includes('text/event-stream') || answer.length > MAX_RAW_ANSWER) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(findFault(answer));
    });
    socket.end(bytes);
  });
}

function findFault(answer: string): string | undefined {
  if (answer === '') return undefined;
  if (!/^HTTP\/1\.1 \d{3} /.test(answer)) return `answered with what is no HTTP: ${answer.slice(0, 100)}`;
  const failed = /HTTP\/1\.1 5(?!03)\d\d /.exec(answer);
  if (failed) return `answered ${failed[0]}`;
  const [, body] = answer.split(/\r\n\r\n/, 2);
  const isRefusal = answer.startsWith('HTTP/1.1 4');
  return isRefusal && !answer.includes('application/problem+json') && body === ''
    ? 'refused without saying why'
    : undefined;
}
