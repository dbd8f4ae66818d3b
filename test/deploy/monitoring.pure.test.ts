import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { createMetrics } from '../../src/core/metrics.js';
import { oneShardGroup } from '../../src/core/db/shards.js';
import { watchPools, watchShards } from '../../src/health/database.js';
import { products } from '../../src/products.js';

const read = (path: string) => readFileSync(new URL(`../../deploy/${path}`, import.meta.url), 'utf8');

interface Dashboard {
  panels: { title: string; type: string; targets?: { expr: string }[] }[];
}
interface Rules {
  groups: { rules: { alert: string; expr: string; annotations: { summary?: string } }[] }[];
}
const { panels } = JSON.parse(read('grafana/gauge.json')) as Dashboard;
const alerts = (parse(read('prometheus/rules.yml')) as Rules).groups.flatMap(({ rules }) => rules);
const queries = [
  ...panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr }))),
  ...alerts.map(({ alert, expr }) => ({ title: alert, expr })),
];

/** Returns each exported metric's labels, including those that Prometheus adds. */
function readExported(): Map<string, Set<string>> {
  const metrics = createMetrics(products.map((product) => product.createMetrics));
  watchShards(oneShardGroup({} as never), metrics);
  watchPools({} as never, metrics);
  const exported = new Map<string, Set<string>>();
  for (const metric of metrics.registry.getMetricsAsArray()) {
    const {
      name,
      type,
      labelNames = [],
    } = metric as unknown as { name: string; type: string; labelNames?: string[] };
    const suffixes = type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
    for (const suffix of suffixes) exported.set(name + suffix, new Set([...labelNames, 'instance', 'le']));
  }
  return exported;
}
const exported = readExported();

it.each(queries)('$title queries only metrics and labels that the service exports', ({ expr }) => {
  const selectors = [...expr.matchAll(/\b((?:gauge|nodejs|process)_\w+)(?:\{([^}]*)\})?/g)];
  // Prometheus itself makes `up`.
  if (!/\bup\{/.test(expr)) expect(selectors).not.toHaveLength(0);
  for (const [, name, labels = ''] of selectors) {
    expect([...exported.keys()]).toContain(name);
    for (const [, label] of labels.matchAll(/(\w+)=~?"/g)) expect([...exported.get(name!)!]).toContain(label);
    for (const [, list] of expr.matchAll(/by \(([^)]*)\)/g))
      for (const label of list!.split(', ')) expect([...exported.get(name!)!]).toContain(label);
  }
});

it('each panel has a title, a position and a query, and each alert a summary', () => {
  for (const { title, type, targets } of panels)
    expect([title, type === 'row' || targets!.length > 0]).toEqual([title, true]);
  expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
  for (const { annotations } of alerts) expect(annotations.summary).toMatch(/\.$/);
});
