import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { Ajv } from 'ajv';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import {
  runApplyCommand,
  runExportCommand,
  type DeclareTerminal,
} from '../../../src/metering/commands/declare/command.js';
import { parseFile } from '../../../src/metering/commands/declare/file.js';
import { operatorClient, operatorToken } from '../../support/operator.js';
import { useService } from '../../support/use.js';

const nowhere = 'http://127.0.0.1:1';

async function run(
  command: (terminal: DeclareTerminal) => Promise<number>,
  args: string[],
  { input = '', url = nowhere, token = operatorToken }: { input?: string; url?: string; token?: string } = {},
) {
  let [stdout, stderr] = ['', ''];
  const code = await command({
    args,
    env: { GAUGE_URL: url, OPERATOR_TOKEN: token },
    stdin: Readable.from([Buffer.from(input)]),
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
  });
  return { code, stdout, stderr };
}

const slackUrl = 'https://hooks.slack.example/services/T0ACME/B0USAGE/x4bXyZ';
const maskedUrl = 'https://hooks.slack.example/…bXyZ';
const digits = '12345678901234567890.123456789';

const file = `
products:
  api-calls:
    name: API calls
    usageMetric: calls
    unitCap: ${digits}
    dimensions: [model]
    countsSubjects: true
    features: { seats: 5, code: "5", sso: true, regions: [eu, "1"] }
    credits:
      price: 0.000000000001
      by: { dimension: model, prices: { small: 0.50, large: 12345678901.123456789012 } }
      enforcement: block
  storage:
    name: Storage
    usageMetric: bytes
    maxQuantity: 1e6
    stripeMeterEvent: storage bytes
    countsSubjects: true
organizations:
  acme:
    name: "Acme: \\"the\\" customer"
    marketAccess: read
    mayCorrect: true
    stripeCustomerId: cus_acme
    creditThresholds: [5, 50]
    entitlements:
      api-calls:
        kind: live
        startsAt: 2026-01-05T10:00:00+01:00
        unitCap: null
        limits: &limits
          - { quantity: 100.50, window: PT5H, enforcement: block }
          - { quantity: 500, window: calendar_week, per: subject }
        thresholds: [100, 75]
      storage: { kind: read_only, limits: *limits, features: { seats: null, ratio: 0.5 } }
    webhooks:
      - { url: 'https://hooks.acme.example/usage', types: [api_key.revoked, api_key.created], livemode: true }
      - { url: 'https://hooks.acme.example/usage', types: [api_key.created], livemode: true }
      - { url: '${slackUrl}', format: slack, types: [api_key.created], livemode: true }
  globex: { name: Globex, entitlements: {}, webhooks: [] }
`;

