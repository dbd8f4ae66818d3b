// Keeps prices up to date: the stream says when there are new ones, and the parts of the page are asked for anew. Without
// the stream they are asked for from time to time. What changes, changes in place: focus and open details stay.
import { localTimes } from './times.js';

const STALE_MS = 35_000;
const DEBOUNCE_MS = 250;
const PACE_MS = 1_000;
const parts = (root) => [...root.querySelectorAll('[data-part][id]')];

/** How far this computer's clock is ahead of the server's. */
let aheadMs = 0;
let lastRefreshMs = Date.now();
let isPlacing = false;
let round = 0;

function readClock(root) {
  const now = root.querySelector('[data-now]')?.dataset.now;
  if (now) aheadMs = Date.now() - Date.parse(now);
}

function ageText(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 120) return `${seconds}\u00a0s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 120 ? `${minutes}\u00a0minutes` : `${Math.floor(minutes / 60)}\u00a0hours`;
}

function tickAges(root) {
  for (const age of root.querySelectorAll('[data-age]')) {
    const text = ageText(Date.now() - aheadMs - Date.parse(age.dataset.age));
    if (age.textContent !== text) age.textContent = text;
  }
}

/** Makes `from` what `to` is, node by node. */
function morph(from, to) {
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
    from.replaceWith(to);
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  const isFlashing = from.hasAttribute('data-flash') && from.textContent !== to.textContent;
  for (const name of from.getAttributeNames())
    if (!to.hasAttribute(name) && !(name === 'open' && from.localName === 'details')) from.removeAttribute(name);
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  const [old, fresh] = [[...from.childNodes], [...to.childNodes]];
  if (old.length === fresh.length) old.forEach((child, i) => morph(child, fresh[i]));
  else from.replaceChildren(...fresh);
  if (isFlashing) flash(from);
}

function flash(element) {
  element.classList.remove('flash');
  void element.offsetWidth;
  element.classList.add('flash');
}

/** Says what has become different for good, once. */
function tellNews(before) {
  const news = document.querySelector('[data-news]')?.dataset.news;
  const out = document.querySelector('[data-news-out]');
  if (out && news !== undefined && before !== undefined && news !== before) out.textContent = news;
}

/** Asks for the page anew; true if its parts are now what was answered. */
async function refresh(address = location.href) {
  if (isPlacing) return false;
  const mine = ++round;
  lastRefreshMs = Date.now();
  const response = await fetch(address, { headers: { accept: 'text/html' }, redirect: 'manual' }).catch(() => undefined);
  if (response?.type === 'opaqueredirect' || response?.status === 403 || response?.status === 404) {
    location.reload();
    return false;
  }
  // A later question has been asked, or the order is on its way: the form that was sent must stay as it is.
  if (!response?.ok || mine !== round || isPlacing) return false;
  const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
  if (mine !== round || isPlacing) return false;
  const before = document.querySelector('[data-news]')?.dataset.news;
  readClock(fresh);
  localTimes(fresh);
  tickAges(fresh);
  for (const part of parts(document)) {
    const replacement = fresh.getElementById(part.id);
    if (replacement) morph(part, document.adoptNode(replacement));
  }
  tellNews(before);
  return true;
}

/** The search: the list follows what is typed, and the address with it. */
function followSearch() {
  const form = document.querySelector('form#search');
  if (!form) return;
  let timer;
  const show = async () => {
    const fields = [...new FormData(form)].filter(([, value]) => value !== '');
    const address = `${form.getAttribute('action')}?${new URLSearchParams(fields)}`;
    history.replaceState(null, '', address);
    await refresh(address);
  };
  form.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(show, DEBOUNCE_MS);
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    clearTimeout(timer);
    void show();
  });
}

/** The ticket: the quote follows what is typed. */
function followTyping() {
  const form = document.querySelector('form#ticket');
  if (!form) return;
  let timer;
  const setBusy = (isBusy) => {
    for (const button of document.querySelectorAll('[data-place] button')) button.disabled = isBusy;
    document.getElementById('review')?.toggleAttribute('data-busy', isBusy);
  };
  form.addEventListener('input', () => {
    clearTimeout(timer);
    // What stands beside is no longer what was typed.
    setBusy(true);
    timer = setTimeout(async () => {
      if (!form.checkValidity()) return;
      const address = `${form.getAttribute('action')}?${new URLSearchParams(new FormData(form))}`;
      history.replaceState(null, '', address);
      if (await refresh(address)) setBusy(false);
    }, DEBOUNCE_MS);
  });
  document.addEventListener('submit', (event) => {
    if (event.target.matches('[data-place]') && !event.defaultPrevented) isPlacing = true;
  });
  addEventListener('pageshow', () => (isPlacing = false));
}

/** Only a page that is looked at listens: a browser has few connections for one server. */
function listen() {
  const source = document.querySelector('[data-stream]');
  if (!source) return;
  const address = source.dataset.stream;
  // However often prices change: no more often than this is the page asked for.
  const paceMs = Number(source.dataset.pace ?? PACE_MS);
  let stream;
  let timer;
  const onNews = ({ type, data }) => {
    // The question that is due already will see this news too.
    if (timer !== undefined) return;
    // Whoever begins to listen is told what the page shows already.
    if (type === 'snapshot' && JSON.parse(data).asOf === document.querySelector('[data-as-of]')?.dataset.asOf) return;
    const dueMs = lastRefreshMs + paceMs - Date.now();
    // Not all readers at the same moment.
    timer = setTimeout(
      () => {
        timer = undefined;
        if (document.visibilityState === 'visible') void refresh();
      },
      Math.max(0, dueMs) + Math.random() * 500,
    );
  };
  const follow = () => {
    if (document.visibilityState === 'visible' && !stream) {
      stream = new EventSource(address);
      for (const name of ['snapshot', 'changes']) stream.addEventListener(name, onNews);
    } else if (document.visibilityState === 'hidden' && stream) {
      stream.close();
      stream = undefined;
    }
  };
  document.addEventListener('visibilitychange', follow);
  follow();
}

readClock(document);
tickAges(document);
followTyping();
followSearch();
listen();
setInterval(() => {
  tickAges(document);
  if (document.visibilityState === 'visible' && Date.now() - lastRefreshMs > STALE_MS) void refresh();
}, 1000);
