/**
 * Shares the machine with the measured server, so raw sockets and prebuilt bytes keep its own load low. Reads a
 * `LoadPlan` as JSON from standard input and prints a `LoadResult`.
 */
import { connect, type Socket } from 'node:net';

export interface LoadPlan {
  port: number;
  connections: number;
  seconds: number;
  /**
   * Over all connections, on a fixed schedule. Default: each connection sends its next request after a response. With a
   * rate, latencies exclude the first second, in which the generator warms up.
   */
  rate?: number;
  /** With headers. Connection i starts with request i modulo their number. */
  requests: string[];
  /** Each connection cycles through all requests. */
  rotates?: boolean;
  /** Follow-up i is sent after the response to request i, with `idPlaceholder` replaced by its first `id`. */
  follow?: { requests: string[]; idPlaceholder: string };
  /** Each occurrence in a request is overwritten with a fresh key of the same length. */
  placeholder?: string;
  keyPrefix?: string;
}

export interface LoadResult {
  requests: number;
  perSecond: number;
  statuses: Record<string, number>;
  p50Ms: number;
  p99Ms: number;
  maxMs: number;
}

interface Template {
  bytes: Buffer;
  places: number[];
}

let nextKey = 0;

function toTemplate(request: string, placeholder: string | undefined): Template {
  const bytes = Buffer.from(request, 'latin1');
  const places: number[] = [];
  if (placeholder)
    for (let at = bytes.indexOf(placeholder); at >= 0; at = bytes.indexOf(placeholder, at + 1))
      places.push(at);
  return { bytes, places };
}

function run(plan: LoadPlan): Promise<LoadResult> {
  const latencies: number[] = [];
  const statuses: Record<string, number> = {};
  const startedAt = performance.now();
  const endsAt = startedAt + plan.seconds * 1000;
  const width = plan.placeholder?.length ?? 0;
  const prefix = plan.keyPrefix ?? '';
  const countsFrom = plan.rate ? startedAt + 1000 : startedAt;
  let requests = 0;
  const gapMs = plan.rate ? (plan.connections / plan.rate) * 1000 : 0;

  const templates = plan.requests.map((request) => toTemplate(request, plan.placeholder));

  function fill(template: Template): Buffer {
    for (const at of template.places)
      template.bytes.write(prefix + String(nextKey++).padStart(width - prefix.length, '0'), at, 'latin1');
    return template.bytes;
  }

  const followers = (plan.follow?.requests ?? []).map((request) =>
    toTemplate(request, plan.follow!.idPlaceholder),
  );

  function followUp(index: number, answer: string): Buffer {
    const { bytes, places } = followers[index % followers.length]!;
    bytes.write(/"id":"([^"]+)"/.exec(answer)![1]!, places[0]!, 'latin1');
    return bytes;
  }

  function drive(index: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const own = plan.rotates ? templates : [templates[index % templates.length]!];
      let turn = plan.rotates ? Math.floor((index / plan.connections) * own.length) : 0;
      const socket: Socket = connect(plan.port, '127.0.0.1');
      let dueAt = startedAt + (gapMs * index) / plan.connections;
      let buffered = Buffer.alloc(0);
      let isFollowing = false;
      socket.setNoDelay(true);

      const send = () => {
        if (performance.now() >= endsAt) {
          socket.destroy();
          resolve();
          return;
        }
        if (gapMs === 0) dueAt = performance.now();
        const bytes = fill(own[turn++ % own.length]!);
        // Rotating connections share these bytes.
        socket.write(plan.rotates ? Buffer.from(bytes) : bytes);
      };
      const next = () => {
        if (gapMs === 0) return send();
        dueAt += gapMs;
        const waitMs = dueAt - performance.now();
        if (waitMs > 1) setTimeout(send, waitMs);
        else send();
      };
      socket.on('connect', () =>
        gapMs === 0 ? send() : setTimeout(send, Math.max(0, dueAt - performance.now())),
      );
      socket.on('error', reject);
      socket.on('close', () => resolve());
      socket.on('data', (chunk) => {
        buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
        const headerEnd = buffered.indexOf('\r\n\r\n');
        if (headerEnd < 0) return;
        const header = buffered.toString('latin1', 0, headerEnd);
        const length = Number(/content-length: (\d+)/i.exec(header)?.[1] ?? 0);
        if (buffered.length < headerEnd + 4 + length) return;
        const answer = plan.follow ? buffered.toString('latin1', headerEnd) : '';
        buffered = Buffer.alloc(0);
        const status = header.slice(9, 12);
        statuses[status] = (statuses[status] ?? 0) + 1;
        if (dueAt >= countsFrom) latencies.push(performance.now() - dueAt);
        requests++;
        isFollowing = plan.follow !== undefined && !isFollowing;
        if (isFollowing) {
          dueAt = performance.now();
          socket.write(followUp(index, answer));
        } else next();
      });
    });
  }

  return Promise.all(Array.from({ length: plan.connections }, (_, i) => drive(i))).then(() => {
    const seconds = (performance.now() - startedAt) / 1000;
    latencies.sort((a, b) => a - b);
    const at = (share: number) =>
      latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? 0;
    return {
      requests,
      perSecond: requests / seconds,
      statuses,
      p50Ms: at(0.5),
      p99Ms: at(0.99),
      maxMs: latencies.at(-1) ?? 0,
    };
  });
}

const chunks: Buffer[] = [];
process.stdin.on('data', (chunk: Buffer) => chunks.push(chunk));
process.stdin.on('end', () => {
  run(JSON.parse(Buffer.concat(chunks).toString()) as LoadPlan).then(
    (result) => process.stdout.write(JSON.stringify(result)),
    (error: unknown) => {
      process.stderr.write(String(error));
      process.exitCode = 1;
    },
  );
});
