import type { Answer, Browser } from '../../support/accounts.js';

/** Tests read a page's text, links and fields instead of its markup. */

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#34': '"', '#39': "'" };
const decode = (text: string) =>
  text.replace(/&(\w+|#\d+);/g, (whole, name: string) => entities[name] ?? whole);

const mainOf = (html: string) => /<main[^>]*>(.*)<\/main>/s.exec(html)?.[1] ?? html;

/** The text of a page's `<main>` element, on one line. */
export const textOf = ({ text }: Answer): string =>
  decode(mainOf(text).replace(/<[^>]+>/g, ' '))
    .replace(/\s+/g, ' ')
    .replace(/ ([.,:;?])/g, '$1');

export const linksOf = ({ text }: Answer): string[] =>
  [...mainOf(text).matchAll(/<a [^>]*href="([^"]*)"/g)].map(([, href]) => decode(href!));

export const formsOf = ({ text }: Answer): string[] =>
  [...mainOf(text).matchAll(/<form [^>]*action="([^"]*)"/g)].map(([, action]) => decode(action!));

/** The text that the copy button copies from the element with this id. */
export const copiedOf = ({ text }: Answer, id: string): string =>
  decode(new RegExp(`<code id="${id}"[^>]*>(.*?)</code>`, 's').exec(text)?.[1] ?? '');

/** The value of a text field, or the values of the checked boxes. */
export function fieldOf({ text }: Answer, name: string): string[] {
  const inputs = [...text.matchAll(/<input [^>]*>/g)].map(([tag]) => tag);
  return inputs
    .filter((tag) => tag.includes(`name="${name}"`))
    .filter((tag) => !/type="(radio|checkbox)"/.test(tag) || / checked/.test(tag))
    .map((tag) => decode(/ value="([^"]*)"/.exec(tag)?.[1] ?? ''));
}

const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

export const getPage = (browser: Browser, path: string): Promise<Answer> => browser.get(path, html);

export const postForm = (
  browser: Browser,
  path: string,
  form: Record<string, string> | [string, string][],
): Promise<Answer> => browser.send('POST', path, { form, headers: html });
