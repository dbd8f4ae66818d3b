/** Shows the print buttons and makes them work. */
export function printButtons(root) {
  for (const button of root.querySelectorAll('button[data-print]')) {
    button.hidden = false;
    button.addEventListener('click', () => print());
  }
}
