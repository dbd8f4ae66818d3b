import { afterEach, expect, it, vi } from 'vitest';
import { readFileSync } from 'node:fs';
import { readServiceUrl } from '../../src/commands/kit/command.js';

afterEach(() => {
  vi.unstubAllEnvs();
});

it('a command calls the service at the port of the same settings', () => {
  vi.stubEnv('PORT', '');
  expect(readServiceUrl(undefined, 'GAUGE_URL')).toBe('http://127.0.0.1:3000');
  vi.stubEnv('PORT', '4000');
  expect(readServiceUrl(undefined, 'GAUGE_URL')).toBe('http://127.0.0.1:4000');
  expect(readServiceUrl('https://gauge.example.com/', 'GAUGE_URL')).toBe('https://gauge.example.com');
});

it('values with blanks are quoted in the example of the settings, so that a shell can read it, too', () => {
  const example = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8');
  for (const [line, value] of example.matchAll(/^(?:# )?[A-Z][A-Z_]+=(.*)$/gm))
    expect(/\s/.test(value!) && !/^".*"$/.test(value!), line).toBe(false);
});
