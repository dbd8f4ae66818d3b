const copying = 'button[data-copy]';

/** `data-copy` names the element with the text, or is empty for the one before the button; `data-copy-text` is the text itself. */
document.addEventListener('click', async ({ target }) => {
  const button = target.closest(copying);
  if (!button || 'copied' in button.dataset) return;
  const { copy, copyText } = button.dataset;
  const source = copy ? document.getElementById(copy) : button.previousElementSibling;
  // A button with an icon has its words in a hidden part.
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

/** Shows the copy buttons if the browser lets a page write to the clipboard. */
export function copyButtons(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll(copying)) {
    button.hidden = false;
    button.setAttribute('aria-live', 'polite');
  }
}
