/**
 * A field with `data-choice="cap=own"` belongs to the `own` choice of the `cap` field. Filling in the field selects
 * that choice. Selecting another choice empties the field; returning to `own` restores its value.
 */
export function choicesFollowFields() {
  for (const field of document.querySelectorAll('[data-choice]')) {
    const [name, values] = field.dataset.choice.split('=');
    follow(field, name, values.split(' '));
  }
  for (const option of document.querySelectorAll('[data-selects]')) {
    const [name, value] = option.dataset.selects.split('=');
    option.addEventListener('change', () => (option.form.elements[name].value = value));
  }
  for (const group of document.querySelectorAll('[data-shown-for]')) clearWithChoice(group);
  for (const choice of document.querySelectorAll('select[data-fills]')) fillWithChoice(choice);
}

/** Each option suggests a value for the field that the select names, until the reader has typed one. */
function fillWithChoice(choice) {
  const field = choice.form.elements[choice.dataset.fills];
  let last = choice.selectedOptions[0].dataset.fill;
  choice.addEventListener('change', () => {
    if (field.value === last) field.value = last = choice.selectedOptions[0].dataset.fill;
  });
}

/**
 * Unticks the check boxes of an option when another option is chosen, because they would still be submitted while
 * hidden.
 */
function clearWithChoice(group) {
  const [name, values] = group.dataset.shownFor.split('=');
  group.closest('form').addEventListener('change', ({ target }) => {
    if (target.name !== name || values.split(' ').includes(target.value)) return;
    for (const box of group.querySelectorAll('[type=checkbox]:checked')) box.checked = false;
  });
}

function follow(field, name, choices) {
  // A select or a group of radio buttons; both have a settable value.
  const choice = field.form.elements[name];
  const empty = field.options?.[0].value ?? '';
  let last = empty;
  const isMade = () => choices.includes(choice.value);
  field.addEventListener('input', () => {
    const isFilledIn = field.value !== empty || field.validity.badInput;
    if (isFilledIn && !isMade()) choice.value = choices[0];
  });
  field.form.addEventListener('change', ({ target }) => {
    if (target.name !== name) return;
    if (isMade()) {
      if (field.value === empty) field.value = last;
    } else if (field.value !== empty) [last, field.value] = [field.value, empty];
  });
}
