const selector = 'button[data-copy]';

/**
 * `data-copy` is the ID of the element to copy, or empty to copy the element before the button. `data-copy-text`, if
 * present, is the text to copy instead.
 */
document.addEventListener('click', async ({ target }) => {
  const button = target.closest(selector);
  if (!button || 'copied' in button.dataset) return;
  const { copy, copyText } = button.dataset;
  const source = copy ? document.getElementById(copy) : button.previousElementSibling;
  // Icon buttons have their label in a visually hidden element.
  const words = button.querySelector('.visually-hidden') ?? button;
  const before = words.textContent;
  try {
    await navigator.clipboard.writeText(copyText ?? source.value ?? source.textContent);
    button.dataset.copied = '';
    words.textContent = 'Copied';
  } catch {
    getSelection().selectAllChildren(source);
    words.textContent = 'Press Ctrl+C';
  }
  setTimeout(() => {
    words.textContent = before;
    delete button.dataset.copied;
  }, 2000);
});

/** Shows the copy buttons if this browser lets pages write to the clipboard. */
export function copyButtons(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll(selector)) {
    button.hidden = false;
    button.setAttribute('aria-live', 'polite');
  }
}
