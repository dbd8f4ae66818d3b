/** Shows the copy buttons and makes them work. */
export function copyButtons(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll('button[data-copy]')) {
    const label = button.textContent;
    button.hidden = false;
    button.setAttribute('aria-live', 'polite');
    button.addEventListener('click', async () => {
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
  }
}
