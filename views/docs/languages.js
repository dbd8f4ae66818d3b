const STORED = 'gauge.language';

/** Shows all examples in the chosen language, on this page and on pages opened later. */
export function followLanguage() {
  const choices = [...document.querySelectorAll('input[data-language]')];
  const choose = (language) => {
    for (const choice of choices) if (choice.value === language) choice.checked = true;
  };
  choose(stored());
  document.addEventListener('change', ({ target }) => {
    if (!target.matches('input[data-language]')) return;
    const { top } = target.getBoundingClientRect();
    choose(target.value);
    store(target.value);
    // Keeps the choice in place on screen, because examples above it may have changed height.
    scrollBy({ top: target.getBoundingClientRect().top - top, behavior: 'instant' });
  });
}

/** Returns the stored language, or null if nothing is stored or the browser denies access to local storage. */
function stored() {
  try {
    return localStorage.getItem(STORED);
  } catch {
    return null;
  }
}

function store(language) {
  try {
    localStorage.setItem(STORED, language);
  } catch {
    // Without local storage, the choice applies only to this page.
  }
}
