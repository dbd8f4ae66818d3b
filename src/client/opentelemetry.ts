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
  // oxlint-disable-next-line no-console -- the only place that every runtime has
  const { reporter, onError = (error: unknown) => console.error('Gauge:', error) } = options;
  const pending = new Set<Promise<unknown>>();
  const forceFlush = async () => {
    await Promise.all(pending);
    await reporter.flush?.();
  };
  return {
    onStart: () => undefined,
    onEnd(span) {
      if (!calls.has(span.attributes['gen_ai.operation.name'])) return;
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

/** Two processors count a span once, because its events have the same idempotency keys. */
function toEvents(span: ReadableSpan, options: UsageProcessorOptions): ReportedEvent[] {
  const { productSlug, metric = 'tokens', dimensions = (model, kind) => ({ model, kind }) } = options;
  const read = (...names: string[]) =>
    names.map((name) => span.attributes[name]).find((one) => one !== undefined);
  const count = (...names: string[]) => Math.max(0, Number(read(...names)) || 0);
  const { organization = () => read('gauge.organization'), subject = () => read('gauge.subject') } = options;
  const { traceId, spanId } = span.spanContext();
  const model = String(read('gen_ai.response.model', 'gen_ai.request.model') ?? 'unknown');
  const occurredAt = new Date(span.endTime[0] * 1_000 + span.endTime[1] / 1e6).toISOString();
  const input = count('gen_ai.usage.input_tokens', 'gen_ai.usage.prompt_tokens');
  // Input tokens include cached ones.
  const cached = Math.min(input, count('gen_ai.usage.cache_read.input_tokens', 'ai.usage.cachedInputTokens'));
  const output = count('gen_ai.usage.output_tokens', 'gen_ai.usage.completion_tokens');
  const owner = { organization: organization(span), subject: subject(span) };
  const quantities = { input: input - cached, cached_input: cached, output };
  return (Object.entries(quantities) as [TokenKind, number][]).flatMap(([kind, quantity]) => {
    const idempotencyKey = `${traceId}/${spanId}/${kind}`;
    const event = { ...owner, productSlug, metric, quantity, occurredAt, idempotencyKey };
    return quantity > 0 ? [{ ...event, dimensions: dimensions(model, kind) } as ReportedEvent] : [];
  });
}
