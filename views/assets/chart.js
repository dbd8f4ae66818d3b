/** Shows the values of the bar under the pointer beside it. The table below the chart contains the same numbers. */
export function hoverCharts() {
  const tip = document.createElement('p');
  tip.className = 'chart-tip';
  tip.ariaHidden = 'true';
  document.addEventListener('pointermove', ({ target, clientX, clientY }) => {
    const bar = target.closest('[data-chart] [data-label]');
    for (const other of document.querySelectorAll('[data-hovered]')) if (other !== bar) delete other.dataset.hovered;
    if (!bar) {
      tip.remove();
      return;
    }
    bar.dataset.hovered = '';
    if (!tip.isConnected) document.body.append(tip);
    if (tip.textContent !== bar.dataset.label) tip.textContent = bar.dataset.label;
    tip.style.left = `${Math.max(8, Math.min(clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${clientY + 16}px`;
  });
}
