import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

it('each pinned image has the date of its release beside it, which CI compares with today', () => {
  const files = ['Dockerfile', 'docker-compose.yml', 'docker-compose.citus.yml', 'deploy/compose.yaml'];
  const pins = files.flatMap((file) => {
    const lines = readFileSync(file, 'utf8').split('\n');
    return lines.flatMap((line, i) =>
      /^(ARG NODE_IMAGE=|\s*image: '\$\{)/.test(line) ? [lines[i - 1]] : [],
    );
  });
  expect(pins).toHaveLength(5);
  for (const comment of pins) expect(comment).toMatch(/^\s*# Released 202\d-\d\d-\d\d\.$/);
});
