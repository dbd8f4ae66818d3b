import { describe, expect, it } from 'vitest';
import { type TestService } from '../../../support/service.js';
import { operatorToken } from '../../../support/operator.js';
import { useService } from '../../../support/use.js';

const { startAnother: start } = useService();

const call = (service: TestService, headers: Record<string, string> = {}, path = '/operator/products') =>
  fetch(service.url + path, { headers });

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

describe('the operator token', () => {
  it('admits its bearer, and the response must not be cached', async () => {
    const response = await call(await start(), bearer(operatorToken));
    expect(response.status).toBe(200);
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(response.headers.get('ratelimit')).toBeNull();
  });

  it('is rejected if it is wrong, partial or sent with another scheme', async () => {
    const service = await start();
    const wrong = [
      `Bearer ${operatorToken}x`,
      `Bearer ${operatorToken.slice(0, -1)}`,
      `Bearer ${operatorToken.toUpperCase()}`,
      `Basic ${operatorToken}`,
      operatorToken,
      'Bearer',
      'Bearer \u00ff',
      `Bearer ${'x'.repeat(5000)}`,
    ];
    for (const authorization of wrong) {
      const response = await call(service, { authorization });
      expect(response.status, authorization).toBe(401);
      expect(response.headers.get('www-authenticate')).toBe('Bearer');
      expect(await response.json()).toMatchObject({ code: 'invalid_key' });
    }
  });

  it('accepts the scheme in any case', async () => {
    const response = await call(await start(), { authorization: `bearer ${operatorToken}` });
    expect(response.status).toBe(200);
  });

  it('makes the address return 404 if it is unset', async () => {
    const service = await start({ env: { OPERATOR_TOKEN: '' } });
    for (const headers of [{}, bearer(operatorToken), bearer('undefined'), { authorization: 'Bearer ' }]) {
      const response = await call(service, headers);
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({
        code: 'not_found',
        detail: expect.stringContaining('OPERATOR_TOKEN') as unknown,
      });
    }
  });

  it('gets 404 for an unknown route', async () => {
    const response = await call(await start(), bearer(operatorToken), '/operator/nothing-here');
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ code: 'not_found' });
  });
});

describe('rejected tokens', () => {
  it('are limited to 30 a minute; then the address is refused whatever it sends', async () => {
    const service = await start({ env: { TRUST_PROXY: '1' } });
    const from = (address: string) => ({ 'x-forwarded-for': address });
    for (let i = 0; i < 30; i++) {
      const response = await call(service, { ...bearer('wrong'), ...from('192.0.2.1') });
      expect(response.status).toBe(401);
    }
    for (const headers of [bearer('wrong'), bearer(operatorToken), {}]) {
      const response = await call(service, { ...headers, ...from('192.0.2.1') });
      expect(response.status).toBe(429);
      const retryAfter = Number(response.headers.get('retry-after'));
      expect(retryAfter).toBeGreaterThan(0);
      expect(retryAfter).toBeLessThanOrEqual(60);
      expect(response.headers.get('ratelimit')).toContain('r=0');
      expect(await response.json()).toMatchObject({ code: 'rate_limited' });
    }
    const other = await call(service, { ...bearer(operatorToken), ...from('192.0.2.2') });
    expect(other.status).toBe(200);
  });

  it('are counted for a whole IPv6 subscriber', async () => {
    const service = await start({ env: { TRUST_PROXY: '1' } });
    const from = (i: number) => ({ 'x-forwarded-for': `2001:db8::${i.toString(16)}` });
    for (let i = 1; i <= 30; i++) await call(service, { ...bearer('wrong'), ...from(i) });
    expect((await call(service, { ...bearer('wrong'), ...from(99) })).status).toBe(429);
  });

  it('do not include a good token whose calls fail, even many at once', async () => {
    const service = await start();
    const path = '/operator/products/no-such-product';
    const calls = Array.from({ length: 60 }, () => call(service, bearer(operatorToken), path));
    const statuses = (await Promise.all(calls)).map((response) => response.status);
    expect(new Set(statuses)).toEqual(new Set([404]));
  });
});
