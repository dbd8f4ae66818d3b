import { refreshMain } from './live.js';

/** A form of filters applies itself when a field changes, so its button is hidden. Enter in a text field submits it too. */
export function filterForms(root) {
  for (const button of root.querySelectorAll(`${filters} button:not([name], [type='button'])`)) button.hidden = true;
}

const filters = 'form.filters[method="get"]:not(.look-up)';

/** Shows the results in place, so that the focus stays. */
export function filterOnChange() {
  document.addEventListener('change', async ({ target }) => {
    const form = target.closest(filters);
    if (!form?.reportValidity()) return;
    const address = `${form.getAttribute('action')}?${new URLSearchParams(new FormData(form))}`;
    const isShown = await refreshMain(address).catch(() => false);
    if (!isShown) form.submit();
  });
}
