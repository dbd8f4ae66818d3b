export function revealButtons() {
  for (const button of document.querySelectorAll('button[data-reveal]')) {
    button.hidden = false;
    button.setAttribute('aria-pressed', 'false');
    button.addEventListener('click', () => show(button, button.getAttribute('aria-pressed') === 'false'));
    // Turns the field back into a password field before it is submitted, so that the browser offers to save the
    // password and does not remember it as text.
    button.form.addEventListener('submit', () => show(button, false));
  }
}

function show(button, isShown) {
  button.setAttribute('aria-pressed', String(isShown));
  document.getElementById(button.dataset.reveal).type = isShown ? 'text' : 'password';
}