describe('a file', () => {
  const { service } = useService();
  const call = operatorClient(() => service);
  const apply = (input: string, ...flags: string[]) =>
    run(runApplyCommand, ['-', ...flags], { input, url: service.url });
  const exported = async () => {
    const { code, stdout, stderr } = await run(runExportCommand, ['--url', service.url]);
    expect([code, stderr]).toEqual([0, '']);
    return stdout;
  };
  const folder = mkdtempSync(join(tmpdir(), 'gauge-apply-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('is created once, and --dry-run only prints it', async () => {
    const lines = [
      '+ product api-calls',
      '+ product storage',
      '+ organization acme',
      '+ entitlement acme/api-calls',
      '+ entitlement acme/storage',
      '+ webhook acme https://hooks.acme.example/usage (standard, live)',
      '+ webhook acme https://hooks.acme.example/usage (standard, live) #2',
      `+ webhook acme ${maskedUrl} (slack, live)`,
      '+ organization globex',
    ];
    const planned = await apply(file, '--dry-run');
    expect(planned).toEqual({
      code: 1,
      stdout: `${[...lines, '9 to create, 0 unchanged.'].join('\n')}\n`,
      stderr: '',
    });
    expect(parse(await exported())).toEqual({ products: {}, organizations: {} });

    const secrets = join(folder, 'secrets');
    writeFileSync(secrets, '', { mode: 0o644 });
    const made = await apply(file, '--secrets', secrets);
    expect(made).toEqual({
      code: 0,
      stdout: `${[...lines, '9 created, 0 unchanged.'].join('\n')}\n`,
      stderr: '',
    });
    const kept = readFileSync(secrets, 'utf8').trimEnd().split('\n');
    expect(kept.map((line) => JSON.parse(line))).toEqual(
      [1, 2].map(() => ({
        organization: 'acme',
        id: expect.any(String),
        url: 'https://hooks.acme.example/usage',
        secret: expect.stringMatching(/^whsec_/),
      })),
    );
    expect(statSync(secrets).mode & 0o777).toBe(0o600);
    expect(await apply(file)).toEqual({ code: 0, stdout: 'Nothing to change.\n', stderr: '' });
  });

  it('that was exported changes nothing, has no secrets and keeps every digit', async () => {
    const text = await exported();
    expect(text).toMatch(/^# yaml-language-server: \$schema=gauge.schema.json\nproducts:\n/);
    expect(text).toContain(`unitCap: ${digits}\n`);
    expect(text).toContain('          large: 12345678901.123456789012\n          small: 0.5\n');
    expect(text).toContain(maskedUrl);
    expect(text).not.toMatch(/whsec_|T0ACME/);
    expect(await apply(text)).toEqual({ code: 0, stdout: 'Nothing to change.\n', stderr: '' });
    expect(await exported()).toBe(text);
    expect(parse(text)).toMatchObject({
      products: {
        'api-calls': {
          dimensions: ['model'],
          countsSubjects: true,
          credits: { price: 1e-12, by: { dimension: 'model', prices: { small: 0.5 } }, enforcement: 'block' },
          features: { seats: 5, code: '5', sso: true, regions: ['eu', '1'] },
        },
        storage: {
          name: 'Storage',
          usageMetric: 'bytes',
          maxQuantity: 1e6,
          stripeMeterEvent: 'storage bytes',
        },
      },
      organizations: {
        acme: {
          name: 'Acme: "the" customer',
          marketAccess: 'read',
          mayCorrect: true,
          stripeCustomerId: 'cus_acme',
          creditThresholds: [50, 5],
          entitlements: {
            'api-calls': { unitCap: null, startsAt: '2026-01-05T09:00:00.000Z' },
            storage: { features: { seats: null, ratio: 0.5 } },
          },
        },
      },
    });
  });

  it('repairs drift, and names each field before and after', async () => {
    const text = await exported();
    const { webhooks } = (await call('GET', '/organizations/acme/webhooks')).body;
    const hook = `/organizations/acme/webhooks/${webhooks[2].id}`;
    await call('PUT', '/products/storage', { name: 'Storage', usageMetric: 'bytes', unitCap: 5 });
    const swapped = { dimension: 'model', prices: { large: 0.5, small: 2 } };
    const calls = { name: 'API calls', usageMetric: 'calls', unitCap: 7 };
    await call('PUT', '/products/api-calls', {
      ...calls,
      credits: { price: 3, by: swapped, enforcement: 'warn' },
    });
    await call('PUT', '/organizations/acme', {
      name: 'Acme',
      archived: true,
      mayCorrect: false,
      creditThresholds: null,
    });
    await call('PUT', '/organizations/acme/entitlements/api-calls', { kind: 'read_only' });
    const input = { format: 'slack', url: maskedUrl, types: ['api_key.revoked'], livemode: true };
    expect((await call('PUT', hook, { ...input, isEnabled: false })).status).toBe(200);
    const drifted = [
      '~ product api-calls',
      '    credits: {"price":3,"by":{"dimension":"model","prices":{"large":0.5,"small":2}},"enforcement":"warn"} → {"price":0.000000000001,"by":{"dimension":"model","prices":{"large":12345678901.123456789012,"small":0.5}},"enforcement":"block"}',
      `    unitCap: 7 → ${digits}`,
      '~ product storage',
      '    unitCap: 5 → null',
      '    maxQuantity: 1000000000000000 → 1000000',
      '~ organization acme',
      '    name: Acme → Acme: "the" customer',
      '    mayCorrect: false → true',
      '    creditThresholds: null → 50, 5',
      '    archived: true → false',
      '~ entitlement acme/api-calls',
      '    kind: read_only → live',
      '    unitCap: not set → null',
      '    limits: none → 100.5 PT5H block, 500 calendar_week warn subject',
      '    thresholds: 50, 80, 100 → 75, 100',
      `~ webhook acme ${maskedUrl} (slack, live)`,
      '    types: api_key.revoked → api_key.created',
      '    isEnabled: false → true',
    ];
    const planned = await apply(text, '--dry-run');
    expect(planned.code).toBe(1);
    expect(planned.stdout.split('\n')).toEqual([...drifted, '5 to change, 4 unchanged.', '']);
    expect(await exported()).not.toBe(text);
    const repaired = await apply(text);
    expect(repaired.code).toBe(0);
    expect(repaired.stdout.split('\n')).toEqual([...drifted, '5 changed, 4 unchanged.', '']);
    expect(await exported()).toBe(text);
  });

  it('removes what it does not have only with --prune, and archives what has records', async () => {
    const before = await exported();
    await call('PUT', '/products/extra', { name: 'Extra', usageMetric: 'calls' });
    await call('PUT', '/organizations/initech', { name: 'Initech' });
    await call('PUT', '/organizations/globex/entitlements/extra', { kind: 'live' });
    const hook = { url: 'https://hooks.globex.example/', types: ['api_key.created'], livemode: false };
    expect((await call('POST', '/organizations/globex/webhooks', hook)).status).toBe(201);
    const extra = [
      '- organization initech (archive)',
      '- webhook globex https://hooks.globex.example/ (standard, test)',
      '- entitlement globex/extra',
      '- product extra (archive)',
    ];
    const refused = await apply(before);
    expect(refused.code).toBe(1);
    expect(refused.stdout.split('\n')).toEqual([
      ...extra.map((line) => `${line}, not in the file: kept`),
      'Nothing to change.',
      '--prune deletes or archives what was kept.',
      '',
    ]);
    const pruned = await apply(before, '--prune');
    expect(pruned).toMatchObject({
      code: 0,
      stdout: `${extra.join('\n')}\n2 deleted, 2 archived, 9 unchanged.\n`,
    });
    expect(await apply(before, '--prune')).toMatchObject({ code: 0, stdout: 'Nothing to change.\n' });
    const after = parse(await exported());
    expect(after.products.extra.archived && after.organizations.initech.archived).toBe(true);
    expect(after.organizations.globex).toMatchObject({ entitlements: {}, webhooks: [] });
    const extraAgain = 'products: { extra: { name: Extra, usageMetric: calls } }';
    expect((await apply(extraAgain, '--dry-run')).stdout).toContain(
      '~ product extra\n    archived: true → false',
    );
  });

  it('leaves alone the sections that it does not have', async () => {
    const text = 'organizations: { acme: { name: "Acme: \\"the\\" customer" } }';
    const pruned = await apply(text, '--prune', '--dry-run');
    expect(pruned.stdout).toBe('- organization globex (archive)\n1 to archive, 1 unchanged.\n');
  });

  it('says what was done if the service refuses a change in the middle', async () => {
    const text = `organizations:
  hooli:
    name: Hooli
    entitlements:
      storage: { kind: live }
    webhooks:
      - url: https://10.0.0.7/
        types: [api_key.created]
        livemode: true
  umbrella:
    name: Umbrella
`;
    const stopped = await apply(text);
    expect(stopped).toEqual({
      code: 1,
      stdout:
        '+ organization hooli\n+ entitlement hooli/storage\nMade 2 of 4 changes. Run it again to make the rest.\n',
      stderr:
        'apply: standard input:7: /organizations/hooli/webhooks/0 was refused: /url must not be a private or reserved address\n',
    });
    const corrected = await apply(text.replace('10.0.0.7', 'hooks.hooli.example'));
    expect(corrected.stdout).toContain('secret: not kept');
    expect(corrected.stdout).toContain('2 created, 2 unchanged.');
    expect(corrected.stdout).not.toContain('whsec_');
  });

  it('changes nothing if it needs what the service does not have', async () => {
    const before = await exported();
    const unknown = 'organizations: { wayne: { name: W, entitlements: { maps: { kind: live } } } }';
    expect(await apply(unknown)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('/organizations/wayne/entitlements/maps is not a product'),
    });
    const masked = file.replace(slackUrl, maskedUrl.replace('bXyZ', 'none'));
    expect(await apply(masked)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/:\d+: \/organizations\/acme\/webhooks\/2 has a masked URL/),
    });
    expect(await exported()).toBe(before);
  });

  it('is not read or applied with a wrong token', async () => {
    const wrong = { input: file, url: service.url, token: 'wrong' };
    for (const answer of [await run(runApplyCommand, ['-'], wrong), await run(runExportCommand, [], wrong)])
      expect(answer).toMatchObject({
        code: 2,
        stdout: '',
        stderr: expect.stringContaining('This is not the operator token.'),
      });
  });

  it('prices the value __proto__ of a dimension like any other', async () => {
    const priced = (prices: string) =>
      `products: { odd: { name: Odd, usageMetric: calls, dimensions: [model], credits: { price: 1, by: { dimension: model, prices: ${prices} }, enforcement: warn } } }`;
    expect((await apply(priced('{ large: 2, __proto__: 7 }'))).stdout).toContain('+ product odd');
    const text = await exported();
    expect(text).toContain('__proto__: 7');
    expect(await apply(text)).toEqual({ code: 0, stdout: 'Nothing to change.\n', stderr: '' });
    const changed = await apply(priced('{ __proto__: 8.50, large: 2 }'), '--dry-run');
    expect(changed.stdout).toContain('"prices":{"__proto__":7,"large":2}');
    expect(changed.stdout).toContain('"prices":{"__proto__":8.5,"large":2}');
    expect((await apply(priced('{ __proto__: -1 }'))).stderr).toContain('/products/odd/credits/by/prices');
    for (const hostile of [
      'products: { __proto__: { name: Odd, usageMetric: calls } }',
      'products: { odd: { __proto__: { name: Odd } } }',
      'organizations: { products: { credits: { by: { prices: { __proto__: 1 } } } } }',
      `${priced('&prices { __proto__: 1 }')}\norganizations: *prices`,
    ])
      expect(await apply(hostile)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('the key "__proto__" is not allowed') as string,
      });
  });
});

