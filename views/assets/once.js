/**
 * Submits forms with `data-once` only once: a second click would replace the first response, which may contain a secret
 * that is shown only once. Returning to the page enables its forms again.
 */
export function sendOnce() {
  let sentForms = new WeakSet();
  document.addEventListener('submit', (event) => {
    if (!event.target.matches('form[data-once]') || event.defaultPrevented) return;
    if (sentForms.has(event.target)) event.preventDefault();
    sentForms.add(event.target);
  });
  // The server explains wrong values better than the browser.
  document.addEventListener('click', ({ target }) => {
    const button = target.closest('button');
    if (button?.form?.method !== 'post' || button.name === 'edit') return;
    button.formNoValidate = [...button.form.elements].every(({ validity }) => !validity?.valueMissing);
  });
  addEventListener('pageshow', () => (sentForms = new WeakSet()));
}
