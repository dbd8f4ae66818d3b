import { request, type Agent } from 'node:http';

export interface PostAnswer {
  status: number;
  body: { accepted?: number; deduped?: number; rejected?: { index: number }[]; code?: string };
  retryAfter: string | undefined;
}

export interface PostOptions {
  agent: Agent;
  port: number;
  secret: string;
  events: unknown[];
  isLenient?: boolean;
  /** Closes the connection after this many ms. */
  hangUpAfterMs?: number | undefined;
  /** Called when the server has received the headers; only then is the body sent. */
  onAccepted?: () => void;
}

/** Sends a batch. Rejects if the response is incomplete; the outcome is then unknown. */
export function postEvents(options: PostOptions): Promise<PostAnswer> {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify({ events: options.events });
    const req = request(
      {
        agent: options.agent,
        host: '127.0.0.1',
        port: options.port,
        path: '/api/usage/events',
        method: 'POST',
        timeout: 15_000,
        headers: {
          Authorization: `Bearer ${options.secret}`,
          'Content-Type': 'application/json',
          'Content-Length': Buffer.byteLength(body),
          ...(options.onAccepted ? { Expect: '100-continue' } : {}),
          ...(options.isLenient ? { Prefer: 'handling=lenient' } : {}),
        },
      },
      (res) => {
        const chunks: Buffer[] = [];
        res.on('data', (chunk: Buffer) => chunks.push(chunk));
        res.on('error', reject);
        res.on('end', () => {
          if (!res.complete) return;
          try {
            resolve({
              status: res.statusCode!,
              body: JSON.parse(Buffer.concat(chunks).toString()) as PostAnswer['body'],
              retryAfter: res.headers['retry-after'],
            });
          } catch (error) {
            reject(error);
          }
        });
        res.on('close', () => reject(new Error('the answer was cut off')));
      },
    );
    req.on('timeout', () => req.destroy(new Error('no answer within 15 s')));
    req.on('error', reject);
    if (options.hangUpAfterMs !== undefined) {
      setTimeout(() => req.destroy(new Error('hung up')), options.hangUpAfterMs).unref();
    }
    if (options.onAccepted) {
      req.on('continue', () => {
        options.onAccepted!();
        req.end(body);
      });
      req.flushHeaders();
    } else req.end(body);
  });
}
