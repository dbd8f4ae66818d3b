import { refreshMain } from './live.js';
import { withoutSecret } from './search.js';

const PAUSE_MS = 300;

/** A form of filters applies itself when a field changes, so its button is hidden. Enter in a text field submits it too. */
export function filterForms(root) {
  for (const button of root.querySelectorAll(`${filters} button:not([name], [type='button']), form#search button`))
    button.hidden = true;
}

const filters = 'form.filters[method="get"]:not(.look-up)';

/** Shows the results in place, so that the focus stays. */
export function filterOnChange() {
  let timer;
  async function apply(field) {
    clearTimeout(timer);
    const form = field.closest(filters);
    if (!form?.reportValidity()) return;
    if (field.type === 'search') field.value = withoutSecret(field.value);
    const address = `${form.getAttribute('action')}?${new URLSearchParams(new FormData(form))}`;
    // Text that is typed would make an entry of the history for each pause.
    const isStep = field.matches('select') && new URL(address, location.href).href !== location.href;
    const isShown = await refreshMain(address, isStep ? 'pushState' : 'replaceState').catch(() => false);
    if (!isShown) form.submit();
  }
  document.addEventListener('change', ({ target }) => apply(target));
  document.addEventListener('input', ({ target }) => {
    if (target.type !== 'search') return;
    clearTimeout(timer);
    timer = setTimeout(apply, PAUSE_MS, target);
  });
}
