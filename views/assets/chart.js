/** Shows the values of the bar under the pointer. The table below the chart contains the same numbers. */
export function hoverCharts() {
  document.addEventListener('pointerover', ({ target }) => {
    const bar = target.closest('[data-chart] [data-label]');
    for (const other of document.querySelectorAll('[data-hovered]')) if (other !== bar) delete other.dataset.hovered;
    if (bar) bar.dataset.hovered = '';
    const chart = bar?.closest('[data-chart]');
    for (const readout of document.querySelectorAll('[data-chart] [data-readout]')) {
      readout.dataset.idle ??= readout.textContent;
      readout.textContent = chart?.contains(readout) ? bar.dataset.label : readout.dataset.idle;
    }
  });
}
