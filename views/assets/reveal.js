/** Shows the buttons that show what is typed into a password field. */
export function revealButtons() {
  for (const button of document.querySelectorAll('button[data-reveal]')) {
    button.hidden = false;
    button.setAttribute('aria-pressed', 'false');
    button.addEventListener('click', () => show(button, button.getAttribute('aria-pressed') === 'false'));
    // What is sent is a password again: the browser offers to keep it, and remembers nothing that was typed as text.
    button.form.addEventListener('submit', () => show(button, false));
  }
}

function show(button, isShown) {
  button.setAttribute('aria-pressed', String(isShown));
  document.getElementById(button.dataset.reveal).type = isShown ? 'text' : 'password';
}
