import { readFileSync, readdirSync } from 'node:fs';
const dir = process.argv[2];
const file =
  dir +
  '/' +
  readdirSync(dir)
    .filter((f) => f.endsWith('.cpuprofile'))
    .pop();
const p = JSON.parse(readFileSync(file));
const self = new Map();
const byId = new Map(p.nodes.map((n) => [n.id, n]));
let total = 0;
for (let i = 0; i < p.samples.length; i++) {
  const n = byId.get(p.samples[i]);
  const d = p.timeDeltas[i];
  const f = n.callFrame;
  if (f.functionName === '(idle)' || f.functionName === '(program)') {
    if (f.functionName === '(idle)') continue;
  }
  total += d;
  const k =
    f.functionName +
    ' ' +
    f.url.replace(/.*node_modules\//, '').replace(/.*dist\//, 'dist/') +
    ':' +
    f.lineNumber;
  self.set(k, (self.get(k) ?? 0) + d);
}
console.log('busy s', total / 1e6);
for (const [k, v] of [...self].sort((a, b) => b[1] - a[1]).slice(0, Number(process.argv[3] ?? 45)))
  console.log(((100 * v) / total).toFixed(1) + '%', k);
