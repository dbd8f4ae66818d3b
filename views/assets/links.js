import { refreshMain } from './live.js';

/**
 * Shows the pages of links inside `data-swap` in place, so that scroll position and focus stay, if they have the same
 * path or one that begins with the attribute's value. A link with `data-panel` opens a panel; `data-panel-close` or
 * Escape closes it.
 */
export function swapLinks() {
  document.addEventListener('click', async (event) => {
    const link = event.target.closest('[data-swap] a[href]');
    if (!link || event.defaultPrevented || event.button !== 0 || link.matches('[download], [target]')) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const address = new URL(link.getAttribute('href'), location.href);
    const base = link.closest('[data-swap]').dataset.swap;
    const isOwn = address.pathname === location.pathname || (base !== '' && address.pathname.startsWith(base));
    const isJump = address.hash !== '' && address.href.split('#')[0] === location.href.split('#')[0];
    if (address.origin !== location.origin || !isOwn || isJump) return;
    event.preventDefault();
    const opener = document.querySelector('[aria-current] > * a[data-panel]');
    const closes = link.matches('[data-panel-close]');
    const [isPager, isBar] = ['.pager', '[data-chart]'].map((part) => link.closest(part) !== null);
    // The chosen parts and the figures are at the top of the report.
    const target = link.closest('.parts-of-usage, .chosen-parts') ? '#report-title' : address.hash;
    const isShown = await refreshMain(address.href, 'pushState').catch(() => false);
    if (!isShown) return location.assign(address);
    if (link.matches('[data-panel]')) document.querySelector('.side-panel [autofocus], .side-panel:not(:has([autofocus]))')?.focus();
    else if (closes) (opener?.isConnected ? opener : document.getElementById('find-event')).focus();
    else {
      showTarget(target, isPager, event.detail === 0);
      keepFocus(link, isBar);
    }
  });
  addEventListener('popstate', async () => {
    if (!document.querySelector('[data-swap], #main form.filters')) return;
    // A field in focus keeps its value, but the way back leads to the earlier one.
    const field = document.activeElement;
    field.blur();
    if (!(await refreshMain(location.href).catch(() => false))) location.reload();
    else if (field.isConnected) field.focus({ preventScroll: true });
  });
  document.addEventListener('keydown', ({ key }) => {
    if (document.querySelector('dialog[open], details[data-menu][open]')) return;
    if (key === 'Escape') document.querySelector('a[data-panel-close]')?.click();
  });
}

/** A new page of a list is read from its top, by keyboard from its first row. */
function showTarget(hash, isPager, isByKey) {
  const target = hash && document.getElementById(hash.slice(1));
  if (!target) return;
  const fold = target.querySelector('details.fold');
  if (fold) fold.open = true;
  const row = isByKey && target.querySelector('[data-rows] a[href]');
  if (isPager) (row || target).focus({ preventScroll: true });
  target.scrollIntoView({ block: isPager ? 'start' : 'nearest' });
}

/** A link that is gone leaves the focus to one with the same address, or to the main part. */
function keepFocus(link, isBar) {
  // The element of a chosen bar is now a bar of another time.
  if (!isBar && (link.isConnected || document.activeElement !== document.body)) return;
  const links = [...document.querySelectorAll('[data-swap] a[href]')];
  const same = !isBar && links.find((other) => other.getAttribute('href') === link.getAttribute('href'));
  (same || document.getElementById('main')).focus({ preventScroll: true });
}
