import { describe, expect, it } from 'vitest';
import { describeBrowser } from '../../../../src/accounts/identity/account/pages.js';
import { describeAddress } from '../../../../src/accounts/identity/source.js';
import { passwordProblem } from '../../../../src/accounts/identity/password.js';
import { toQrCode } from '../../../../src/accounts/identity/account/second-factor-pages.js';
import { toKeyUri } from '../../../../src/accounts/identity/account/second-factor.js';
import { cpuMsOf } from '../../../support/cpu.js';

describe('a new password', () => {
  it.each([
    ['the address itself', 'ada@example.com'],
    ['the address in capitals', 'Ada@Example.com'],
    ['the name from the address and digits', 'ada1234567890'],
    ['a common one', 'PasswordPassword'],
    ['one letter', 'aaaaaaaaaaaa'],
    ['a few letters over and over', 'abcdabcdabcd'],
    ['digits in order', '123456789012'],
    ['letters in order', 'abcdefghijklm'],
    ['letters backwards', 'zyxwvutsrqpo'],
    ['a common one with the usual substitutions', 'P@ssw0rd1234!'],
    ['a common one and a year', 'Liverpool2024'],
    ['a keyboard walk', 'qwertyuiop12'],
    ['a famous example', 'CorrectHorseBatteryStaple'],
    ['a long run of one pattern', '1q2w3e4r'.repeat(100)],
  ])('is weak if it is %s', async (_name, password) => {
    expect(await passwordProblem(password, 'ada@example.com')).toEqual(expect.any(String));
  });

  it('is judged about as fast as any other, whatever its length and content', async () => {
    const judge = (password: string) => cpuMsOf(() => passwordProblem(password, 'ada@example.com'));
    const ordinaryMs = await judge('Wörter ohne Sinn und Verstand hier');
    for (const hostile of ['p4ssw0rd', '4@8({[<69!|1|!7$5+7%2', '01/01/1999', 'lol1l0!|1l', 'asdfasdg']) {
      const password = hostile.repeat(130).slice(0, 1024);
      expect(await judge(password), hostile).toBeLessThan(50 * ordinaryMs);
    }
  });

  it.each(['correct horse battery staple', 'k8#Vz!q2Lm0p', 'Wörter ohne Sinn', '😀🎉🚀🌍🍕🎲🎻🧭🪁🧊🦊🐙'])(
    'is acceptable if it is like %s',
    async (password) => {
      expect(await passwordProblem(password, 'ada@example.com')).toBeUndefined();
    },
  );
});

describe('a session’s browser', () => {
  it.each([
    [
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36',
      'Chrome on Linux',
    ],
    [
      'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
      'Safari on iOS',
    ],
    [
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0',
      'Firefox on Windows',
    ],
    ['curl/8.5.0', 'curl'],
    ['', 'Unknown browser'],
    ['/', 'Unknown browser'],
  ])('is recognized from %j', (userAgent, name) => {
    expect(describeBrowser(userAgent)).toBe(name);
  });

  it('with a hostile user agent is cut short quickly', async () => {
    const spentMs = await cpuMsOf(() => {
      for (const name of ['('.repeat(255), 'a'.repeat(255), 'Version/'.repeat(31), '1.'.repeat(127)])
        expect(describeBrowser(name).length).toBeLessThan(80);
    });
    expect(spentMs).toBeLessThan(200);
  });

  it('has its address shown without IPv6 wrapping', () => {
    expect(describeAddress('::ffff:192.0.2.1')).toBe('192.0.2.1');
    expect(describeAddress('2001:db8::1')).toBe('2001:db8::1');
    expect(describeAddress('')).toBe('unknown');
  });
});

describe('the QR code', () => {
  it('contains account and issuer, whatever the address', () => {
    const uri = new URL(toKeyUri('a+b&secret=x@example.com', 'ABCD'));
    expect(uri.protocol).toBe('otpauth:');
    expect(decodeURIComponent(uri.pathname)).toContain('Gauge:a+b&secret=x@example.com');
    expect(Object.fromEntries(uri.searchParams)).toEqual({
      secret: 'ABCD',
      issuer: 'Gauge',
      algorithm: 'SHA1',
      digits: '6',
      period: '30',
    });
  });

  it('draws each module and the quiet zone that scanners need', () => {
    const { size, path } = toQrCode('otpauth://totp/Gauge:a?secret=ABCD');
    const dark = new Set<string>();
    for (const [, x, y, length] of path.matchAll(/M(\d+) (\d+)h(\d+)v1h-\d+z/g))
      for (let i = 0; i < Number(length); i++) dark.add(`${Number(x) + i},${y}`);
    // The QR finder pattern in the corner: a 7 by 7 ring around a 3 by 3 block.
    const row = (y: number) =>
      Array.from({ length: 9 }, (_, x) => (dark.has(`${x + 3},${y + 4}`) ? '#' : '.')).join('');
    expect([0, 1, 2, 3, 4, 5, 6].map(row)).toEqual([
      '.#######.',
      '.#.....#.',
      '.#.###.#.',
      '.#.###.#.',
      '.#.###.#.',
      '.#.....#.',
      '.#######.',
    ]);
    for (const place of dark) {
      const [x, y] = place.split(',').map(Number);
      expect(Math.min(x!, y!)).toBeGreaterThanOrEqual(4);
      expect(Math.max(x!, y!)).toBeLessThan(size - 4);
    }
  });
});
