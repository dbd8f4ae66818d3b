// Keeps parts of a page up to date: fetches the page again and updates changed elements in place, which preserves the
// focus and open details. A part is an element with an ID and either `data-part`, or `data-live="<seconds>"` if it is
// polled at that interval.
import { copyButtons } from './copy.js';
import { dayButtons } from './days.js';
import { filterForms } from './filters.js';
import { pagers } from './pagers.js';
import { isPaused, pauseButtons } from './pause.js';
import { printButtons } from './print.js';
import { localTimes } from './times.js';

let round = 0;
/** While the main part is being replaced, its parts are not refreshed. */
let replacements = 0;

/** Prepares HTML before it is shown: the initial page, and each response that replaces parts of it. */
export function enhance(root, address = location.href) {
  localTimes(root);
  copyButtons(root);
  dayButtons(root);
  filterForms(root);
  pagers(root, address);
  pauseButtons(root);
  printButtons(root);
}

async function fetchPage(address, options) {
  const [{ Idiomorph }, response] = await Promise.all([
    import('./idiomorph.js'),
    fetch(address, { headers: { accept: 'text/html' }, ...options }),
  ]);
  return { Idiomorph, response, fresh: new DOMParser().parseFromString(await response.text(), 'text/html') };
}

/**
 * Fetches the page again and updates its parts. Returns true if the response was shown; false if the page is being
 * reloaded, a newer request has started, or `prepare` discarded the response.
 * @param prepare receives the response before any part of it is shown; returns false to discard it
 * @throws if the request fails
 */
export async function refreshParts({ address = location.href, prepare = () => true } = {}) {
  if (replacements > 0) return false;
  const mine = ++round;
  const { Idiomorph, response, fresh } = await fetchPage(address, { redirect: 'manual' });
  if (isGone(response)) {
    location.reload();
    return false;
  }
  // A page with status 400 names the field to correct.
  if (!response.ok && response.status !== 400) throw new Error(`status ${response.status}`);
  // Discards the response if a newer request has started.
  if (mine !== round || !prepare(fresh)) return false;
  showParts(fresh, Idiomorph);
  return true;
}

function showParts(fresh, Idiomorph) {
  enhance(fresh);
  for (const part of document.querySelectorAll('[data-part][id], [data-live][id]')) {
    const replacement = fresh.getElementById(part.id);
    if (replacement) Idiomorph.morph(part, replacement, morphOptions);
  }
}

/**
 * Shows the main part of another page of the same kind, and fires `shown` with the change. Returns false if it cannot.
 * @param change of the history: `replaceState` or `pushState`
 */
export async function refreshMain(address, change = 'replaceState') {
  const mine = ++round;
  replacements++;
  setSwapped(true);
  try {
    const { Idiomorph, response, fresh } = await fetchPage(address, { redirect: 'manual' });
    if (mine !== round) {
      if (replacements === 1) setSwapped(false);
      return true;
    }
    enhance(fresh, address);
    if (response.status === 400 && showRefusal(fresh, Idiomorph)) return true;
    const [main, next] = [document, fresh].map((page) => page.getElementById('main'));
    const isSameKind = [main, next].map((one) => one?.querySelector('[data-swap]') != null);
    if (!next || response.type === 'opaqueredirect' || isSameKind[0] !== isSameKind[1]) return false;
    history[change](null, '', address);
    document.title = fresh.title;
    Idiomorph.morph(main, next, morphOptions);
    setSwapped(false);
    document.dispatchEvent(new CustomEvent('shown', { detail: change }));
    pollParts();
    return true;
  } finally {
    replacements--;
  }
}

/** Filters name their invalid field beside the result of the last valid ones. */
function showRefusal(fresh, Idiomorph) {
  const [form, refused] = [document, fresh].map((page) => page.querySelector('#main form.filters'));
  if (!form || !refused?.querySelector('[data-invalid]')) return false;
  Idiomorph.morph(form, refused, morphOptions);
  setSwapped(false);
  return true;
}

/** Forms that are about to be replaced take no input: it would be lost, or would go to the page that the reader left. */
function setSwapped(isBusy) {
  for (const part of document.querySelectorAll('#main, [data-swapped]')) {
    part.inert = isBusy && part.id !== 'main';
    part.ariaBusy = isBusy ? 'true' : null;
  }
}

/**
 * Submits forms with `data-in-place` without leaving the page, and updates the page's parts from the page that the
 * response redirects to. The attribute may name the element that then has the focus, because the button may be gone.
 */
export function sendInPlace() {
  document.addEventListener('submit', async (event) => {
    const form = event.target;
    if (!form.matches('form[data-in-place]') || event.defaultPrevented) return;
    event.preventDefault();
    if (form.ariaBusy === 'true') return;
    form.ariaBusy = 'true';
    const { submitter } = event;
    const label = [...(submitter?.childNodes ?? [])];
    submitter?.replaceChildren('Sending…');
    try {
      const mine = ++round;
      const body = new URLSearchParams(new FormData(form));
      const { Idiomorph, response, fresh } = await fetchPage(form.getAttribute('action'), { method: 'POST', body });
      // The server responds to a refused form with a full page. Submitting the form again normally shows that page.
      if (!response.ok || !response.redirected || !fresh.querySelector(':is([data-part], [data-live])[id]')) form.submit();
      else if (mine === round) {
        history.replaceState(null, '', response.url);
        showParts(fresh, Idiomorph);
        pollParts();
        document.getElementById(form.dataset.inPlace)?.focus();
      }
    } catch {
      form.submit();
    } finally {
      form.ariaBusy = null;
      if (submitter?.textContent === 'Sending…') submitter.replaceChildren(...label);
    }
  });
}

/** True if the session has ended or the person has lost access. A reload then hides the data and shows why. */
const isGone = ({ type, status }) => type === 'opaqueredirect' || status === 403 || status === 404;

/** Cells whose figure has changed. `data-flash` names the figure, so that one of another contract is no change. */
const changedNodes = new WeakSet();

/** Idiomorph options: https://github.com/bigskysoftware/idiomorph */
const morphOptions = {
  callbacks: {
    beforeNodeMorphed(from, to) {
      // Leaves the field that the reader is editing unchanged.
      if (from === document.activeElement && from.matches('input, select, textarea')) {
        from.ariaInvalid = to.ariaInvalid;
        return false;
      }
      const name = from.dataset?.flash;
      if (name !== undefined && name === to.dataset?.flash && from.textContent !== to.textContent) changedNodes.add(from);
      return true;
    },
    afterNodeMorphed(from) {
      if (changedNodes.delete(from)) flash(from);
    },
    // Leaves details open or closed, and switches outside forms, as the reader set them.
    beforeAttributeUpdated: (name, node) =>
      !(name === 'open' && node.localName === 'details') && !(name === 'checked' && node.type === 'radio' && !node.form),
  },
};

function flash(element) {
  element.classList.remove('flash');
  void element.offsetWidth;
  element.classList.add('flash');
}

let failures = 0;
let timer;

/** Refreshes parts with `data-live` while the page is visible, and less often while the server is unreachable. */
export function pollParts() {
  clearTimeout(timer);
  const paces = [...document.querySelectorAll('[data-live][id]')].map(({ dataset }) => Number(dataset.live));
  if (paces.length === 0) return;
  const refresh = async () => {
    if (document.visibilityState === 'visible' && !isPaused())
      failures = await refreshParts().then(
        () => 0,
        () => failures + 1,
      );
    pollParts();
  };
  timer = setTimeout(refresh, Math.min(...paces) * 1000 * Math.min(2 ** failures, 32));
}
