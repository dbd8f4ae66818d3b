/**
 * Submits forms with `data-once` only once: a second click would replace the first response, which may contain a secret
 * that is shown only once. Returning to the page enables its forms again.
 */
export function sendOnce() {
  let sent = new WeakSet();
  document.addEventListener('submit', (event) => {
    if (!event.target.matches('form[data-once]') || event.defaultPrevented) return;
    if (sent.has(event.target)) event.preventDefault();
    sent.add(event.target);
  });
  addEventListener('pageshow', () => (sent = new WeakSet()));
}
