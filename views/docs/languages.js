const STORED = 'gauge.language';

/** Shows the same language in all examples, on this page and later ones. */
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
    // Examples above may have changed height.
    scrollBy({ top: target.getBoundingClientRect().top - top, behavior: 'instant' });
  });
}

/** Browsers may deny access to local storage. */
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
    // The choice then holds only for this page.
  }
}
