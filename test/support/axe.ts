import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { RunOptions } from 'axe-core';
import type { Page } from 'playwright-core';

/** Source of the minified build, which is sent to every page and is half the size. */
const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const toLines = `({ violations }) => violations.flatMap(({ id, nodes }) =>
  nodes.map(({ target, failureSummary }) => id + ' at ' + target.join(' ') + ': ' + failureSummary))`;

const everything: RunOptions = {
  runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] },
  // The `target-size` rule is part of WCAG 2.2 AA but off by default. Contrast is checked separately.
  rules: { 'target-size': { enabled: true }, 'color-contrast': { enabled: false } },
  resultTypes: ['violations'],
  // Preloading would fetch the style sheets again, for media rules that are not enabled.
  preload: false,
};

/** The rules whose result depends on the window's width. */
const layout: RunOptions = {
  ...everything,
  runOnly: { type: 'rule', values: ['target-size', 'scrollable-region-focusable'] },
};

const contrast: RunOptions = { runOnly: { type: 'rule', values: ['color-contrast'] }, elementRef: true };

/**
 * Groups text elements by everything that affects their contrast in axe. An element positioned over others always has
 * its own group.
 */
const readLooks = `(() => {
  const grounds = new Map([[null, '']]);
  const here = 'over ' + location.pathname;
  // A sticky element leaves its place only when the page is scrolled.
  const displaced = scrollY === 0 ? /absolute|fixed|-/ : /absolute|fixed|sticky|-/;
  const groundOf = (element) => {
    if (grounds.has(element)) return grounds.get(element);
    const style = getComputedStyle(element);
    const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.mixBlendMode, style.clipPath].join(' ');
    const isSolid = /^rgb\\(.*\\) none 1 normal/.test(own);
    const behind = groundOf(element.parentElement);
    const parts = [
      !isSolid && displaced.test(style.position + style.marginTop) ? here : '',
      own === 'rgba(0, 0, 0, 0) none 1 normal none' ? '' : own,
      // Nothing behind a solid colour shows through.
      isSolid ? behind.replaceAll(here, '') : behind,
    ];
    grounds.set(element, parts.filter(Boolean).join(' on '));
    return grounds.get(element);
  };
  const hasLetters = (element) => element.matches('input, select, textarea')
    || [...element.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true })
    && !element.closest('[aria-hidden=true]') && getComputedStyle(element).fontSize !== '0px'
    && !groundOf(element).includes('inset(50%)') && element.getBoundingClientRect().bottom + scrollY > 0;
  const lettered = [...document.body.querySelectorAll('*')].filter((element) => hasLetters(element) && isSeen(element));
  return Map.groupBy(lettered, (element) => {
    const { color, fontSize, fontWeight, textShadow } = getComputedStyle(element);
    return [color, fontSize, fontWeight, textShadow, groundOf(element)].join(' ');
  });
})()`;

/** Style combinations already found to have sufficient contrast; these are not measured again. */
const readable = new Set<string>();

/**
 * After the window is resized, repeats only the rules that depend on the width, and analyses only the elements that
 * were not visible before.
 */
const analyse = (isAgain: boolean) => `(async () => {
  const shown = [...document.body.querySelectorAll('*')]
    .filter((element) => element.checkVisibility({ visibilityProperty: true }));
  const known = ${isAgain} ? window.analysed : undefined;
  window.analysed = new Set([...known ?? [], ...shown]);
  // Scrolling uncovers what a sticky element covers.
  const sticky = shown.filter((element) => getComputedStyle(element).position === 'sticky');
  for (const { style } of sticky) style.position = 'static';
  try {
    if (!known) return (${toLines})(await axe.run(document, ${JSON.stringify(everything)}));
    const lines = (${toLines})(await axe.run(document, ${JSON.stringify(layout)}));
    const include = shown.filter((element) => !known.has(element));
    if (include.length > 0) lines.push(...(${toLines})(await axe.run({ include }, ${JSON.stringify(everything)})));
    return lines;
  } finally {
    for (const { style } of sticky) style.position = '';
  }
})()`;

/**
 * Finds violations of WCAG 2.2 AA on the current page, one line per rule and place.
 * @param only 'colours' for contrast alone; 'layout' for only the rules and elements that a new window size can affect
 */
export async function findBarriers(page: Page, only?: 'colours' | 'layout'): Promise<string[]> {
  const looks = await page.evaluate<string[]>(`[...${readLooks}.keys()]`);
  const unknown = looks.filter((look) => !readable.has(look));
  if (only === 'colours' && unknown.length === 0) return [];
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(source);
  const found = only === 'colours' ? [] : await page.evaluate<string[]>(analyse(only === 'layout'));
  if (unknown.length === 0) return found;
  const { pale, passed } = await page.evaluate<{ pale: string[]; passed: string[] }>(`(async () => {
    const looks = ${readLooks};
    const include = ${JSON.stringify(unknown)}.flatMap((look) => looks.get(look) ?? []);
    // The page may have updated itself meanwhile.
    if (include.length === 0) return { pale: [], passed: [] };
    const results = await axe.run({ include }, ${JSON.stringify(contrast)});
    const elements = new Set(results.passes.flatMap(({ nodes }) => nodes
      .filter(({ any: [{ data }] }) => data?.contrastRatio).map(({ element }) => element)));
    const passed = [...looks].filter(([, alike]) => alike.some((element) => elements.has(element))).map(([look]) => look);
    return { pale: (${toLines})(results), passed };
  })()`);
  for (const look of passed) readable.add(look);
  return [...found, ...pale];
}
