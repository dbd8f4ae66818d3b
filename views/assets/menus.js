/** Closes menus on Escape, on a click elsewhere, or when the focus moves elsewhere. */
export function menus() {
  const all = () => document.querySelectorAll('details[data-menu][open]');
  const closeOthers = ({ target }) => {
    for (const menu of all()) if (!menu.contains(target)) menu.open = false;
  };
  document.addEventListener('click', closeOthers);
  document.addEventListener('focusin', closeOthers);
  document.addEventListener('keydown', ({ key }) => {
    if (key !== 'Escape') return;
    for (const menu of all()) {
      menu.open = false;
      menu.querySelector('summary').focus();
    }
  });
}
