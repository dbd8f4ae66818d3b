// Keeps prices up to date: fetches the parts of the page again when the stream announces new prices or, without the
// stream, at intervals.
import { refreshParts } from './live.js';

const STALE_MS = 35_000;
const DEBOUNCE_MS = 250;
const PACE_MS = 1_000;

/** How far this computer's clock is ahead of the server's. */
let aheadMs = 0;
let lastRefreshMs = Date.now();
/** The reader is typing, or an order is being placed. */
let isTyping = false;
const isBusy = () => isTyping || document.querySelector('[data-place][aria-busy="true"]') !== null;

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

/** Announces the page's `data-news` to screen readers if it has changed. */
function announceNews(before) {
  const news = document.querySelector('[data-news]')?.dataset.news;
  const out = document.querySelector('[data-news-out]');
  if (out && news !== undefined && before !== undefined && news !== before) out.textContent = news;
}

/**
 * Like `refreshParts`, but returns false if the request fails. Does nothing while the ticket is edited or submitted,
 * because it must not be replaced.
 */
async function refresh(address) {
  if (isBusy()) return false;
  lastRefreshMs = Date.now();
  const before = document.querySelector('[data-news]')?.dataset.news;
  const prepare = (fresh) => {
    if (isBusy()) return false;
    readClock(fresh);
    tickAges(fresh);
    if (address === undefined) holdTicket(fresh);
    followPrice(fresh);
    for (const { attributes } of fresh.querySelectorAll('#ticket [value=nothing]')) attributes.value.value = '';
    return true;
  };
  const isFresh = await refreshParts({ address, prepare }).catch(() => false);
  if (isFresh) announceNews(before);
  return isFresh;
}

/** Updates the list and the URL while the reader types a search. */
function followSearch() {
  let timer;
  const show = async (form) => {
    const fields = [...new FormData(form)].filter(([, value]) => value !== '');
    const address = `${form.getAttribute('action')}?${new URLSearchParams(fields)}`;
    history.replaceState(null, '', address);
    await refresh(address);
  };
  document.addEventListener('input', ({ target }) => {
    if (target.form?.id !== 'search') return;
    const words = target.value.toLowerCase().split(/\s+/);
    // The answer also finds stations and hidden cities.
    for (const item of document.querySelectorAll('.opportunities li'))
      item.hidden = !words.every((word) => item.textContent.toLowerCase().includes(word));
    for (const fold of document.querySelectorAll('.opportunities details'))
      fold.open ||= target.value !== '' && fold.querySelector('li:not([hidden])') !== null;
    clearTimeout(timer);
    timer = setTimeout(show, DEBOUNCE_MS, target.form);
  });
  // Enter opens the first match.
  document.addEventListener('submit', async (event) => {
    if (event.target.id !== 'search') return;
    event.preventDefault();
    clearTimeout(timer);
    await show(event.target);
    if (event.target.elements.q.value === '') return;
    const first = [...document.querySelectorAll('.opportunities a')].find((link) => link.checkVisibility());
    first?.focus();
    first?.click();
  });
}

const limitOf = (root) => root.querySelector('form#ticket [name=limitPrice][data-follows]');

/** A limit that has the focus follows the price too, until the reader changes it. */
function followPrice(fresh) {
  const [limit, next] = [limitOf(document), limitOf(fresh)];
  if (limit && next) limit.value = next.value;
}

/** An order whose market or size would change by itself stays while the pointer or the focus is in its ticket. */
function holdTicket(fresh) {
  const [now, next] = [document, fresh].map((page) => page.querySelector('form#ticket'));
  const isSame = now && next && ['side', 'contracts'].every((name) => now.elements[name].value === next.elements[name].value);
  if (isSame && now.getAttribute('action') === next.getAttribute('action')) return;
  if (document.querySelector('.desk-ticket:is(:hover, :focus-within)')) fresh.querySelector('.desk-ticket')?.remove();
}

/** The stake's slider and its number show the same. */
function followSlider() {
  document.addEventListener('input', ({ target }) => {
    const slider = document.querySelector('[data-sets]');
    const field = slider && document.getElementById(slider.dataset.sets);
    if (target === slider) field.value = slider.value;
    else if (target === field) slider.value = field.value;
  });
}

