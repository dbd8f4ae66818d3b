// Copies code samples and sends example requests. The documentation can be read without JavaScript.
import { chooseWithArrows, onSearchKeys } from './arrows.js';
import { markContents } from './contents.js';
import { copyButtons } from './copy.js';
import { followLanguage } from './languages.js';

/** Maximum number of characters to show of a response. */
const MAX_SHOWN = 65_536;
/** How long to follow an endless response, in ms. */
const PATIENCE_MS = 10_000;
/** A pause in typing, in ms. */
const PAUSE_MS = 200;

copyButtons(document);
followLanguage();
markContents();
collapseOperations();
onSearchKeys(() => document.querySelector('main input[name="q"], .docs-search input').select());
searchWhileTyping();
for (const form of document.querySelectorAll('form[data-try]')) prepare(form);

/**
 * Collapses the fields and examples of requests on phones, the fields on long pages, and the examples of messages below
 * their text, except where the URL points to.
 */
function collapseOperations() {
  const narrow = matchMedia('(width < 44rem)');
  const beside = matchMedia('(width >= 72rem)');
  const parts = document.querySelectorAll('.operation-more, .message');
  const isShut = (part) => (part.matches('.message') ? !beside.matches : narrow.matches || part.matches('.folded'));
  const wanted = () => document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const collapse = () => {
    for (const part of parts) part.open = !isShut(part) || part.closest('.operation') === wanted();
  };
  collapse();
  for (const width of [narrow, beside]) width.addEventListener('change', collapse);
  addEventListener('hashchange', () => {
    for (const part of wanted()?.querySelectorAll('.operation-more, .message') ?? []) part.open = true;
  });
  if (narrow.matches) wanted()?.scrollIntoView();
}

/** Shows the results below the search field: in the page about searching, elsewhere above the page. */
function searchWhileTyping() {
  const form = document.querySelector('main .docs-search') ?? document.querySelector('.docs-search');
  const { q } = form.elements;
  const found = document.querySelector('[data-found]') ?? document.createElement('div');
  found.dataset.found = '';
  if (!found.isConnected && form.closest('main')) form.after(found);
  else if (!found.isConnected) form.append(found);
  const { choose, readChosen } = chooseWithArrows(form, () => [...found.querySelectorAll('a')]);
  form.addEventListener('submit', (event) => {
    const chosen = readChosen();
    if (!chosen?.isConnected) return;
    event.preventDefault();
    location.assign(chosen.href);
  });
  let timer;
  q.addEventListener('input', () => {
    choose();
    clearTimeout(timer);
    timer = setTimeout(() => void show(q.value.trim()), PAUSE_MS);
  });
  form.addEventListener('keydown', ({ key }) => key === 'Escape' && form.contains(found) && found.replaceChildren());
  const show = async (wanted) => {
    if (wanted === '') return found.replaceChildren();
    const response = await fetch(`${form.action}?${new URLSearchParams({ q: wanted })}`).catch(() => undefined);
    if (!response?.ok || q.value.trim() !== wanted) return;
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    if (q.value.trim() === wanted) found.replaceChildren(...page.querySelector('[data-found]').childNodes);
  };
}

function prepare(form) {
  const { example, path, headers, body } = form.elements;
  const fill = () => {
    const request = JSON.parse(example.value);
    path.value = request.path;
    headers.value = Object.entries(request.headers)
      .map((header) => header.join(': '))
      .join('\n');
    if (body) body.value = request.body && JSON.stringify(JSON.parse(request.body), null, 2);
  };
  fill();
  example.addEventListener('change', fill);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    void send(form);
  });
  form.hidden = form.parentElement.hidden = false;
  form.parentElement.addEventListener('toggle', ({ target }) => target.open && target.scrollIntoView({ block: 'nearest' }));
}

async function send(form) {
  const { path, headers, body, key } = form.elements;
  const status = form.querySelector('[data-status]');
  const answer = form.querySelector('[data-answer]');
  if (key && key.value.trim() === '') {
    status.textContent = 'Enter an API key first.';
    key.focus();
    return;
  }
  status.textContent = 'Sending…';
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), PATIENCE_MS);
  try {
    const response = await fetch(addressOf(path.value), {
      method: form.dataset.method,
      headers: headersOf(headers.value, key?.value.trim(), body?.value),
      ...(body?.value ? { body: body.value } : {}),
      // Routes that accept API keys refuse session cookies.
      credentials: 'omit',
      signal: stop.signal,
    });
    answer.textContent = await readStart(response, (text) => (answer.textContent = text));
    answer.hidden = false;
    status.textContent = `Returned ${response.status} ${response.statusText}`;
  } catch (error) {
    status.textContent = stop.signal.aborted ? 'Stopped after 10 seconds.' : String(error.message);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Resolves a path on this service.
 * @throws if the path leads to another origin
 */
function addressOf(path) {
  const url = new URL(path, location.origin);
  if (url.origin !== location.origin) throw new Error('The path must begin with a slash.');
  return url;
}

function headersOf(lines, key, body) {
  const given = lines.split('\n').filter((line) => line.includes(':'));
  const pairs = given.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]);
  if (key) pairs.push(['Authorization', `Bearer ${key}`]);
  const isTyped = pairs.some(([name]) => name.trim().toLowerCase() === 'content-type');
  if (body && !isTyped) pairs.push(['Content-Type', 'application/json']);
  return pairs;
}

async function readStart(response, show) {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (reader && text.length < MAX_SHOWN) {
    const { done, value } = await reader.read();
    if (done) return pretty(text);
    text += value;
    show(text);
  }
  await reader?.cancel();
  return `${text.slice(0, MAX_SHOWN)}…`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
