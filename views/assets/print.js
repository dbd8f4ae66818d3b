document.addEventListener('click', ({ target }) => {
  if (target.closest('button[data-print]')) print();
});

export function printButtons(root) {
  for (const button of root.querySelectorAll('button[data-print]')) button.hidden = false;
}
