/**
 * Keeps the parts of a page that say `data-live="<seconds>"` up to date: it asks for the same page again and puts the
 * new parts in the place of the old ones. A part that no longer says so is final. Parts need an id.
 */
export function liveParts(enhance) {
  let failures = 0;
  const parts = () => [...document.querySelectorAll('[data-live][id]')];

  const schedule = () => {
    const seconds = Math.min(...parts().map((part) => Number(part.dataset.live)));
    // Less often while the server cannot be reached.
    if (Number.isFinite(seconds)) setTimeout(refresh, seconds * 1000 * Math.min(2 ** failures, 32));
  };

  const refresh = async () => {
    if (document.visibilityState === 'visible') {
      try {
        await replaceParts();
        failures = 0;
      } catch {
        failures++;
      }
    }
    schedule();
  };

  const replaceParts = async () => {
    const response = await fetch(location.href, { headers: { accept: 'text/html' }, redirect: 'manual' });
    if (isGone(response)) return location.reload();
    if (!response.ok) throw new Error(`status ${response.status}`);
    const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
    for (const part of parts()) {
      const replacement = fresh.getElementById(part.id);
      // Whoever is in the middle of it keeps what they have.
      if (!replacement || part.contains(document.activeElement)) continue;
      if (part.outerHTML === replacement.outerHTML) continue;
      part.replaceWith(document.adoptNode(replacement));
      enhance(replacement);
    }
  };

  schedule();
}

/** The session has ended, or the page is no longer open to this person: what it shows must not stay, it says why itself. */
const isGone = ({ type, status }) => type === 'opaqueredirect' || status === 403 || status === 404;
