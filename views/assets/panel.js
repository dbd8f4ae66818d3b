import { refreshMain } from './live.js';

/** Shows a link's page in place: `data-panel` opens a panel beside it, `data-panel-close` (or Escape) closes it. */
export function sidePanels() {
  document.addEventListener('click', async (event) => {
    const link = event.target.closest('a[data-panel], a[data-panel-close]');
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    const opener = document.querySelector('[aria-current] > * a[data-panel]');
    const isShown = await refreshMain(link.href).catch(() => false);
    if (!isShown) location.assign(link.href);
    else (document.querySelector('.side-panel') ?? (opener?.isConnected ? opener : document.getElementById('find-event')))?.focus();
  });
  document.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape' && !document.querySelector('dialog[open], details[data-menu][open]'))
      document.querySelector('a[data-panel-close]')?.click();
  });
}
