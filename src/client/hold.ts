import {
  BRIEF_PAUSES_MS,
  RefusedError,
  retryCall,
  type GaugeClient,
  type Problem,
  type ReservationInput,
} from './client.js';
import type { ReportedEvent } from './reporter.js';

/** A usage reporter, or anything else that takes events. */
export interface Reports {
  report(event: ReportedEvent): Promise<unknown>;
  flush?(): Promise<unknown>;
}

export interface Gauge {
  client: GaugeClient;
  /** Keeps usage that Gauge does not accept at the moment. Without one, it is lost if Gauge is down for longer. */
  reporter?: Reports | undefined;
  /** While Gauge is down, `refuse` (the default) starts no work; `spool` starts it without a hold and reports it later. */
  onUnavailable?: 'refuse' | 'spool' | undefined;
}

export interface Work extends Omit<
  ReservationInput,
  'idempotencyKey' | 'subject' | 'dimensions' | 'ttlSeconds'
> {
  /** With a service key: the slug of the Organization. */
  organization?: string | undefined;
  subject?: string | undefined;
  dimensions?: Record<string, string> | undefined;
  /** After this time, the hold of a process that was killed ends. Default: 300. */
  ttlSeconds?: number | undefined;
}

/** A second end of a hold does nothing. */
export interface Hold {
  /**
   * Records `others`, then `used` in place of the hold. Default: the quantity held.
   * @throws RefusedError or a network error if it cannot be delivered and there is no reporter; the hold then expires
   */
  settle(
    used?: number,
    others?: readonly Required<Pick<ReservationInput, 'quantity' | 'dimensions'>>[],
  ): Promise<void>;
  /** If it cannot be delivered, the hold expires. */
  release(): Promise<void>;
}

/** @throws TypeError */
export function checkReporter({ reporter }: Gauge, what: string): void {
  if (!reporter) throw new TypeError(`${what} needs a reporter.`);
}

/** @throws RefusedError; its code is `unavailable` if Gauge does not answer */
export async function holdUsage(
  { client, reporter, onUnavailable = 'refuse' }: Gauge,
  { organization, ...work }: Work,
): Promise<Hold> {
  const owner = organization === undefined ? {} : { organization };
  const own = clientFor(client, organization);
  const input = { ...work, idempotencyKey: crypto.randomUUID() } as ReservationInput;
  const id = await retryCall(
    () => own.POST('/api/usage/reservations', { body: input }),
    BRIEF_PAUSES_MS,
  ).then(
    ({ reservation }) => reservation.id,
    (error: unknown) => {
      if (!isUnavailable(error)) throw error;
      if (onUnavailable === 'refuse') throw unavailable(error);
      return undefined;
    },
  );
  const { ttlSeconds: _, ...event } = input;
  let isOver = false;
  return {
    async settle(used = work.quantity, others = []) {
      if (isOver) return;
      isOver = true;
      const events = others.map((other, i) => ({
        ...event,
        ...other,
        idempotencyKey: `${input.idempotencyKey}/${i + 1}`,
      }));
      const report = async () => {
        for (const one of [...events, { ...event, quantity: used }])
          await reporter!.report({ ...owner, ...one });
      };
      if (id === undefined) return report();
      const pausesMs = reporter ? BRIEF_PAUSES_MS : undefined;
      const params = { path: { id } };
      const body = { quantity: used };
      try {
        if (events.length > 0)
          await retryCall(() => own.POST('/api/usage/events', { body: { events } }), pausesMs);
        await retryCall(() => own.POST('/api/usage/reservations/{id}/settle', { params, body }), pausesMs);
      } catch (error) {
        if (!reporter) throw error;
        // Events recorded before the error have the same idempotency keys, so nothing is counted twice.
        await report();
      }
    },
    async release() {
      if (isOver || id === undefined) return;
      isOver = true;
      const params = { path: { id } };
      await own.DELETE('/api/usage/reservations/{id}', { params }).catch(() => undefined);
    },
  };
}

export const clientFor = (client: GaugeClient, organization: string | undefined): GaugeClient =>
  organization === undefined ? client : client.forOrganization(organization);

/** Gauge, or what is in front of it, did not decide. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof RefusedError)) return true;
  const { status } = error.problem;
  return status === undefined || status === 429 || status >= 500;
}

export const createProblem = (status: number, code: Problem['code'], detail: string): Problem => ({
  type: `/docs/errors#${code}`,
  title: { 401: 'Unauthorized', 403: 'Forbidden', 409: 'Conflict' }[status] ?? 'Service Unavailable',
  status,
  code,
  detail,
  requestId: crypto.randomUUID(),
});

export const unavailable = (cause: unknown): RefusedError =>
  new RefusedError(
    createProblem(503, 'unavailable', 'Usage cannot be counted at the moment. Try again shortly.'),
    { retryAfter: '1', cause },
  );

export type TokenKind = 'input' | 'cached_input' | 'output';

/** For prices that depend on the model and the kind of token: `price` is `gpt-6-sol/output`, for example. */
export const pricedDimensions = (model: string, kind: TokenKind) => ({
  model,
  kind,
  price: `${model}/${kind}`,
});