describe('before the first request', () => {
  const apply = (input: string) => run(runApplyCommand, ['-'], { input });
  const org = (more: string) => `organizations:\n  acme:\n    name: Acme\n    ${more}\n`;

  it.each([
    ['an empty file', '', ':1: the file must be an object'],
    ['a list', '- products', ':1: the file must be an object'],
    ['broken YAML', 'products:\n  a: [', ':2: '],
    ['two documents', 'products: {}\n---\nproducts: {}\n', ':2: '],
    ['an unknown section', 'products: {}\nproduct: {}\n', ':2: /product is not a known field'],
    ['an unknown field', org('tier: gold'), ':4: /organizations/acme/tier is not a known field'],
    [
      'a wrong type',
      org('requireSecondFactor: maybe'),
      ':4: /organizations/acme/requireSecondFactor must be true or false',
    ],
    ['a missing field', 'products:\n  a:\n    name: A\n', ':2: /products/a/usageMetric is required'],
    ['an invalid slug', 'products:\n  "a b":\n    name: A\n', ':2: /products/a b must be 1 to 64 of a-z'],
    ['a key that appears twice', 'products:\n  a: {}\n  a: {}\n', ':3: the key "a" appears twice'],
    ['a number and a text as one key', 'products:\n  1: {}\n  "1": {}\n', ':3: the key "1" appears twice'],
    ['__proto__', 'products: {}\n__proto__: { products: {} }\n', ':2: the key "__proto__" is not allowed'],
    ['__proto__ inside', org('__proto__: { archived: true }'), ':4: the key "__proto__" is not allowed'],
    ['an object as a key', '? { a: 1 }\n: 2\n', ':1: a key must be a plain text'],
    ['an unknown tag', org('marketAccess: !env ACCESS'), ':4: Unresolved tag: !env'],
    [
      'a number with too many digits',
      `products:\n  a: { name: A, usageMetric: m, unitCap: ${'9'.repeat(101)} }`,
      ':2: a number must have at most 100 digits',
    ],
    [
      'a tiny exponent',
      'products:\n  a: { name: A, usageMetric: m, unitCap: 1e-999999999 }',
      ':2: a number must have',
    ],
    [
      'infinity',
      'products:\n  a: { name: A, usageMetric: m, unitCap: .inf }',
      ':2: /products/a/unitCap must be a number',
    ],
    [
      'a product that is not in the file',
      `products: {}\n${org('entitlements: { maps: { kind: live } }')}`,
      ':5: /organizations/acme/entitlements/maps is not a product of this file',
    ],
    [
      'an end before the start',
      org(
        'entitlements: { a: { kind: live, startsAt: "2026-02-01T00:00:00Z", endsAt: "2026-01-01T00:00:00Z" } }',
      ),
      '/endsAt must be later than startsAt',
    ],
    [
      'a webhook that is no URL',
      org('webhooks: [{ url: hooks, types: [api_key.created], livemode: true }]'),
      ':4: /organizations/acme/webhooks/0/url must be a URL',
    ],
    [
      'a webhook without a known type',
      org('webhooks: [{ url: "https://a.example", types: [all], livemode: true }]'),
      ':4: /organizations/acme/webhooks/0/types/0 must be "api_key.created" or',
    ],
    [
      "npm's heading",
      '\n> gauge@0.1.0 export\n> exec node\n\nproducts: {}\n',
      'Use `npm run --silent export`',
    ],
  ])('%s is refused with its line', async (_name, text, message) => {
    const answer = await apply(text);
    expect(answer).toMatchObject({ code: 2, stdout: '' });
    expect(answer.stderr).toContain('apply: standard input is not valid. Nothing was sent.\n');
    expect(answer.stderr).toContain(message);
  });

  /** Each list contains the previous one twice. */
  const bomb = Array.from(
    { length: 26 },
    (_, i) => `a${i}: &a${i} ${i === 0 ? '[x]' : `[*a${i - 1}, *a${i - 1}]`}\n`,
  ).join('');

  it.each([
    ['aliases that expand to too much', bomb, 'aliases may expand to at most 1000 values'],
    ['an alias without its value', 'products: *nowhere\n', 'Unresolved alias'],
    ['another version of YAML', '%YAML 1.1\n---\nproducts: { <<: { a: yes } }\n', '/products/<< must be'],
    ['an alias of itself', 'products: &a\n  b: *a\n', 'standard input'],
    ['deep nesting', '['.repeat(100_000), 'standard input'],
    ['10 MB', `products: {}\n${'#'.repeat(10 * 1024 * 1024)}\n`, 'is larger than 4 MB'],
    [
      'many keys',
      `products:\n${Array.from({ length: 40_000 }, (_, i) => `  a${i}:\n`).join('')}`,
      '/products/a0 ',
    ],
    ['a text that is not UTF-8', '\ud800', 'standard input'],
  ])('%s is refused in bounded time', async (_name, text, message) => {
    const answer = await apply(text);
    expect(answer).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(message) });
    expect(answer.stderr).not.toMatch(/\n {4}at /);
  });

  it.each([
    ['no token', { token: '' }, 'OPERATOR_TOKEN is not set'],
    ['a token that is no header', { token: 'a\nb' }, 'OPERATOR_TOKEN contains characters'],
    ['a wrong address', { url: 'gauge.example.com' }, 'GAUGE_URL must be an address'],
    ['a service that is away', {}, `${nowhere} cannot be reached`],
  ])('%s is reported', async (_name, more, message) => {
    const answer = await run(runApplyCommand, ['-'], { input: 'products: {}', ...more });
    expect(answer).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(message) });
  });
});

