/** A list's cursors only lead on. The page before is the one from which the reader came. Breadcrumbs lead back to a list as it was left. */
export function pagers(root, address) {
  const list = nameOf(address);
  if (root.querySelector('main .filters')) sessionStorage.setItem(list.split('?')[0], list);
  for (const link of root.querySelectorAll('.breadcrumb a')) link.href = sessionStorage.getItem(link.pathname) ?? link.href;
  const before = sessionStorage.getItem(list);
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
  return `${pathname}?${searchParams}`;
}
