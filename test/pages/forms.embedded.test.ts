import { beforeAll, expect, it } from 'vitest';
import type { Browser } from '../support/accounts.js';
import { signedInOperator } from '../support/operators.js';
import { ordinaryNames, populate, type Populated } from './populated.js';
import { consoleRoutes, matrix } from './matrix.js';
import { useService } from '../support/use.js';

const { service } = useService({ env: { LIMIT_KEY_CHANGES_PER_HOUR: '1000' } });
let own: Populated;
beforeAll(async () => {
  own = await populate(service, ordinaryNames);
});

const html = { accept: 'text/html' };

interface Form {
  action: string;
  /** Hidden fields, which are sent unchanged, and the names of the fields that people fill in. */
  fields: [name: string, value: string][];
  filled: string[];
}

const attribute = (tag: string, name: string) => new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1];

function formsOn(page: string): Form[] {
  const main = page.slice(page.indexOf('<main'));
  return [...main.matchAll(/<form[^>]*method="post"[^>]*>[\s\S]*?<\/form>/g)].map(([form]) => {
    const tags = [...form.matchAll(/<(?:input|select|textarea)\b[^>]*>/g)].map(([tag]) => tag);
    const named = tags.filter((tag) => attribute(tag, 'name') !== undefined);
    const isHidden = (tag: string) => attribute(tag, 'type') === 'hidden';
    return {
      action: attribute(form, 'action')!,
      fields: named.filter(isHidden).map((tag) => [attribute(tag, 'name')!, attribute(tag, 'value') ?? '']),
      filled: [...new Set(named.filter((tag) => !isHidden(tag)).map((tag) => attribute(tag, 'name')!))],
    };
  });
}

/** Finds entries of an error summary that do not link to an existing field. */
function findLost(page: string): string[] {
  const summary = /<ul class="mistakes">[\s\S]*?<\/ul>/.exec(page)?.[0];
  if (summary === undefined) return [];
  const links = [...summary.matchAll(/href="([^"]*)"/g)].map((match) => match[1]!);
  const items = summary.match(/<li>/g)!.length;
  const lost = links.filter((link) => !page.includes(` id="${link.slice(1)}"`));
  return links.length === items ? lost : [...lost, `${items - links.length} without a link`];
}

/**
 * Submits every form on a page with empty values and with values that are too long. @returns errors found in the
 * responses, and the number of responses with an error summary
 */
async function walk(browser: Browser, path: string): Promise<{ wrong: string[]; summaries: number }> {
  const wrong: string[] = [];
  let summaries = 0;
  const { text } = await browser.get(path, html);
  for (const { action, fields, filled } of formsOn(text)) {
    if (filled.length === 0) continue;
    for (const value of ['', 'x\u0000'.repeat(200)]) {
      const form = [...fields, ...filled.map((name): [string, string] => [name, value])];
      const answer = await browser.send('POST', action, { form, headers: html });
      const say = (problem: string) => wrong.push(`${path}, ${action}, “${value.slice(0, 1)}”: ${problem}`);
      if (answer.status >= 500) say(`answers ${answer.status}`);
      if (answer.status !== 400) continue;
      for (const lost of findLost(answer.text)) say(`no field for ${lost}`);
      if (answer.text.includes('class="mistakes"')) summaries++;
      // The rejected form must still be there, with the same fields, so that it can be sent again.
      const again = formsOn(answer.text).find((each) => each.action === action);
      if (!again) say('the form is gone');
      else if (again.filled.join() !== filled.join()) say(`has other fields: ${again.filled.join()}`);
      else if (again.fields.map(([name]) => name).join() !== fields.map(([name]) => name).join())
        say(`has other hidden fields: ${again.fields.join()}`);
    }
  }
  return { wrong, summaries };
}

it('every rejected form links to its invalid fields, and can be sent again', async () => {
  const wrong: string[] = [];
  let summaries = 0;
  const add = async (browser: Browser, path: string) => {
    const found = await walk(browser, path);
    wrong.push(...found.wrong);
    summaries += found.summaries;
  };
  for (const [address, row] of Object.entries(matrix)) {
    if (!address.startsWith('get ') || /assets|\.csv/.test(address) || row.own[4] !== 200) continue;
    await add(own.people.owner.browser, (await row.path?.(own, 'owner')) ?? address.slice(4));
  }
  const { browser } = await signedInOperator(service);
  for (const route of consoleRoutes.filter((each) => each.startsWith('get '))) {
    const path = route
      .slice(4)
      .replace('{slug}', route.includes('/products/') ? own.productSlugs[0]! : own.slug)
      .replace('{userId}', own.people.admin.id)
      .replace('{id}', own.keyIds[0]!);
    await add(browser, path);
  }
  expect(wrong).toEqual([]);
  expect(summaries).toBeGreaterThan(15);
});
