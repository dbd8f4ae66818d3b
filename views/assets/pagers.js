/** A list's cursors only lead on. The page before is the one from which the reader came. */
export function pagers(root, address) {
  const before = sessionStorage.getItem(nameOf(address));
  const first = root.querySelector('.pager a:not([rel])');
  if (!before || !first || root.querySelector('.pager [rel="prev"]')) return;
  const link = first.cloneNode();
  Object.assign(link, { rel: 'prev', href: before, textContent: 'Previous page' });
  first.after(link);
}

document.addEventListener('click', ({ target }) => {
  const next = target.closest('.pager [rel="next"]');
  if (next) sessionStorage.setItem(nameOf(next.href), location.href);
});

/** The address of a list, whatever is open beside it. */
function nameOf(address) {
  const { pathname, searchParams } = new URL(address, location.href);
  for (const name of ['event', 'correct', 'done']) searchParams.delete(name);
  return `before ${pathname}?${searchParams}`;
}
