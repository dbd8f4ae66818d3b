import { createRequire } from 'node:module';
import { setImmediate } from 'node:timers/promises';
import { createRecentMap } from '../collections.js';

interface Highlighter {
  configure(options: { classPrefix: string }): void;
  registerLanguage(name: string, language: unknown): void;
  highlight(code: string, options: { language: string }): { value: string };
}

// With require, because the package's types declare a browser's globals.
const require = createRequire(import.meta.url);
const hljs = require('highlight.js/lib/core') as Highlighter;
const files = {
  curl: 'bash',
  sh: 'bash',
  json: 'json',
  python: 'python',
  ts: 'typescript',
  typescript: 'typescript',
};
for (const [name, file] of Object.entries(files))
  hljs.registerLanguage(name, require(`highlight.js/lib/languages/${file}`));
hljs.configure({ classPrefix: 'hl-' });

/** More than all pages have, without the values of signed-in readers. */
const MAX_KEPT = 2000;
const kept = createRecentMap<string, string>(MAX_KEPT);

const block = /(<code[^>]* class="language-(\w+)"[^>]*>)(.*?)<\/code>/gs;
const characters: Record<string, string> = {
  '&lt;': '<',
  '&gt;': '>',
  '&#34;': '"',
  '&quot;': '"',
  '&#39;': "'",
  '&amp;': '&',
};
export const toPlain = (html: string): string =>
  html.replaceAll(/&(lt|gt|amp|quot|#34|#39);/g, (entity) => characters[entity]!);

/** HTML with classes for the colours. */
export function highlight(code: string, language: string): string {
  const name = `${language} ${code}`;
  const known = kept.get(name);
  if (known !== undefined) return known;
  // Between tags, quotes need no escaping.
  const html = hljs
    .highlight(code, { language })
    .value.replaceAll('&quot;', '"')
    .replaceAll('&#x27;', "'")
    // No backslash wraps to a line of its own.
    .replaceAll(' \\\n', '<span class="nowrap"> \\</span>\n');
  kept.set(name, html);
  return html;
}

/** Colours the code of a rendered page. Other requests run between two blocks, because a page's blocks take up to 0.5 s. */
export async function highlightCode(page: string): Promise<string> {
  for (const [, , language, code] of page.matchAll(block)) {
    if (!Object.hasOwn(files, language!)) continue;
    highlight(toPlain(code!), language!);
    await setImmediate();
  }
  return page.replaceAll(block, (whole, start: string, language: string, code: string) =>
    Object.hasOwn(files, language) ? `${start}${highlight(toPlain(code), language)}</code>` : whole,
  );
}
