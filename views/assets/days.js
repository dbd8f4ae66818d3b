const selector = 'button[data-day]';

/** Shows the buttons that open the browser's calendar, which fills the field of a day in the page's format. */
export function dayButtons(root) {
  if (!('showPicker' in HTMLInputElement.prototype)) return;
  for (const button of root.querySelectorAll(selector)) button.hidden = button.nextElementSibling.hidden = false;
}

const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });

document.addEventListener('click', ({ target }) => {
  const button = target.closest(selector);
  if (!button) return;
  const picker = button.nextElementSibling;
  picker.valueAsDate = new Date(`${button.previousElementSibling.value} UTC`);
  picker.showPicker();
});

/** Only the field reports the change: filters apply themselves once. */
function fillDay(event) {
  const { target } = event;
  if (!target.previousElementSibling?.matches(selector)) return;
  event.stopPropagation();
  if (event.type === 'input') return;
  const field = target.parentElement.querySelector('input');
  field.value = target.value && day.format(target.valueAsDate);
  for (const type of ['input', 'change']) field.dispatchEvent(new Event(type, { bubbles: true }));
}
for (const type of ['input', 'change']) document.documentElement.addEventListener(type, fillDay, true);
