import { checkMode, holdUsage, type Gauge, type Hold } from './hold.js';

export type TokenKind = 'input' | 'cached_input' | 'output';

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
interface Part {
  type: string;
  usage?: TokenUsage;
}
interface Call {
  params: CallParameters;
  model: { modelId: string };
}
type GenerateCall<Result> = Call & { doGenerate: () => PromiseLike<Result> };
type StreamCall<Result> = Call & { doStream: () => PromiseLike<Result> };

export interface UsageMiddleware {
  readonly specificationVersion: 'v3';
  transformParams<Parameters extends CallParameters>(call: { params: Parameters }): Promise<Parameters>;
  wrapGenerate<Result extends { usage: TokenUsage }>(call: GenerateCall<Result>): Promise<Result>;
  wrapStream<One extends { type: string }, Result extends { stream: ReadableStream<One> }>(
    call: StreamCall<Result & { stream: ReadableStream<One> }>,
  ): Promise<Result>;
}

/** For prices that depend on the model and the kind of token: `price` is `gpt-6-sol/output`, for example. */
export const pricedDimensions = (model: string, kind: TokenKind) => ({
  model,
  kind,
  price: `${model}/${kind}`,
});

/**
 * A middleware for `wrapLanguageModel`. Each call of the model holds its estimated input and its longest output, records
 * its input, and settles the hold with its output. If it fails or is aborted, the hold is released.
 *
 * The call throws a RefusedError if there is no room, and the model is not called.
 */
export function createUsageMiddleware(options: MiddlewareOptions): UsageMiddleware {
  checkMode(options);
  const { maxOutputTokens = 4_096, estimateInput = estimateTokens } = options;

  async function begin({ params, model }: Call): Promise<(usage?: TokenUsage) => Promise<void>> {
    const {
      productSlug,
      metric = 'tokens',
      ttlSeconds,
      dimensions = (model, kind) => ({ model, kind }),
    } = options;
    const { organization = options.organization, subject = options.subject } = (params.providerOptions
      ?.gauge ?? {}) as Partial<Record<'organization' | 'subject', string>>;
    const of = (kind: TokenKind) => dimensions(model.modelId, kind);
    const quantity = estimateInput(params) + (params.maxOutputTokens ?? maxOutputTokens);
    const work = {
      organization,
      productSlug,
      metric,
      quantity,
      subject,
      ttlSeconds,
      dimensions: of('output'),
    };
    const hold = await holdUsage(options, work);
    return (usage) => end(hold, usage, of);
  }

  return {
    specificationVersion: 'v3',
    // Without a limit, the model could use more than is held.
    transformParams: async ({ params }) => ({
      ...params,
      maxOutputTokens: params.maxOutputTokens ?? maxOutputTokens,
    }),
    async wrapGenerate(call) {
      const settle = await begin(call);
      try {
        const result = await call.doGenerate();
        await settle(result.usage);
        return result;
      } catch (error) {
        await settle();
        throw error;
      }
    },
    async wrapStream(call) {
      const settle = await begin(call);
      try {
        const result = await call.doStream();
        return { ...result, stream: watchStream(result.stream, settle) };
      } catch (error) {
        await settle();
        throw error;
      }
    },
  };
}

/** Releases the hold without `usage`. A model that does not say its output costs what was held. */
async function end(
  hold: Hold,
  usage: TokenUsage | undefined,
  of: (kind: TokenKind) => Record<string, string>,
): Promise<void> {
  if (!usage) return hold.release();
  const { inputTokens, outputTokens } = usage;
  if (outputTokens.total === undefined) return hold.settle();
  const cached = inputTokens.cacheRead ?? 0;
  const input = [
    { quantity: Math.max(0, (inputTokens.total ?? 0) - cached), dimensions: of('input') },
    { quantity: cached, dimensions: of('cached_input') },
  ];
  return hold.settle(
    outputTokens.total,
    input.filter(({ quantity }) => quantity > 0),
  );
}

/** The last part is passed on after its usage was recorded. */
function watchStream<One extends Part>(
  stream: ReadableStream<One>,
  settle: (usage?: TokenUsage) => Promise<void>,
): ReadableStream<One> {
  const reader = stream.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done || value.type === 'finish') await settle(value?.usage);
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        await settle();
        throw error;
      }
    },
    async cancel(reason) {
      await Promise.allSettled([reader.cancel(reason), settle()]);
    },
  });
}

/** More than most languages need. Contents of files are left out. */
function estimateTokens({ prompt, tools = [] }: CallParameters): number {
  const text = JSON.stringify([prompt, tools], (name, value: unknown) =>
    name === 'data' ? undefined : value,
  );
  return Math.ceil(text.length / 3);
}
