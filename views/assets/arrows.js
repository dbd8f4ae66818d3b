/** `/` and Ctrl+K begin a search, unless `begin` returns false. */
export function onSearchKeys(begin) {
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target.closest('input, textarea, select, [contenteditable]');
    const isSlash = event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey;
    const isCtrlK = event.key?.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey);
    if ((isSlash || isCtrlK) && begin() !== false) event.preventDefault();
  });
}

/** Arrow keys choose among links while the focus stays in the field, so that the reader can go on typing. */
export function chooseWithArrows(place, listLinks) {
  const status = Object.assign(document.createElement('p'), { className: 'visually-hidden', role: 'status' });
  place.append(status);
  let chosen;
  const choose = (link) => {
    chosen?.removeAttribute('data-chosen');
    chosen = link;
    chosen?.setAttribute('data-chosen', '');
    chosen?.scrollIntoView({ block: 'nearest' });
  };
  place.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const all = listLinks();
    if (!step || all.length === 0) return;
    event.preventDefault();
    choose(all.at((Math.max(all.indexOf(chosen), step === 1 ? -1 : 0) + step) % all.length));
    status.textContent = chosen.textContent;
  });
  return { choose, readChosen: () => chosen, status };
}
