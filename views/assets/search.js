import { chooseWithArrows, onSearchKeys } from './arrows.js';

/**
 * How long to wait after a keystroke before searching, in ms. Long enough that typing sends only one or two requests a
 * second.
 */
const PAUSE_MS = 250;

/** The search link, `/` and Ctrl+K open a dialog with the results of the search page. */
export function searchDialog() {
  const link = document.querySelector('a[data-search]');
  if (!link) return;
  let dialog;
  const open = () => {
    // The search page has a search field of its own, so it needs no dialog.
    const field = document.querySelector('main [data-search-field]');
    if (!field) {
      dialog ??= createDialog(link);
      if (!dialog.open) dialog.showModal();
    }
    (field ?? dialog.querySelector('input')).select();
  };
  link.addEventListener('click', (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  onSearchKeys(() => (document.querySelector('dialog[open]:not(.search-dialog)') ? false : open()));
}

function createDialog({ pathname, dataset }) {
  const input = make('input', { type: 'search', name: 'q', maxLength: 255, autocomplete: 'off', spellcheck: false, placeholder: dataset.search });
  input.setAttribute('aria-label', 'Search');
  const results = make('div', { className: 'search-results' });
  const hint = make('p', { className: 'quiet search-hint', textContent: '↑ ↓ to choose, Enter to open, Esc to close' });
  const form = make('form', { method: 'get', action: pathname });
  form.setAttribute('role', 'search');
  form.append(input);
  const dialog = make('dialog', { className: 'search-dialog' });
  dialog.setAttribute('aria-label', 'Search');
  dialog.append(form, results, hint);
  document.body.append(dialog);
  const links = () => [...results.querySelectorAll('a')];
  const { choose, readChosen, status } = chooseWithArrows(dialog, links);

  let timer;
  let latestQuery = '';
  let resultsQuery = '';
  input.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
    results.ariaBusy = String(withoutSecret(input.value.trim()) !== resultsQuery);
  });
  async function ask() {
    latestQuery = withoutSecret(input.value.trim());
    const query = latestQuery;
    try {
      const response = await fetch(`${pathname}?${new URLSearchParams({ q: query })}`);
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      const list = page.querySelector('[data-search-results]');
      // Without a results element, the session has ended. The failure message points to the search page, which then
      // leads to sign-in.
      if (query === latestQuery) show(list ? query : '', list ? [...list.children] : [failure()]);
    } catch {
      if (query === latestQuery) show('', [failure()]);
    }
  }
  function show(query, parts) {
    resultsQuery = query;
    results.ariaBusy = 'false';
    results.replaceChildren(...parts);
    choose(links()[0]);
    const count = links().length - 1;
    status.textContent = query === '' ? '' : count === 1 ? '1 result' : `${Math.max(0, count)} results`;
  }

  form.addEventListener('submit', (event) => {
    const chosen = readChosen();
    if (!chosen || resultsQuery !== withoutSecret(input.value.trim())) return;
    event.preventDefault();
    location.assign(chosen.href);
  });
  dialog.addEventListener('keydown', (event) => {
    // Without this, Escape would only clear the search field.
    if (event.key === 'Escape') dialog.close();
  });
  // A click on the dialog element itself is a click on its backdrop.
  dialog.addEventListener('click', ({ target }) => {
    if (target === dialog) dialog.close();
  });
  void ask();
  return dialog;
}

/** Shortens a key to its first characters, which are enough to find it, so that the secret never leaves the page. */
export const withoutSecret = (text) => text.replace(/^(\s*(?:org|service)_(?:live|test)_.{3}).*/, '$1');

const failure = () => make('p', { textContent: 'No response. Press Enter to open the search page.' });

const make = (name, values) => Object.assign(document.createElement(name), values);
