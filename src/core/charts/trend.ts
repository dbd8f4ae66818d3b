const HEIGHT = 24;

export function toTrend(summary: string, values: readonly number[]) {
  const most = Math.max(...values, 0);
  const bars = values.map((value, i) => {
    const height = value > 0 ? Math.max(1.5, (value / most) * HEIGHT) : 0;
    return { x: i + 0.1, y: Number((HEIGHT - height).toFixed(2)), height: Number(height.toFixed(2)) };
  });
  return { summary, width: values.length, bars };
}
