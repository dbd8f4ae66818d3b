import { marked, type Token } from 'marked';
import { parse } from 'yaml';
import type { DescribedRoute } from './described.js';
import type { Credential } from './names.js';
import type { ExampleRequest } from './define-route.js';
import { describeExampleFor, type ShownFor } from './reader.js';
import { languages, type Sample } from './samples.js';

/** Words, or samples with what they print. */
export type GuidePart = { html: string } | { example: GuideExample };

interface GuideExample {
  id: string;
  summary: string;
  notes: string[];
  samples: Sample[];
  /** Undefined for a program. */
  status?: number;
  answer?: string;
}

interface WrittenRequest extends Omit<ExampleRequest, 'rawBody' | 'paddedToBytes'> {
  /** Default: the lowest status of the route. */
  status?: number;
  answer: unknown;
}

const languageOf: Record<string, Sample['id']> = { sh: 'curl', ts: 'typescript', python: 'python' };
const credentialOf: Record<DescribedRoute['credential'], Credential> = {
  apiKey: 'liveKey',
  serviceKey: 'serviceKey',
  operator: 'operator',
  session: 'ownerSession',
  none: 'none',
};

/**
 * Reads a guide in Markdown. The block `request operationId Title` has a request and its answer in YAML, which is shown in
 * each language. The block `sh Title`, `ts Title` or `python Title` begins a program. Blocks without a title continue it:
 * the same program in other languages, and as `text` what it prints.
 */
export function readGuide(markdown: string, routes: readonly DescribedRoute[], shownFor: ShownFor) {
  const parts: GuidePart[] = [];
  const toId = () => `sample-${parts.length}`;
  for (const token of marked.lexer(markdown.replaceAll('http://localhost:3000', shownFor.origin))) {
    const { kind, title, text } = readBlock(token);
    const known = languages.find(({ id }) => id === languageOf[kind]);
    const language =
      known && (kind !== 'sh' || text.includes('curl ') ? known : { ...known, label: 'Shell' });
    const program = parts.findLast((part) => 'example' in part)?.example;
    if (kind === 'request') parts.push({ example: readRequest(toId(), title, text, routes, shownFor) });
    else if (language && title !== '')
      parts.push({
        example: { id: toId(), summary: title, notes: [], samples: [{ ...language, code: text }] },
      });
    else if (language) program!.samples.push({ ...language, code: text });
    else if (kind === 'text') program!.answer = text;
    else parts.push({ html: marked.parser([token]) });
  }
  return parts;
}

function readBlock(token: Token): { kind: string; title: string; text: string } {
  if (token.type !== 'code') return { kind: '', title: '', text: '' };
  const [, kind = '', title = ''] = /^(\S*) ?(.*)$/.exec((token.lang as string | undefined) ?? '')!;
  return { kind, title, text: token.text as string };
}

/** @throws Error if there is no such operation */
function readRequest(
  id: string,
  line: string,
  yaml: string,
  routes: readonly DescribedRoute[],
  shownFor: ShownFor,
): GuideExample {
  const [, operationId, summary = ''] = /^(\w+) (.+)$/.exec(line) ?? [];
  const route = routes.find((one) => one.operationId === operationId);
  if (!route) throw new Error(`A guide names the operation ${line}, which does not exist.`);
  const { status, answer, ...request } = parse(yaml) as WrittenRequest;
  const lowest = Math.min(...Object.keys(route.responses).map(Number));
  const example = {
    name: id,
    summary,
    request: { credential: credentialOf[route.credential], ...request },
    response: { status: status ?? lowest, body: answer },
  };
  return { ...describeExampleFor(route, example, { ...shownFor, own: undefined }), id };
}
