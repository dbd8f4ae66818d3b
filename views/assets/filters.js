// Shows the result of a filter as soon as a field changes. Without scripts, the form has a button.
import { refreshParts } from './live.js';

export function filtersFollow() {
  document.addEventListener('change', async ({ target }) => {
    const { form } = target;
    if (!form?.matches('[data-follows]') || !form.checkValidity()) return;
    const address = `${form.getAttribute('action')}?${new URLSearchParams(new FormData(form))}`;
    try {
      if (await refreshParts({ address })) history.pushState(null, '', address);
    } catch {
      location.assign(address);
    }
  });
  addEventListener('popstate', () => location.reload());
}
