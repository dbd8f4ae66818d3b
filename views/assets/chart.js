/** Says what a bar of a chart stands for where the pointer is. The same numbers are in the chart's table. */
export function hoverCharts(root) {
  for (const chart of root.querySelectorAll('[data-chart]')) {
    const readout = chart.querySelector('[data-readout]');
    if (!readout) continue;
    const idle = readout.textContent;
    const show = (event) => {
      const bar = event.target.closest('[data-label]');
      readout.textContent = bar ? bar.dataset.label : idle;
      for (const other of chart.querySelectorAll('[data-hovered]')) if (other !== bar) delete other.dataset.hovered;
      if (bar) bar.dataset.hovered = '';
    };
    chart.addEventListener('pointermove', show);
    chart.addEventListener('pointerleave', show);
  }
}
