const STORED = 'gauge.language';

/** All examples show the same language, and the next page too. */
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
    // Examples above may have changed their height.
    scrollBy({ top: target.getBoundingClientRect().top - top, behavior: 'instant' });
  });
}

/** A browser may forbid the store. */
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
    // The choice holds for this page.
  }
}
