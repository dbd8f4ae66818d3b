import { expect, it } from 'vitest';
import { createGaugeClient } from '../../src/client/client.js';
import { readServiceUrl } from '../../src/commands/kit/command.js';

const apiKey = 'org_live_x';

it.each([
  'http://gauge.example.com',
  'http://10.0.0.7:3000',
  'http://localhost.example.com',
  'http://127.0.0.1.nip.io',
])('no key is sent to %s unless it is allowed', (baseUrl) => {
  expect(() => createGaugeClient({ baseUrl, apiKey })).toThrow('baseUrl must be https');
  expect(() => createGaugeClient({ baseUrl, apiKey, allowHttp: true })).not.toThrow();
  expect(() => readServiceUrl(baseUrl, 'GAUGE_URL')).toThrow('GAUGE_URL must be https');
  expect(readServiceUrl(baseUrl, 'GAUGE_URL', 'yes')).toBe(baseUrl);
});

it.each([
  'https://gauge.example.com',
  'http://localhost:3000',
  'http://127.0.0.1:1',
  'http://127.9.9.9',
  'http://[::1]:3000',
])('keys may be sent to %s', (baseUrl) => {
  expect(() => createGaugeClient({ baseUrl, apiKey })).not.toThrow();
  expect(readServiceUrl(baseUrl, 'GAUGE_URL')).toBe(baseUrl);
});
