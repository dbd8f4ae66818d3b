import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  generateRecoveryCodes,
  hashRecoveryCode,
  RECOVERY_CODES,
} from '../../../../src/accounts/identity/second-factor/codes.js';
import { findStep, generateSecret, STEP_MS } from '../../../../src/accounts/identity/second-factor/totp.js';
import { cpuMsOf } from '../../../support/cpu.js';

/** `12345678901234567890` in base32. */
const rfcSecret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';

describe('one-time passwords', () => {
  it.each([
    [59, '287082'],
    [1111111109, '081804'],
    [1111111111, '050471'],
    [1234567890, '005924'],
    [2000000000, '279037'],
    [20000000000, '353130'],
  ])('match RFC 6238, appendix B, at second %d', (seconds, code) => {
    expect(findStep(rfcSecret, code, seconds * 1000)).toBe(Math.floor(seconds / 30));
  });

  it('match RFC 4226, appendix D', () => {
    const codes = [
      '755224',
      '287082',
      '359152',
      '969429',
      '338314',
      '254676',
      '287922',
      '162583',
      '399871',
      '520489',
    ];
    expect(codes.map((code, count) => findStep(rfcSecret, code, count * STEP_MS))).toEqual([...codes.keys()]);
  });

  it('are accepted one step early or late, but no more', () => {
    const now = 1_234_567_890_000;
    const [step, code] = [41_152_263, '005924'];
    for (const steps of [-1, 0, 1]) expect(findStep(rfcSecret, code, now + steps * STEP_MS)).toBe(step);
    for (const steps of [-2, 2]) expect(findStep(rfcSecret, code, now + steps * STEP_MS)).toBeUndefined();
  });
});

describe('a new secret', () => {
  it('has 160 bits in base32 (RFC 4648)', () => {
    const secrets = Array.from({ length: 50 }, generateSecret);
    for (const secret of secrets) expect(secret).toMatch(/^[A-Z2-7]{32}$/);
    expect(new Set(secrets).size).toBe(50);
  });
});

describe('recovery codes', () => {
  it('come in tens, with 140 bits each, in groups', () => {
    const codes = generateRecoveryCodes();
    expect(new Set(codes).size).toBe(RECOVERY_CODES);
    for (const code of codes) expect(code).toMatch(/^([0-9A-HJKMNP-TV-Z]{4}-){6}[0-9A-HJKMNP-TV-Z]{4}$/);
  });

  const code = '01AB-CDEF-GHJK-MNPQ-RSTV-WXYZ-0123';
  const hash = (typed: string, userId = 'ada') => hashRecoveryCode(userId, typed);

  it('are recognized however they are typed', async () => {
    const hashed = await hash(code);
    expect(hashed).toMatch(/^argon2id:[\da-f]{64}$/);
    for (const typed of [
      '01abcdefghjkmnpqrstvwxyz0123',
      ' 01ab cdef ghjk mnpq rstv wxyz 0123 ',
      'OIab-cdef–ghjk—mnpq-rstv-wxyz-O123',
      'olAB-CDEF-GHJK-MNPQ-RSTV-WXYZ-0123',
    ])
      expect(await hash(typed)).toBe(hashed);
  });

  it('are hashed with a salt per person', async () => {
    expect(await hash(code, 'ben')).not.toBe(await hash(code));
  });

  it('are hashed as slowly as passwords; those of earlier versions still work', async () => {
    const earlier = '01AB-CDEF-GHJK-MNPQ';
    expect(await hash(earlier)).toBe(createHash('sha256').update('01ABCDEFGHJKMNPQ').digest('hex'));
    await hash(code);
    expect(await cpuMsOf(() => hash(code))).toBeGreaterThan(20 * (await cpuMsOf(() => hash(earlier))));
  });

  it.each([
    '',
    '123456',
    '01AB-CDEF-GHJK-MNP',
    '01AB-CDEF-GHJK-MNPU',
    `${code}4`,
    '<script>alert</sc',
    '😀'.repeat(16),
  ])('cannot look like %j', async (typed) => {
    expect(await hash(typed)).toBeUndefined();
  });
});
