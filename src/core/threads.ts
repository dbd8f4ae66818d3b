import { createBirpc, type BirpcReturn } from 'birpc';

interface End {
  postMessage(message: unknown, transfer: []): void;
  on(event: 'message', listener: (message: unknown) => void): unknown;
}

/** Threads can load only compiled files, so `npm run dev` runs everything on one thread. */
export const canStartThreads = import.meta.url.endsWith('.js');

/** A call rejects with the other side's error, or if that thread has ended. */
export type Remote<Theirs extends object, Ours extends object = object> = BirpcReturn<Theirs, Ours>;

/** Values are copied, so functions and class instances cannot be passed. */
export function connectThread<Theirs extends object, Ours extends object = object>(end: End, ours: Ours) {
  return createBirpc<Theirs, Ours>(ours, {
    post: (message: unknown) => end.postMessage(message, []),
    on: (listener) => void end.on('message', listener),
    serialize: (message: Answer) =>
      message.e instanceof Error ? { ...message, e: toPlain(message.e) } : message,
    deserialize: (message: Answer) => (isPlain(message.e) ? { ...message, e: toError(message.e) } : message),
    bind: 'functions',
    timeout: -1,
  });
}

/** Birpc's response; `e` is set if the call failed. */
interface Answer {
  e?: unknown;
}

interface PlainError {
  isError: true;
  message: string;
  stack: string | undefined;
  /** For example the SQLSTATE of a database error. */
  fields: Record<string, unknown>;
  cause: PlainError | undefined;
}

const isPlain = (value: unknown): value is PlainError =>
  (value as Partial<PlainError> | undefined)?.isError === true;

/** Structured cloning would lose the error's own fields. */
function toPlain(error: Error): PlainError {
  const { message, stack, cause, ...others } = error as Error & Record<string, unknown>;
  const fields = Object.entries(others).filter(([, value]) =>
    ['string', 'number', 'boolean'].includes(typeof value),
  );
  return {
    isError: true,
    message,
    stack,
    fields: { name: error.name, ...Object.fromEntries(fields) },
    cause: cause instanceof Error ? toPlain(cause) : undefined,
  };
}

const toError = ({ message, stack, fields, cause }: PlainError): Error =>
  Object.assign(new Error(message, cause && { cause: toError(cause) }), fields, { stack });
