/** A button that stops the updates of the page until it is pressed again. */
export function pauseButtons(root) {
  for (const button of root.querySelectorAll('button[data-pause]')) button.hidden = false;
}

export const isPaused = () => document.querySelector('button[data-pause][aria-pressed="true"]') !== null;

document.addEventListener('click', ({ target }) => {
  const button = target.closest('button[data-pause]');
  if (button) button.ariaPressed = String(button.ariaPressed !== 'true');
});
