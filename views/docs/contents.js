/** Marks the current section in the table of contents. */
export function markContents() {
  const page = document.querySelector('.docs-nav [aria-current="page"]');
  if (page) keepInSight(page);
  const links = [...document.querySelectorAll('[data-contents] a')];
  const places = [...new Set(links.map((link) => link.hash.slice(1)))]
    .map((id) => document.getElementById(decodeURIComponent(id)))
    .filter(Boolean);
  if (places.length === 0) return;
  const mark = () => {
    const line = innerHeight / 4;
    const isAtEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    const current = isAtEnd
      ? places.at(-1)
      : places.findLast((place) => place.getBoundingClientRect().top <= line);
    for (const link of links) {
      if (current && link.hash === `#${current.id}`) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    }
    const shown = links.find((link) => link.hasAttribute('aria-current') && link.checkVisibility());
    if (shown) keepInSight(shown);
  };
  // Browsers send both at most once per frame.
  addEventListener('scroll', mark, { passive: true });
  addEventListener('resize', mark, { passive: true });
  mark();
}

/** Scrolls only the navigation, never the page. */
function keepInSight(link) {
  const box = link.closest('.docs-nav');
  if (!box) return;
  const [outer, inner] = [box.getBoundingClientRect(), link.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom)
    box.scrollTop += inner.top - outer.top - outer.height / 3;
}
