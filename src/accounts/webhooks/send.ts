import {
  Agent as HttpAgent,
  request as requestHttp,
  type ClientRequest,
  type IncomingMessage,
} from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { Webhook } from 'standardwebhooks';
import { HOUR_MS, SECOND_MS } from '../../core/time.js';
import { findProxy, proxyAgent } from '../../core/http/proxy.js';
import { guardedLookup, whyNoReceiver, type ReceiverRules } from './guard.js';

/** Per instance. */
const IN_FLIGHT = 1024;
/** Limit for endpoints not yet known to be fast. */
const IN_FLIGHT_UNPROVEN = 768;
/** Concurrency of an unknown endpoint. */
const FIRST_ROOM = 4;
const MOST_ROOM = 64;
const FAST_MS = 1_000;
/** Their concurrency is passed to every claim statement. */
const MAX_KNOWN = 1_000;

interface Receiver {
  inFlight: number;
  room: number;
}

/** A slow or failed response halves an endpoint's concurrency, so endpoints that hang occupy few slots. */
export function createReceivers() {
  const known = new Map<string, Receiver>();
  let inFlight = 0;
  let unproven = 0;
  const isUnproven = ({ room }: Receiver) => room <= FIRST_ROOM;

  function change(id: string, apply: (receiver: Receiver) => void): void {
    const receiver = known.get(id) ?? { inFlight: 0, room: FIRST_ROOM };
    if (isUnproven(receiver)) unproven -= receiver.inFlight;
    inFlight -= receiver.inFlight;
    apply(receiver);
    if (isUnproven(receiver)) unproven += receiver.inFlight;
    inFlight += receiver.inFlight;
    // The endpoint that has been idle longest is forgotten first.
    known.delete(id);
    known.set(id, receiver);
    if (known.size > MAX_KNOWN)
      for (const [oldest, { inFlight }] of known)
        if (inFlight === 0) {
          known.delete(oldest);
          break;
        }
  }

  return {
    free: () => IN_FLIGHT - inFlight,
    begin: (id: string) => change(id, (receiver) => receiver.inFlight++),
    finish: (id: string, { isOk, durationMs }: { isOk: boolean; durationMs: number }) =>
      change(id, (receiver) => {
        receiver.inFlight--;
        receiver.room =
          isOk && durationMs < FAST_MS
            ? Math.min(MOST_ROOM, receiver.room + 1)
            : Math.max(1, Math.floor(receiver.room / 2));
      }),
    /** `others` is the number for each unknown endpoint. */
    rooms() {
      const left = Math.max(0, IN_FLIGHT_UNPROVEN - unproven);
      const ids = [...known.keys()];
      const rooms = [...known.values()].map((receiver) => {
        const room = Math.max(0, receiver.room - receiver.inFlight);
        return isUnproven(receiver) ? Math.min(room, left) : room;
      });
      return { ids, rooms, others: Math.min(FIRST_ROOM, left) };
    },
  };
}

/** Includes the DNS lookup, the connection and the whole response. */
const DEADLINE_MS = 15 * SECOND_MS;
/** Longer responses are cut off, but their status still counts. */
const MAX_ANSWER_BYTES = 64 * 1024;
const KEPT_ANSWER_BYTES = 1024;
/** A receiver cannot request a longer pause. */
const MAX_PAUSE_MS = HOUR_MS;
const IDLE_MS = 5 * SECOND_MS;

interface Post {
  url: string;
  body: string;
  headers: Record<string, string | number>;
}

/**
 * Standard Webhooks.
 * @param id the `webhook-id`
 * @param secrets each adds a signature
 */
export const signatureOf = (id: string, secrets: readonly string[], body: string, at: Date) => ({
  'webhook-id': id,
  'webhook-timestamp': Math.floor(at.getTime() / 1000),
  'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, at, body)).join(' '),
});

export interface Answer {
  statusCode: number | null;
  /** Why there is no response, or only part of one. */
  error: string | null;
  text: string | null;
  retryAfterMs?: number | undefined;
}

/** @param data JSON text as the database formats it, which keeps all digits of numbers */
export const bodyOf = (type: string, createdAt: Date, data: string): string =>
  `{"type":${JSON.stringify(type)},"timestamp":"${createdAt.toISOString()}","data":${data}}`;

