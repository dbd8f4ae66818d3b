import { createServer, type AddressInfo } from 'node:net';
import { promises } from 'node:dns';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { guardedLookup, whyNoReceiver } from '../../../src/accounts/webhooks/guard.js';
import { createSender } from '../../../src/accounts/webhooks/send.js';

const production = { production: true, allowsPrivate: false };
const development = { production: false, allowsPrivate: false };
const ownNetwork = { production: true, allowsPrivate: true };

const refused = [
  'http://example.com/',
  'ftp://example.com/',
  'file:///etc/passwd',
  'https://user:password@example.com/',
  'https://example.com/#part',
  'not a url',
  'https://0.0.0.0/',
  'https://10.0.0.1/',
  'https://100.64.0.1/',
  'https://127.0.0.1/',
  'https://2130706433/',
  'https://0x7f000001/',
  'https://0177.0.0.1/',
  'https://127.1/',
  'https://169.254.169.254/latest/meta-data/',
  'https://168.63.129.16/',
  'https://192.0.0.192/',
  'https://172.16.0.1/',
  'https://192.168.1.1/',
  'https://198.18.0.1/',
  'https://224.0.0.1/',
  'https://255.255.255.255/',
  'https://[::]/',
  'https://[::1]/',
  'https://[::7f00:1]/',
  'https://[::ffff:10.0.0.1]/',
  'https://[::ffff:169.254.169.254]/',
  'https://[::ffff:168.63.129.16]/',
  'https://[64:ff9b::a00:1]/',
  'https://[64:ff9b:1::a9fe:a9fe]/',
  'https://[2002:a00:1::]/',
  'https://[2001:db8::1]/',
  'https://[fc00::1]/',
  'https://[fd00:ec2::254]/',
  'https://[fd20:ce::254]/',
  'https://[fe80::1]/',
  'https://[fec0::1]/',
  'https://[ff02::1]/',
  'https://[4000::1]/',
];

describe('a receiver URL', () => {
  it.each(refused)('%s is rejected in production', (url) => {
    expect(whyNoReceiver(url, production)).toMatch(/^must /);
  });

  it.each([
    'https://example.com/webhooks?token=1',
    'https://example.com:8443/',
    'https://8.8.8.8/',
    'https://[2606:4700::1111]/',
    'https://[::ffff:8.8.8.8]/',
    // The IP addresses behind a host name are checked only when connecting.
    'https://localhost/',
  ])('%s is accepted', (url) => {
    expect(whyNoReceiver(url, production)).toBeUndefined();
  });

  it('may point to this machine outside production, also without TLS', () => {
    for (const host of ['127.0.0.1', '[::1]', 'localhost'])
      for (const scheme of ['http', 'https']) {
        expect(whyNoReceiver(`${scheme}://${host}:8080/`, development)).toBeUndefined();
        if (scheme === 'http')
          expect(whyNoReceiver(`http://${host}:8080/`, ownNetwork)).toBe('must begin with “https://”');
      }
    expect(whyNoReceiver('http://example.com/', development)).toBe(
      'must begin with “https://” or be http://localhost',
    );
    expect(whyNoReceiver('http://10.0.0.1/', development)).toBe(
      'must begin with “https://” or be http://localhost',
    );
    expect(whyNoReceiver('https://10.0.0.1/', development)).toBe('must not be a private or reserved address');
  });

  it('may be private if that is allowed', () => {
    for (const host of [
      '10.0.0.1',
      '192.168.1.1',
      '172.16.0.1',
      '100.64.0.1',
      '[fd00::1]',
      '[fd20:cf::254]',
      '[::ffff:10.0.0.1]',
    ])
      expect(whyNoReceiver(`https://${host}/`, ownNetwork), host).toBeUndefined();
  });

  it.each([
    ['this machine', ['127.0.0.1', '[::1]', '0.0.0.0']],
    ['a link-local or multicast address', ['169.254.1.1', '[fe80::1]', '224.0.0.1']],
    [
      'metadata of a cloud',
      [
        '169.254.169.254',
        '169.254.170.2',
        '168.63.129.16',
        '[::ffff:168.63.129.16]',
        '100.100.100.200',
        '192.0.0.192',
        '[fe80::a9fe:a9fe]',
        '[fd00:ec2::254]',
        '[fd00:ec2::23]',
        '[fd20:ce::254]',
        '[fd20:ce:0::0254]',
        '[fd00:c1::a9fe:a9fe]',
        '[fd00:100::100:200]',
        '[fd00:42::42]',
        '[fd00:a9fe:a9fe::1]',
      ],
    ],
  ])('is never %s, even if private ones are allowed', (_what, hosts) => {
    for (const host of hosts)
      expect(whyNoReceiver(`https://${host}/`, ownNetwork), host).toBe(
        'must not be a private or reserved address',
      );
  });
});

