import { describe, expect, it } from 'vitest';
import {
  generateRecoveryCodes,
  hashRecoveryCode,
  RECOVERY_CODES,
} from '../../src/auth/second-factor/recovery-codes.js';
import {
  codeOf,
  encodeBase32,
  findStep,
  generateSecret,
  stepAt,
  STEP_MS,
} from '../../src/auth/second-factor/totp.js';

const rfcSecret = encodeBase32(Buffer.from('12345678901234567890'));

describe('one-time passwords', () => {
  it.each([
    [59, '287082'],
    [1111111109, '081804'],
    [1111111111, '050471'],
    [1234567890, '005924'],
    [2000000000, '279037'],
    [20000000000, '353130'],
  ])('are those of RFC 6238, appendix B, at second %d', (seconds, code) => {
    expect(codeOf(rfcSecret, stepAt(seconds * 1000))).toBe(code);
  });

  it('are those of RFC 4226, appendix D', () => {
    expect(Array.from({ length: 10 }, (_, count) => codeOf(rfcSecret, count))).toEqual([
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
    ]);
  });

  it('are found one step before and after, and no further', () => {
    const now = 1_234_567_890_000;
    const code = codeOf(rfcSecret, stepAt(now));
    for (const steps of [-1, 0, 1])
      expect(findStep(rfcSecret, code, now + steps * STEP_MS)).toBe(stepAt(now));
    for (const steps of [-2, 2]) expect(findStep(rfcSecret, code, now + steps * STEP_MS)).toBeUndefined();
  });
});

describe('a secret', () => {
  it('has 160 bits in base32 as in RFC 4648', () => {
    expect(encodeBase32(Buffer.from('fooba'))).toBe('MZXW6YTB');
    const secrets = Array.from({ length: 50 }, generateSecret);
    for (const secret of secrets) expect(secret).toMatch(/^[A-Z2-7]{32}$/);
    expect(new Set(secrets).size).toBe(50);
  });
});

describe('recovery codes', () => {
  it('are ten of 80 bits, in groups', () => {
    const codes = generateRecoveryCodes();
    expect(new Set(codes).size).toBe(RECOVERY_CODES);
    for (const code of codes) expect(code).toMatch(/^([0-9A-HJKMNP-TV-Z]{4}-){3}[0-9A-HJKMNP-TV-Z]{4}$/);
  });

  it('are known however they are typed', () => {
    const hash = hashRecoveryCode('01AB-CDEF-GHJK-MNPQ');
    expect(hash).toMatch(/^[\da-f]{64}$/);
    for (const typed of [
      '01abcdefghjkmnpq',
      ' 01ab cdef ghjk mnpq ',
      'OIab-cdef–ghjk—mnpq',
      'olAB-CDEF-GHJK-MNPQ',
    ])
      expect(hashRecoveryCode(typed)).toBe(hash);
  });

  it.each(['', '123456', '01AB-CDEF-GHJK-MNP', '01AB-CDEF-GHJK-MNPU', '<script>alert</sc', '😀'.repeat(16)])(
    'are not what %j could be',
    (typed) => {
      expect(hashRecoveryCode(typed)).toBeUndefined();
    },
  );
});
