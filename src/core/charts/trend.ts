const HEIGHT = 24;

export function toTrend(summary: string, values: readonly number[]) {
  const most = Math.max(...values, 0);
  const bars = values.map((value, i) => {
    const top = HEIGHT - Math.max(1.5, (value / most) * HEIGHT);
    return value > 0 ? `M${i}.1 ${HEIGHT}V${Number(top.toFixed(1))}h.8V${HEIGHT}` : '';
  });
  return { summary, width: values.length, bars: bars.join(''), parts: bars };
}
