import { checkReporter, holdUsage, type Gauge, type Hold, type TokenKind } from './hold.js';

export { pricedDimensions, type TokenKind } from './hold.js';

export interface MiddlewareOptions extends Gauge {
  productSlug: string;
  /** Default: `tokens`. */
  metric?: string;
  /** With a service key: the slug of the Organization. A call's `providerOptions.gauge` may name another. */
  organization?: string | undefined;
  /** The end user or team. A call's `providerOptions.gauge` may name another. */
  subject?: string | undefined;
  /** Default: `{ model, kind }`. The product must declare them. */
  dimensions?: (model: string, kind: TokenKind) => Record<string, string>;
  /** For calls that name none, which get this limit; default 4,096. */
  maxOutputTokens?: number;
  /** Default: one token for three characters of text and tools, none for files. */
  estimateInput?: (params: CallParameters) => number;
  /** After this time, the hold of a process that was killed ends. Default: 300. */
  ttlSeconds?: number;
}

/** The fields that all versions of the AI SDK share, so that each of them accepts the middleware. */
export interface CallParameters {
  prompt: unknown;
  tools?: unknown;
  maxOutputTokens?: number | undefined;
  providerOptions?: Record<string, Record<string, unknown>>;
}
interface TokenUsage {
  inputTokens: { total: number | undefined; cacheRead: number | undefined };
  outputTokens: { total: number | undefined };
}
interface Call {
  params: CallParameters;
  model: { modelId: string };
}
type Dimensions = (kind: TokenKind) => Record<string, string>;
type Settle = (usage?: TokenUsage) => Promise<void>;

export interface UsageMiddleware {
  readonly specificationVersion: 'v3';
  transformParams<Parameters extends CallParameters>(call: { params: Parameters }): Promise<Parameters>;
  wrapGenerate<Result extends { usage: TokenUsage }>(
    call: Call & { doGenerate: () => PromiseLike<Result> },
  ): Promise<Result>;
  wrapStream<Part extends { type: string }, Result extends { stream: ReadableStream<Part> }>(
    call: Call & { doStream: () => PromiseLike<Result & { stream: ReadableStream<Part> }> },
  ): Promise<Result>;
}

/**
 * A middleware for `wrapLanguageModel`. Each call of the model holds its estimated input and its longest output, records
 * its input, and settles the hold with its output. If it fails or is aborted, the hold is released.
 *
 * The call throws a RefusedError if there is no room, and the model is not called.
 */
export function createUsageMiddleware(options: MiddlewareOptions): UsageMiddleware {
  if (options.onUnavailable === 'spool') checkReporter(options, 'onUnavailable: "spool"');
  const { maxOutputTokens = 4_096, estimateInput = estimateTokens } = options;

  const limitOf = (params: CallParameters) => params.maxOutputTokens ?? maxOutputTokens;

  async function begin({ params, model }: Call): Promise<Settle> {
    const { productSlug, metric = 'tokens', ttlSeconds } = options;
    const { dimensions = (model, kind) => ({ model, kind }) } = options;
    const { organization, subject } = { ...options, ...params.providerOptions?.gauge };
    const of: Dimensions = (kind) => dimensions(model.modelId, kind);
    const quantity = estimateInput(params) + limitOf(params);
    const work = { organization, subject, productSlug, metric, quantity, ttlSeconds };
    const hold = await holdUsage(options, { ...work, dimensions: of('output') });
    return (usage) => end(hold, usage, of);
  }

  return {
    specificationVersion: 'v3',
    // Without a limit, the model could use more than is held.
    transformParams: async ({ params }) => ({ ...params, maxOutputTokens: limitOf(params) }),
    async wrapGenerate(call) {
      const settle = await begin(call);
      return releaseOnError(settle, async () => {
        const result = await call.doGenerate();
        await settle(result.usage);
        return result;
      });
    },
    async wrapStream(call) {
      const settle = await begin(call);
      return releaseOnError(settle, async () => {
        const result = await call.doStream();
        return { ...result, stream: watchStream(result.stream, settle) };
      });
    },
  };
}

async function releaseOnError<Result>(settle: Settle, run: () => Promise<Result>): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    await settle();
    throw error;
  }
}

/** Releases the hold without `usage`. A model that does not say its output costs what was held. */
async function end(hold: Hold, usage: TokenUsage | undefined, of: Dimensions): Promise<void> {
  if (!usage) return hold.release();
  const { inputTokens, outputTokens } = usage;
  if (outputTokens.total === undefined) return hold.settle();
  const cached = inputTokens.cacheRead ?? 0;
  const uncached = Math.max(0, (inputTokens.total ?? 0) - cached);
  const others = [
    { quantity: uncached, dimensions: of('input') },
    { quantity: cached, dimensions: of('cached_input') },
  ];
  return hold.settle(
    outputTokens.total,
    others.filter(({ quantity }) => quantity > 0),
  );
}

/** The last part is passed on after its usage was recorded. */
function watchStream<Part extends { type: string; usage?: TokenUsage }>(
  stream: ReadableStream<Part>,
  settle: Settle,
): ReadableStream<Part> {
  const reader = stream.getReader();
  return new ReadableStream({
    pull: (controller) =>
      releaseOnError(settle, async () => {
        const { done, value } = await reader.read();
        if (done || value.type === 'finish') await settle(value?.usage);
        if (done) controller.close();
        else controller.enqueue(value);
      }),
    async cancel(reason) {
      await Promise.allSettled([reader.cancel(reason), settle()]);
    },
  });
}

/** More than most languages need. Contents of files are left out. */
function estimateTokens({ prompt, tools = [] }: CallParameters): number {
  function dropFiles(this: object, name: string, value: unknown) {
    return name === 'data' && 'mediaType' in this ? undefined : value;
  }
  return Math.ceil(JSON.stringify([prompt, tools], dropFiles).length / 3);
}
