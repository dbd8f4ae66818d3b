/**
 * Forms with `data-once` are sent once: the answer to a second click would take the place of the first one, which may
 * show something that is shown only once. Coming back to the page makes its forms ready again.
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