function createAgents(rules: ReceiverRules, usesProxy: boolean) {
  const settings = { keepAlive: true, timeout: IDLE_MS, scheduling: 'lifo' } as const;
  const http = { agent: new HttpAgent(settings), lookup: guardedLookup(true, rules) };
  const https = { agent: new HttpsAgent(settings), lookup: guardedLookup(false, rules) };
  let proxied: HttpsAgent | undefined;
  return {
    http,
    httpsTo: (url: string) =>
      usesProxy && findProxy(url) !== undefined ? { agent: (proxied ??= proxyAgent(url, settings)) } : https,
    destroyAgents: () => {
      for (const agent of [http.agent, https.agent, proxied]) agent?.destroy();
    },
  };
}

/** @param usesProxy the proxy must then refuse private addresses itself */
export function createSender(rules: ReceiverRules, usesProxy = false) {
  const { http, httpsTo, destroyAgents } = createAgents(rules, usesProxy);

  let isClosed = false;

  function open({ url, body, headers: own }: Post) {
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'user-agent': 'Gauge-Webhooks',
      ...own,
    };
    // `HTTP://` is plain HTTP too. Node does not follow redirects.
    const target = new URL(url);
    return target.protocol === 'http:'
      ? requestHttp(target, { ...http, method: 'POST', headers })
      : requestHttps(target, { ...httpsTo(url), method: 'POST', headers });
  }

  function send({ url, body, headers }: Post): Promise<Answer> {
    // An IP address skips the guarded lookup, and a URL from earlier must satisfy the current rules.
    const problem = whyNoReceiver(url, rules);
    if (problem !== undefined)
      return Promise.resolve({ statusCode: null, error: `The URL ${problem}.`, text: null });
    return new Promise((resolve) => {
      let request: ClientRequest | undefined;
      let response: IncomingMessage | undefined;
      const chunks: Buffer[] = [];
      let size = 0;
      let isOver = false;
      const end = (error: string | null) => {
        if (isOver) return;
        isOver = true;
        clearTimeout(deadline);
        resolve({ ...answerOf(response, chunks), error });
        // Only a fully read response leaves a reusable connection.
        if (!response?.complete) request?.destroy();
      };
      const start = () => {
        const own = open({ url, body, headers });
        request = own;
        const fail = (error: NodeJS.ErrnoException) => {
          // The receiver closed a kept-alive connection before reading. An aborted request fails with the same error.
          const isUnread = own.reusedSocket && error.code === 'ECONNRESET' && !response;
          if (isUnread && !isClosed && !isOver) start();
          else end(describe(error));
        };
        own.on('error', fail);
        own.on('response', (answer) => {
          response = answer;
          answer.on('data', (chunk: Buffer) => {
            if (size < KEPT_ANSWER_BYTES) chunks.push(chunk);
            size += chunk.length;
            if (size > MAX_ANSWER_BYTES) end(null);
          });
          answer.on('end', () => end(null));
          answer.on('error', fail);
        });
        own.end(body);
      };
      const deadline = setTimeout(() => end('No complete response within 15 seconds.'), DEADLINE_MS);
      start();
    });
  }

  return {
    send,
    close() {
      isClosed = true;
      destroyAgents();
    },
  };
}

function answerOf(response: IncomingMessage | undefined, chunks: Buffer[]): Omit<Answer, 'error'> {
  if (!response) return { statusCode: null, text: null };
  const { statusCode = null, headers } = response;
  return { statusCode, text: toText(Buffer.concat(chunks)), retryAfterMs: toPauseMs(headers['retry-after']) };
}

const toPauseMs = (retryAfter = ''): number | undefined =>
  /^\d{1,6}(\.\d{1,6})?$/.test(retryAfter)
    ? Math.min(Math.ceil(Number(retryAfter) * SECOND_MS), MAX_PAUSE_MS)
    : undefined;

/** Control characters cannot be stored or would affect the display. */
const toText = (bytes: Buffer): string =>
  bytes
    .subarray(0, KEPT_ANSWER_BYTES)
    .toString('utf8')
    .replace(/[^\P{Cc}\n\t]/gu, '\uFFFD');

const reasons: Record<string, string> = {
  FORBIDDEN_ADDRESS: 'The host name resolves to a private or reserved address.',
  ENOTFOUND: 'The host name does not exist.',
  EAI_AGAIN: 'The host name could not be resolved.',
  ECONNREFUSED: 'The connection was refused.',
  ECONNRESET: 'The connection closed before the response.',
  ETIMEDOUT: 'The address did not respond.',
  EHOSTUNREACH: 'The address cannot be reached.',
  ENETUNREACH: 'The address cannot be reached.',
};

const describe = ({ code = '', message }: NodeJS.ErrnoException): string =>
  reasons[code] ?? `The connection failed: ${code === '' ? message.slice(0, 200) : code}.`;
