import { refreshMain } from './live.js';

/**
 * Shows the values of the bar under the pointer beside it; the table below the chart contains the same numbers. Dragging
 * over bars that link to days chooses the days between, for which the page has fields as well.
 */
export function hoverCharts() {
  const tip = Object.assign(document.createElement('p'), { className: 'chart-tip', ariaHidden: 'true' });
  let first;
  const clear = () => {
    tip.remove();
    for (const bar of document.querySelectorAll('[data-hovered]')) delete bar.dataset.hovered;
  };
  document.addEventListener('pointermove', ({ target, clientX, clientY }) => {
    const bar = barAt(target);
    const marked = barsBetween(first ?? bar, bar);
    for (const other of document.querySelectorAll('[data-hovered]')) if (!marked.includes(other)) delete other.dataset.hovered;
    if (!bar) {
      tip.remove();
      return;
    }
    for (const one of marked) one.dataset.hovered = '';
    if (!tip.isConnected) document.body.append(tip);
    const text = marked.length > 1 ? nameDays(marked) : bar.dataset.label;
    if (tip.textContent !== text) tip.textContent = text;
    tip.style.left = `${Math.max(8, Math.min(clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
    const above = clientY - tip.offsetHeight - 12;
    tip.style.top = `${above < 8 ? clientY + 16 : above}px`;
  });
  document.addEventListener('pointerdown', ({ target, pointerType, button }) => {
    const bar = pointerType === 'mouse' && button === 0 ? barAt(target) : undefined;
    first = bar && addressOf(bar)?.searchParams.get('range') === 'day' ? bar : undefined;
  });
  // Otherwise the browser would drag the link.
  document.addEventListener('dragstart', (event) => first && event.preventDefault());
  document.addEventListener('pointerup', ({ target }) => {
    const marked = barsBetween(first, barAt(target));
    const address = first && addressOf(first);
    first = undefined;
    if (marked.length < 2) return;
    document.activeElement?.blur();
    const [from, to] = endsOf(marked);
    address.searchParams.delete('date');
    for (const [name, value] of Object.entries({ range: 'custom', from, to })) address.searchParams.set(name, value);
    refreshMain(address.href, 'pushState').catch(() => location.assign(address));
  });
  // The pointer may have moved over the bars that are replaced.
  document.addEventListener('shown', clear);
}

const barAt = (target) => target.closest('[data-chart] [data-label]');

/** In a chart, from left to right. */
function barsBetween(one, other) {
  if (!one || !other) return [];
  const bars = [...one.closest('[data-chart]').querySelectorAll('[data-label]')];
  const [from, to] = [bars.indexOf(one), bars.indexOf(other)].toSorted((a, b) => a - b);
  return from < 0 ? [] : bars.slice(from, to + 1);
}

const endsOf = (bars) => [bars[0], bars.at(-1)].map((bar) => addressOf(bar).searchParams.get('date'));

const shortDay = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', day: 'numeric', month: 'short' });

/** `10–16 Nov`. */
const nameDays = (bars) => shortDay.formatRange(...endsOf(bars).map((day) => new Date(day)));

function addressOf(bar) {
  const link = bar.closest('a');
  const address = link && new URL(link.href.baseVal, location.href);
  return address?.searchParams.has('hour') ? undefined : address;
}
