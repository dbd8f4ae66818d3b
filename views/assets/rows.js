/**
 * Keys of a page, unless a field for text has the focus: j and k, or arrows from a row, move the focus through the first
 * links of the rows in `data-rows`, and on to the next page. Going back focuses the row that was opened. A key in
 * `aria-keyshortcuts` clicks its element, or moves the focus to its field; an arrow only from a panel that does not scroll.
 */
export function rowKeys() {
  document.addEventListener('click', ({ target }) => {
    const row = target.closest('a[href]')?.closest('[data-rows] :is(li, tr)');
    if (row) history.replaceState({ row: row.querySelector('a[href]').getAttribute('href') }, '');
  });
  document.querySelector(`[data-rows] a[href="${CSS.escape(history.state?.row ?? '')}"]`)?.focus({ preventScroll: true });
  document.addEventListener('keydown', (event) => {
    const { key, target } = event;
    // Many European keyboards type brackets with AltGr.
    const isCommand = (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState('AltGraph');
    if (event.defaultPrevented || isCommand) return;
    if (target.closest('select, textarea, [contenteditable], input:not([type=radio], [type=checkbox], [type=number])')) return;
    if (document.querySelector('dialog[open], details[data-menu][open]')) return;
    const isArrow = key.startsWith('Arrow');
    const shortcut = !isArrow || mayStep(target) ? document.querySelector(`[aria-keyshortcuts~="${CSS.escape(key)}"]`) : null;
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[key];
    const next = shortcut ?? (step && findRow(step, isArrow));
    if (!next) return;
    event.preventDefault();
    if (shortcut?.matches('a')) document.addEventListener('shown', focusField, { once: true });
    if (shortcut?.matches('a, button') || next.matches('.pager a')) next.click();
    else next.focus();
  });
}

function mayStep(target) {
  const panel = document.querySelector('.side-panel');
  if (!panel || panel.scrollHeight > panel.clientHeight) return false;
  return target === document.body || (panel.contains(target) && !target.closest('input, [data-rows]'));
}

/** The page that a key opened takes the next keys in its field. */
const focusField = () => document.querySelector('input[aria-keyshortcuts="t"]')?.focus();

/** Without a focused row, j and k begin at the current one. After the last row comes the next page. */
function findRow(step, isArrow) {
  const links = [...document.querySelectorAll('[data-rows] :is(li, tbody tr)')]
    .map((row) => row.querySelector('a[href]'))
    .filter((link) => link?.checkVisibility());
  const focused = links.indexOf(document.activeElement);
  if (focused === -1 && isArrow) return undefined;
  const from = focused === -1 ? links.findIndex((link) => link.closest('[data-rows] [aria-current]')) : focused;
  return links[Math.max(0, from + step)] ?? document.querySelector('.pager [rel="next"]');
}