describe('a service that is not Gauge', () => {
  const answers = ['<html>', '{}', '[]', '{"products":{}}'];
  let n = 0;
  const server = createServer((_req, res) => void res.end(answers[n]));
  beforeAll(() => new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve)));
  afterAll(() => void server.close());

  it('is reported', async () => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    for (n = 0; n < answers.length; n++) {
      const answer = await run(runExportCommand, [], { url });
      expect(answer).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('as Gauge does') });
    }
  });
});

it('the schema for editors accepts the example and names what it does not know', async () => {
  const { stdout } = await run(runExportCommand, ['--schema']);
  const validate = new Ajv({ strict: false, validateFormats: false }).compile(JSON.parse(stdout));
  expect([validate(parse(file)), validate.errors]).toEqual([true, null]);
  expect(validate({ products: { a: { name: 'A', usageMetric: 'm', unit_cap: 1 } } })).toBe(false);
  expect(validate({ organisations: {} })).toBe(false);
});

it('the example in the documentation is valid', () => {
  const [, example] = /^```yaml\n(products:.*?)^```/ms.exec(readFileSync('docs/production.md', 'utf8'))!;
  expect(parseFile('example', example!).declared.organizations!.acme!.webhooks).toHaveLength(1);
});

describe('plans', () => {
  const { service } = useService();

  it('are created, exported and applied again without a change', async () => {
    const input = `
products:
  api-calls: { name: API calls, usageMetric: calls }
plans:
  team:
    name: Team
    entitlements: [{ productSlug: api-calls, unitCap: ${digits}, features: { seats: 5, code: "5" } }]
    grants: [{ key: monthly, amount: 10.5, every: month, priority: 10, expires: period, rollover: { percent: 50, for: P7D } }]
    trial: { days: 14 }
organizations:
  acme: { name: Acme, entitlements: {}, plan: { plan: team, trial: true } }
`;
    const apply = (text: string) => run(runApplyCommand, ['-'], { input: text, url: service.url });
    expect(await apply(input)).toMatchObject({ code: 0, stderr: '' });
    expect(await apply(input)).toMatchObject({ code: 0, stdout: 'Nothing to change.\n' });
    const { stdout } = await run(runExportCommand, ['--url', service.url]);
    expect(stdout).toContain(`unitCap: ${digits}`);
    expect(parse(stdout)).toMatchObject({
      plans: { team: { entitlements: [{ features: { seats: 5, code: '5' } }] } },
      organizations: { acme: { entitlements: {}, plan: { plan: 'team', trial: true } } },
    });
    expect(await apply(stdout)).toMatchObject({ code: 0, stdout: 'Nothing to change.\n' });
  });
});

