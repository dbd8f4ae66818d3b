import { setImmediate } from 'node:timers/promises';
import { parse, YAMLMap, YAMLSeq, type CollectionTag, type ScalarTag } from 'yaml';
import type { ErrorCode } from '../errors.js';
import { readFeatureFiles } from '../feature-files.js';
import {
  Beginning,
  Excerpt,
  generated,
  Repeated,
  type Example,
  type ExampleRequest,
  type RouteProse,
} from './define-route.js';
import { invalidExample, problemExample, type ProblemExample } from './problem-examples.js';

/** The key is the operation id. */
export type Prose = Record<string, RouteProse>;

interface WrittenExample extends Omit<Example, 'before'>, Omit<ProblemExample, 'before' | 'name' | 'detail'> {
  before?: ExampleRequest[] | Repeated;
  /** Without `detail`, the message is that of the route's own schema. */
  problem?: ErrorCode;
  detail?: ProblemExample['detail'];
}

interface WrittenProse extends Omit<RouteProse, 'examples'> {
  examples: Record<string, WrittenExample>;
}

/** Yields between the files, which together take some hundred milliseconds. */
export async function readProse(): Promise<Prose> {
  const prose: Prose = {};
  for (const text of readFeatureFiles('reference.yaml')) {
    const routes = parse(text, { customTags: tags }) as Record<string, WrittenProse>;
    for (const [id, { examples, ...words }] of Object.entries(routes))
      prose[id] = { ...words, examples: Object.entries(examples).map(toExample) };
    await setImmediate();
  }
  return prose;
}

function toExample([name, { problem, detail, before, ...rest }]: [string, WrittenExample]): Example {
  const example = {
    ...rest,
    name,
    ...(before ? { before: before instanceof Repeated ? (before.shown as ExampleRequest[]) : before } : {}),
  };
  if (problem === undefined) return example;
  return detail === undefined
    ? { ...example, ...invalidExample(rest.summary, rest.request, name) }
    : problemExample(problem, { ...example, detail });
}

class ExcerptNode extends YAMLMap {
  override toJSON(...args: Parameters<YAMLMap['toJSON']>): unknown {
    return new Excerpt(super.toJSON(...args) as Record<string, unknown>);
  }
}

class BeginningNode extends YAMLSeq {
  override toJSON(...args: Parameters<YAMLSeq['toJSON']>): unknown[] {
    return new Beginning(super.toJSON(...args)) as unknown as unknown[];
  }
}

/** `{i}` in the item's text stands for the index. */
class RepeatedNode extends YAMLMap {
  override toJSON(...args: Parameters<YAMLMap['toJSON']>): unknown {
    const { count, item } = super.toJSON(...args) as { count: number; item: unknown };
    const text = JSON.stringify(item);
    return new Repeated(
      Array.from({ length: count }, (_, i) => JSON.parse(text.replaceAll('{i}', String(i))) as unknown),
    );
  }
}

const collection = (
  tag: string,
  kind: 'map' | 'seq',
  nodeClass: CollectionTag['nodeClass'],
): CollectionTag => ({
  tag,
  collection: kind,
  nodeClass: nodeClass!,
  resolve: (node) => node,
});

const tags: (ScalarTag | CollectionTag)[] = [
  { tag: '!generated', resolve: generated },
  collection('!excerpt', 'map', ExcerptNode),
  collection('!beginning', 'seq', BeginningNode),
  collection('!repeated', 'map', RepeatedNode),
];
