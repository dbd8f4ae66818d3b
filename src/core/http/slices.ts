import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';

/** Time per turn of the event loop in which requests are started. */
const SLICE_MS = 20;
/** Waiting requests that may be started per turn. */
const PER_TURN = 64;
/** Node accepts one connection per turn, so that after this many such turns in a row more connections must be waiting. */
const QUEUED_AFTER_TURNS = 16;

/**
 * Starts requests in slices while more of them arrive than can be answered. Otherwise a thousand connections that send
 * their requests together would occupy the event loop for seconds, and a new connection would wait in the accept queue
 * for as many requests as there are connections before it. Between two slices, connections are accepted for as long
 * as the last slice took.
 * @param isUrgent true for requests that do not wait for others
 */
export function startInSlices(listener: RequestListener, isUrgent: (req: IncomingMessage) => boolean) {
  const waiting: [IncomingMessage, ServerResponse][] = [];
  let isScheduled = false;
  let hasAccepted = false;
  let acceptingTurns = 0;
  /** When the first request of this turn was started; 0 if none was. */
  let startedMs = 0;
  let restUntilMs = 0;

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(endTurn);
  }

  function endTurn(): void {
    isScheduled = false;
    const now = performance.now();
    if (startedMs > 0) restUntilMs = 2 * now - startedMs;
    startedMs = 0;
    const isResting = hasAccepted && now < restUntilMs;
    acceptingTurns = hasAccepted ? acceptingTurns + 1 : 0;
    hasAccepted = false;
    // One callback for each, because Node runs the promises of a request only after a callback.
    if (!isResting) for (let i = Math.min(waiting.length, PER_TURN); i > 0; i--) setImmediate(startNext);
    if (waiting.length > 0 || acceptingTurns > 0) schedule();
  }

  function startNext(): void {
    if (isSliceOver()) return;
    const [req, res] = waiting.shift()!;
    if (!req.socket.destroyed) start(req, res);
  }

  const isSliceOver = () => startedMs > 0 && performance.now() - startedMs > SLICE_MS;

  function start(req: IncomingMessage, res: ServerResponse): void {
    if (startedMs === 0) startedMs = performance.now();
    schedule();
    listener(req, res);
  }

  return {
    watch(server: Server): void {
      server.on('connection', () => {
        hasAccepted = true;
        schedule();
      });
    },
    take(req: IncomingMessage, res: ServerResponse): void {
      const mayStart = !isSliceOver();
      if (mayStart && waiting.length === 0 && acceptingTurns < QUEUED_AFTER_TURNS) return start(req, res);
      if (!isUrgent(req)) waiting.push([req, res]);
      else if (mayStart) start(req, res);
      else waiting.unshift([req, res]);
      schedule();
    },
  };
}
