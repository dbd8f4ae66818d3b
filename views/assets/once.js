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
  // The server's messages, which name all mistakes at once, instead of the browser's.
  const trust = ({ target }) => {
    const button = target.closest('button');
    if (button?.form?.method === 'post') button.formNoValidate = true;
  };
  document.addEventListener('click', trust, true);
  addEventListener('pageshow', () => (sentForms = new WeakSet()));
}