describe('service keys', () => {
  const { service } = useService();
  const call = operatorClient(() => service);
  const apply = (input: string, ...flags: string[]) =>
    run(runApplyCommand, ['-', ...flags], { input, url: service.url });
  const keys = (line: string) => `serviceKeys:\n  gateway/eu: ${line}\n`;
  const list = async () => (await call('GET', '/service-keys')).body.serviceKeys as { state: string }[];

  it('are created once; the secret is printed once and never exported', async () => {
    const input = keys('{ livemode: true, scopes: [usage:write, keys:verify] }');
    expect(await apply(input, '--dry-run')).toEqual({
      code: 1,
      stdout: '+ service key gateway/eu\n1 to create, 0 unchanged.\n',
      stderr: '',
    });
    expect(await list()).toEqual([]);
    const { stdout } = await apply(input);
    const [, secret] = /secret: (service_live_\w{32}) \(shown only now: store it\)/.exec(stdout)!;
    const verified = await fetch(`${service.url}/service/keys/verify`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: '{"secret":"org_live_none"}',
    });
    expect(verified.status).toBe(200);
    expect(await apply(keys('{ livemode: true, scopes: [keys:verify, usage:write] }'), '--prune')).toEqual({
      code: 0,
      stdout: 'Nothing to change.\n',
      stderr: '',
    });
    const exported = await run(runExportCommand, ['--url', service.url]);
    expect(exported.stdout).not.toContain(secret);
    expect(parse(exported.stdout)).toMatchObject({
      serviceKeys: { 'gateway/eu': { livemode: true, scopes: ['keys:verify', 'usage:write'] } },
    });
    expect(await apply(exported.stdout)).toMatchObject({ code: 0, stdout: 'Nothing to change.\n' });
    expect(await list()).toHaveLength(1);
  });

  it('are not changed: another scope, mode or expiry is refused before anything changes', async () => {
    await apply(keys('{ livemode: true, scopes: [usage:write, keys:verify] }'));
    for (const [line, difference] of [
      ['{ livemode: true, scopes: [usage:read] }', 'scopes: keys:verify, usage:write → usage:read'],
      ['{ livemode: false, scopes: [keys:verify, usage:write] }', 'livemode: true → false'],
      [
        '{ livemode: true, scopes: [keys:verify, usage:write], expiresAt: 2999-01-01T00:00:00Z }',
        'expiresAt: null → 2999-01-01T00:00:00.000Z',
      ],
    ]) {
      const input = `products:\n  new-one: { name: New, usageMetric: calls }\n${keys(line!)}`;
      const { code, stderr } = await apply(input);
      expect(code).toBe(2);
      expect(stderr).toContain(`:4: /serviceKeys/gateway~1eu is not what the service has (${difference}).`);
      expect(stderr).toContain('declare another name, or revoke the key in the console first.');
    }
    expect((await call('GET', '/products/new-one')).status).toBe(404);
  });

  it('of the same name are known by the newest; --secrets keeps the secret instead of printing it', async () => {
    const body = { name: 'twice', livemode: true, scopes: ['usage:read'] };
    await call('POST', '/service-keys', { ...body, scopes: ['usage:write'] });
    await call('POST', '/service-keys', body);
    const folder = mkdtempSync(join(tmpdir(), 'gauge-keys-'));
    const secrets = join(folder, 'secrets');
    const input = `serviceKeys:
  twice: { livemode: true, scopes: [usage:read] }
  reader: { livemode: false, scopes: [usage:read] }
`;
    expect((await apply(input, '--secrets', secrets)).stdout).toBe(
      '+ service key reader\n1 created, 1 unchanged.\n',
    );
    expect(JSON.parse(readFileSync(secrets, 'utf8'))).toMatchObject({
      serviceKey: 'reader',
      secret: expect.stringMatching(/^service_test_\w{32}$/),
    });
    rmSync(folder, { recursive: true });
    expect(await apply('serviceKeys:\n  a: { livemode: true, scopes: [all] }\n')).toMatchObject({ code: 2 });
  });
});
