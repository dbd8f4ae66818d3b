import type { Readable } from 'node:stream';
import { createGaugeClient } from '../client/client.js';
import { toBatches, type OutgoingBatch } from './batches.js';
import { deliver } from './deliver.js';
import { createDisplay, silent, type Display, type Screen } from './display.js';
import { createGate } from './gate.js';
import { openInput } from './input.js';
import { createLedger } from './ledger.js';
import { createMapping } from './mapping.js';
import { duration, printable } from './numbers.js';
import type { SendOptions } from './options.js';
import { createPost, type Post } from './post.js';
import { readRecords } from './records.js';
import { SendError } from './record.js';
import { openRejectedFile } from './rejected-file.js';
import { createSaver, findStart, progressFileFor } from './resume.js';
import { toSummary, type Summary } from './summary.js';

export interface SendSurroundings {
  stdin: Readable;
  /** Where the progress is shown. */
  stderr: Screen;
  /** Aborts when the person wants to stop. */
  interrupt: AbortSignal;
  backoffMs?: number;
}

const TELL_AGAIN_MS = 5_000;

/**
 * Sends a whole file. A run that ends early, interrupted or with a failure that only a person can cure, returns as
 * well, with what was settled until then.
 * @throws SendError when it cannot start
 */
export async function sendFile(options: SendOptions, surroundings: SendSurroundings): Promise<Summary> {
  const { stderr, interrupt } = surroundings;
  const startedAt = performance.now();
  const map = createMapping(options.mapping);
  const input = openInput(options.file, surroundings.stdin);
  const progressFile = progressFileFor(options, input);
  const { tally: resumed, rejectedBytes, note } = findStart(options, progressFile);
  const rejected = openRejectedFile(options.rejectedPath, options.file, rejectedBytes);
  const ledger = createLedger({
    tally: { ...resumed },
    window: options.concurrency * 16,
    onSettled: (refusals) => rejected.append(refusals),
  });
  const readProgress = () => ({
    records: ledger.tally.records,
    position: ledger.position,
    size: input.size,
  });
  const display = options.isQuiet ? silent : createDisplay(stderr, readProgress, resumed.records);
  if (note) display.note(note);
  const save = createSaver(
    progressFile,
    () => {
      rejected.sync();
      return { tally: ledger.tally, rejectedBytes: rejected.bytes };
    },
    (error) => display.note(`The progress cannot be kept: ${error.message}`),
  );

  let sent = 0;
  const stop = createStop(interrupt);
  const post = openPost(options, surroundings, stop.signal, display);
  const batches = toBatches(readRecords(input, options, resumed.lastRecord), map, options.batchSize);

  async function work(): Promise<void> {
    while (!stop.signal.aborted) {
      await Promise.race([ledger.room(), stop.stopped]);
      const next: IteratorResult<OutgoingBatch, void> = await batches.next();
      if (next.done) return;
      const { events } = next.value;
      const delivery = await deliver(post, events);
      sent += events.length;
      ledger.close(next.value, delivery);
      save(false);
    }
  }

  const workers = Array.from({ length: options.concurrency }, () =>
    work().catch((error) => stop.fail(error)),
  );
  await Promise.race([Promise.all(workers), stop.stopped]);
  // A request in flight is given a moment to finish; waiting for more input ends here.
  if (stop.signal.aborted) input.close();
  await Promise.all(workers);
  stop.release();

  const isComplete = !stop.signal.aborted;
  if (isComplete) progressFile?.remove();
  else save(true);
  rejected.close();
  display.stop();
  const failure = stop.failure();
  if (failure && !(failure instanceof SendError)) throw failure;
  const run = {
    state: isComplete ? ('complete' as const) : ('stopped' as const),
    stopReason: isComplete ? undefined : (failure?.message ?? 'The run was interrupted.'),
    url: options.url,
    dryRun: options.isDryRun,
    sent,
    rejectedFile: rejected.path,
    seconds: (performance.now() - startedAt) / 1000,
  };
  return toSummary(run, ledger.tally, resumed, ledger.warnings);
}

function openPost(
  options: SendOptions,
  { backoffMs = 250 }: SendSurroundings,
  signal: AbortSignal,
  display: Display,
): Post {
  let told = { reason: '', at: 0 };
  return createPost({
    client: createGaugeClient({ baseUrl: options.url, apiKey: options.apiKey }),
    gate: createGate(),
    isDryRun: options.isDryRun,
    maxAttempts: options.maxAttempts,
    backoffMs,
    signal,
    onRetry(reason, waitMs) {
      // Every sender meets the same trouble; a person reads of it once, and again while it lasts.
      const now = performance.now();
      if (reason === told.reason && now - told.at < TELL_AGAIN_MS) return;
      told = { reason, at: now };
      display.note(printable(`Trying again in ${duration(waitMs / 1000)}: ${reason}`));
    },
  });
}

/** The end of a run before the end of its input: by a person, or by the first failure. What fails after that is only its echo. */
function createStop(interrupt: AbortSignal) {
  const controller = new AbortController();
  const { signal } = controller;
  const stopped = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  let failure: Error | undefined;
  const onInterrupt = () => controller.abort();
  interrupt.addEventListener('abort', onInterrupt, { once: true });
  if (interrupt.aborted) onInterrupt();
  return {
    signal,
    stopped,
    failure: () => failure,
    fail(error: unknown) {
      if (signal.aborted) return;
      failure = error as Error;
      controller.abort();
    },
    release: () => interrupt.removeEventListener('abort', onInterrupt),
  };
}
