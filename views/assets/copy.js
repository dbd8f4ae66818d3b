document.addEventListener('click', async ({ target }) => {
  const button = target.closest('button[data-copy]');
  if (!button) return;
  button.dataset.label ??= button.textContent;
  const { label } = button.dataset;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    button.textContent = 'Copied';
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = 'Press Ctrl+C';
  }
  setTimeout(() => (button.textContent = label), 2000);
});

/** Shows the copy buttons if the browser lets a page write to the clipboard. */
export function copyButtons(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll('button[data-copy]')) {
    button.hidden = false;
    button.setAttribute('aria-live', 'polite');
  }
}