describe('a receiver’s name', () => {
  afterEach(() => vi.restoreAllMocks());

  /** Sets the IP addresses that every host name resolves to from now on. */
  function resolveTo(...addresses: string[]) {
    const isSix = (address: string) => address.includes(':');
    answer('resolve4', () => Promise.resolve(addresses.filter((address) => !isSix(address))));
    answer('resolve6', () => Promise.resolve(addresses.filter(isSix)));
  }

  const answer = (method: 'resolve4' | 'resolve6', how: () => Promise<unknown>) =>
    vi.spyOn(promises.Resolver.prototype, method).mockImplementation(how as () => Promise<never>);

  const look = (isPlain: boolean, rules = production, options = {}) =>
    new Promise<unknown>((resolve) => {
      guardedLookup(isPlain, rules)('a.example', options, (error, address) =>
        resolve(error?.message ?? address),
      );
    });
  const isRefused = /private or reserved/;

  it.each([
    [['10.0.0.1']],
    [['93.184.216.34', '10.0.0.1']],
    [['2606:4700::1111', 'fe80::1']],
    [['::ffff:127.0.0.1']],
    [['::ffff:168.63.129.16']],
    [['169.254.169.254']],
    [['127.0.0.1']],
  ])('that resolves to %j is not connected to', async (addresses) => {
    resolveTo(...addresses);
    expect(await look(false)).toMatch(isRefused);
    expect(await look(false, production, { all: true })).toMatch(isRefused);
  });

  it('is connected to if all of its addresses are public', async () => {
    resolveTo('93.184.216.34', '2606:4700::1111');
    expect(await look(false)).toBe('93.184.216.34');
    expect(await look(false, production, { all: true })).toHaveLength(2);
    // Plain HTTP is allowed only to this machine.
    expect(await look(true, development)).toMatch(isRefused);
  });

  it('is checked on every connection, so a second DNS answer gains nothing', async () => {
    let connections = 0;
    const server = createServer((socket) => void (connections++, socket.destroy()));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const send = async (rules: typeof production, url = `https://receiver.example:${port}/`) => {
      const sender = createSender(rules);
      const { error } = await sender.send({ url, body: '{}', headers: {} });
      sender.close();
      return error;
    };
    const forbidden = 'The host name resolves to a private or reserved address.';
    resolveTo('127.0.0.1');
    expect(await send(development)).toBe('The connection closed before the response.');
    expect(connections).toBe(1);
    resolveTo('127.0.0.1', '10.0.0.1');
    expect(await send(development)).toBe(forbidden);
    resolveTo('127.0.0.1');
    expect(await send(production)).toBe(forbidden);
    // Even a URL that was accepted earlier is checked against the current rules.
    expect(await send(production, `https://127.0.0.1:${port}/`)).toBe(
      'The URL must not be a private or reserved address.',
    );
    expect(await send(production, `http://localhost:${port}/`)).toBe('The URL must begin with “https://”.');
    expect(connections).toBe(1);
    server.close();
  });

  it('that does not exist is distinguished from a name server that does not answer', async () => {
    const fail = (code: string) => () => Promise.reject(Object.assign(new Error(code), { code }));
    const codeOf = () =>
      new Promise<unknown>((resolve) => {
        guardedLookup(false, production)('a.example', {}, (error) =>
          resolve((error as { code?: string }).code),
        );
      });
    answer('resolve4', fail('ENOTFOUND'));
    answer('resolve6', fail('ENODATA'));
    expect(await codeOf()).toBe('ENOTFOUND');
    answer('resolve4', fail('ETIMEOUT'));
    expect(await codeOf()).toBe('EAI_AGAIN');
  });
});
