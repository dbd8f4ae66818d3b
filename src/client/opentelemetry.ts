import type { ReadableSpan, SpanProcessor } from '@opentelemetry/sdk-trace-base';
import type { Reports, TokenKind } from './hold.js';
import type { ReportedEvent } from './reporter.js';

export { pricedDimensions, type TokenKind } from './hold.js';

export interface UsageProcessorOptions {
  reporter: Reports;
  productSlug: string;
  /** Default: `tokens`. */
  metric?: string;
  /** With a service key: the slug of the Organization. Default: the span's attribute `gauge.organization`. */
  organization?: (span: ReadableSpan) => string | undefined;
  /** The end user or team. Default: the span's attribute `gauge.subject`. */
  subject?: (span: ReadableSpan) => string | undefined;
  /** Default: `{ model, kind }`. The product must declare them. */
  dimensions?: (model: string, kind: TokenKind) => Record<string, string>;
  /** For events that the reporter does not accept. Default: the console. */
  onError?: (error: unknown) => void;
}

/** Spans of agents and tools repeat the sum of the calls below them. */
const calls = new Set<unknown>([undefined, 'chat', 'text_completion', 'generate_content', 'embeddings']);

/** Counts the tokens of recorded spans that follow the semantic conventions for generative AI (`gen_ai.usage.*`). */
export function createUsageProcessor(options: UsageProcessorOptions): SpanProcessor {
  const { reporter } = options;
  // oxlint-disable-next-line no-console -- the only place that every runtime has
  const { onError = (error: unknown) => console.error('Gauge:', error) } = options;
  const pending = new Set<Promise<unknown>>();
  const forceFlush = async () => {
    await Promise.all(pending);
    await reporter.flush?.();
  };
  return {
    onStart: () => undefined,
    onEnd(span) {
      for (const event of toEvents(span, options)) {
        const reported = reporter.report(event).catch(onError);
        pending.add(reported);
        void reported.finally(() => pending.delete(reported));
      }
    },
    forceFlush,
    shutdown: forceFlush,
  };
}

/** A span that ends twice, or in two processors, is counted once. */
function toEvents(span: ReadableSpan, options: UsageProcessorOptions): ReportedEvent[] {
  const { attributes } = span;
  if (!calls.has(attributes['gen_ai.operation.name'])) return [];
  const { productSlug, metric = 'tokens' } = options;
  const { dimensions = (model, kind) => ({ model, kind }) } = options;
  const model =
    toText(attributes['gen_ai.response.model'] ?? attributes['gen_ai.request.model']) ?? 'unknown';
  const organization = (options.organization ?? attributeOf('gauge.organization'))(span);
  const subject = (options.subject ?? attributeOf('gauge.subject'))(span);
  const { traceId, spanId } = span.spanContext();
  const owner = {
    ...(organization === undefined ? {} : { organization }),
    ...(subject === undefined ? {} : { subject }),
  };
  const [seconds, nanoseconds] = span.endTime;
  const occurredAt = new Date(seconds * 1_000 + nanoseconds / 1e6).toISOString();
  return countTokens(attributes).flatMap(([kind, quantity]) =>
    quantity > 0
      ? [
          {
            ...owner,
            productSlug,
            metric,
            quantity,
            occurredAt,
            idempotencyKey: `${traceId}/${spanId}/${kind}`,
            dimensions: dimensions(model, kind),
          },
        ]
      : [],
  );
}

/** Input tokens include cached ones. */
function countTokens(attributes: ReadableSpan['attributes']): [TokenKind, number][] {
  const read = (...names: string[]) => {
    const value = names.map((name) => attributes[name]).find((one) => one !== undefined);
    return Number.isFinite(value) ? Math.max(0, value as number) : 0;
  };
  const input = read('gen_ai.usage.input_tokens', 'gen_ai.usage.prompt_tokens');
  const cached = Math.min(input, read('gen_ai.usage.cache_read.input_tokens', 'ai.usage.cachedInputTokens'));
  const output = read('gen_ai.usage.output_tokens', 'gen_ai.usage.completion_tokens');
  return [
    ['input', input - cached],
    ['cached_input', cached],
    ['output', output],
  ];
}

const toText = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

const attributeOf =
  (name: string) =>
  ({ attributes }: ReadableSpan) =>
    toText(attributes[name]);
