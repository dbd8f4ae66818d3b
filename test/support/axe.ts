import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

/** Half of what the package calls its source: it is sent to every page. */
const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const everything = {
  runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] },
  // Part of WCAG 2.2 AA, but off unless it is asked for.
  rules: { 'target-size': { enabled: true } },
  resultTypes: ['violations'],
  // Would load the style sheets once more, for rules about media that are not asked for.
  preload: false,
};

const colours = { runOnly: { type: 'rule', values: ['color-contrast'] }, resultTypes: ['violations'] };

/** What breaks WCAG 2.2 AA on the page as it is now, or in its colours alone: one line for each rule and place. */
export async function findBarriers(page: Page, only?: 'colours'): Promise<string[]> {
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(source);
  const options = only ? colours : everything;
  const { violations } = await page.evaluate<AxeResults>(`axe.run(document, ${JSON.stringify(options)})`);
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} at ${target.join(' ')}: ${failureSummary ?? ''}`),
  );
}