/** Updates the quote while the reader edits the ticket. */
function followTyping() {
  // Omits a limit that the reader has not changed, so that the server chooses it.
  document.addEventListener('formdata', ({ target, formData }) => {
    if (target.id !== 'ticket') return;
    if (limitOf(document)) formData.delete('limitPrice');
    if ('suggested' in target.elements.contracts.dataset) formData.set('size', 'suggested');
    // A number field has no value for letters, and the server would fill in an empty one. It refuses both in its words.
    for (const { name, validity } of target.elements)
      if (validity.badInput || validity.valueMissing) formData.set(name, 'nothing');
  });
  let timer;
  const setBusy = (isChanged) => {
    for (const button of document.querySelectorAll('[data-place] button')) button.disabled = isChanged;
    document.getElementById('review')?.toggleAttribute('data-busy', isChanged);
  };
  // The shown ticket is another one.
  document.addEventListener('shown', () => {
    clearTimeout(timer);
    isTyping = false;
  });
  const quote = async (form) => {
    isTyping = false;
    const [page] = form.getAttribute('action').split('#');
    const address = `${page}?${new URLSearchParams(new FormData(form))}`;
    history.replaceState(null, '', address);
    if (!(await refresh(address))) return;
    setBusy(false);
    document.querySelector('[data-news-out]').textContent = form.querySelector('.error')?.textContent ?? '';
  };
  const follow = ({ target, type }) => {
    const { form } = target;
    // An empty field is checked once the reader leaves it.
    if (form?.id !== 'ticket' || (type === 'change' && !target.validity.valueMissing)) return;
    clearTimeout(timer);
    if (target.name === 'limitPrice') {
      delete target.dataset.follows;
      target.required = true;
    }
    isTyping = true;
    if (target.name === 'contracts' || target.dataset.sets) keepContracts(form.elements);
    // The displayed quote no longer matches the form.
    setBusy(true);
    if (type === 'input' && target.validity.valueMissing && !target.validity.badInput) return;
    timer = setTimeout(quote, DEBOUNCE_MS, form);
  };
  for (const type of ['input', 'change']) document.addEventListener(type, follow);
  // Enter shows the quote at once, and a second Enter places the order.
  document.addEventListener('submit', async (event) => {
    const form = event.target;
    if (form.id !== 'ticket') return;
    event.preventDefault();
    clearTimeout(timer);
    await quote(form);
    if (form.querySelector('.error')) return;
    (document.querySelector('[data-place] button') ?? document.getElementById('review-title')).focus();
  });
  // Typing replaces a number that has just received the focus, also by a click, which puts the caret after the focus.
  document.addEventListener('focusin', ({ target }) => {
    if (!target.matches('#ticket [type=number]')) return;
    target.select();
    target.addEventListener('click', () => target.select(), { once: true });
  });
}

/** Other purchases open with the typed number, also before the quote has followed. */
function keepContracts({ action, contracts }) {
  delete contracts.dataset.suggested;
  if (action.value !== 'buy') return;
  for (const link of document.querySelectorAll(':is(#ticket-tabs, .ladder) a[href*="action=buy"]')) {
    const { pathname, searchParams } = new URL(link.href);
    searchParams.set('contracts', contracts.value);
    link.setAttribute('href', `${pathname}?${searchParams}`);
  }
}

/** Listens to the stream only while the page is visible, because browsers allow few connections per server. */
function listen() {
  let stream;
  let address;
  let timer;
  const onNews = ({ type, data }) => {
    // The pending refresh covers this change too.
    if (timer !== undefined) return;
    // Ignores the first message if it only repeats what the page already shows.
    if (type === 'snapshot' && JSON.parse(data).asOf === document.querySelector('[data-as-of]')?.dataset.asOf) return;
    // Minimum time between two fetches of the page, however often prices change.
    const paceMs = Number(document.querySelector('[data-stream]')?.dataset.pace ?? PACE_MS);
    const dueMs = lastRefreshMs + paceMs - Date.now();
    // A random delay spreads out the requests of all readers.
    timer = setTimeout(
      () => {
        timer = undefined;
        if (document.visibilityState === 'visible') void refresh();
      },
      Math.max(0, dueMs) + Math.random() * 500,
    );
  };
  const follow = () => {
    const wanted = document.visibilityState === 'visible' ? document.querySelector('[data-stream]')?.dataset.stream : undefined;
    if (wanted === address) return;
    stream?.close();
    address = wanted;
    stream = wanted && new EventSource(wanted);
    for (const name of ['snapshot', 'changes']) stream?.addEventListener(name, onNews);
  };
  document.addEventListener('visibilitychange', follow);
  document.addEventListener('shown', follow);
  follow();
}

function tick() {
  readClock(document);
  tickAges(document);
}

/** The list and the days scroll to the chosen market, and a switch whose chart is gone goes back to the first chart. */
function showChosen() {
  const list = document.querySelector('.opportunities');
  const { offsetTop = 0, offsetHeight = 0 } = list?.querySelector('[aria-current]') ?? {};
  if (list && offsetTop + offsetHeight > list.scrollTop + list.clientHeight) {
    // The first row is whole.
    const rows = [...list.querySelectorAll('h3, a')].map((row) => row.offsetTop);
    list.scrollTop = rows.find((top) => top > offsetTop - list.clientHeight / 2);
  }
  const [days, day] = ['.event-choices', '.event-choices nav:last-child [aria-current]'].map((part) => document.querySelector(part));
  if (day) days.scrollLeft += Math.max(0, day.getBoundingClientRect().right - days.getBoundingClientRect().right);
  const views = [...document.querySelectorAll('[name=view]')];
  if (views[0] && !views.some(({ checked }) => checked)) views[0].checked = true;
}

tick();
showChosen();
document.addEventListener('shown', ({ detail }) => {
  tick();
  showChosen();
  lastRefreshMs = Date.now();
  document.querySelector('[data-news-out]').textContent = document.querySelector('#ticket-head h2')?.textContent ?? '';
  const market = document.querySelector('.desk-market');
  // The browser itself scrolls to a part of the page, and on the way back.
  if (detail === 'pushState' && market?.getBoundingClientRect().top < 0) market.scrollIntoView();
});
followSlider();
followTyping();
followSearch();
listen();
setInterval(() => {
  tickAges(document);
  if (document.visibilityState === 'visible' && Date.now() - lastRefreshMs > STALE_MS) void refresh();
}, 1000);
