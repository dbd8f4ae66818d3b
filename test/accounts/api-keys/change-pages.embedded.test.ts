import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eq } from 'drizzle-orm';
import { v4, v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { type Browser, signedIn } from '../../support/accounts.js';
import { createKey } from '../../support/fixtures.js';
import { createProduct, grant } from '../../metering/support/products.js';
import { startTestService } from '../../support/service.js';
import { hasPython } from '../../support/python.js';
import { readUsage, sendUsage, usageEvent } from '../../metering/support/usage.js';
import { copiedOf, fieldOf, formsOf, getPage, linksOf, postForm, textOf } from './html.js';
import { useService } from '../../support/use.js';
import { auditOf } from '../../support/audit.js';

const { database, service } = useService();

const run = promisify(execFile);
const PATH = '/dashboard/api-keys';
const MINUTE = 60_000;
const keysOf = (orgId: string) => database.db.orm.select().from(apiKeys).where(eq(apiKeys.orgId, orgId));
const newId = () => v7({ msecs: service.clock.now() });

type Pairs = [string, string][];
/** The form's default values, with some of them overridden. */
const keyForm = (values: Record<string, string | string[]> = {}): Pairs =>
  Object.entries({
    id: newId(),
    name: 'edge proxy',
    livemode: 'true',
    scopes: ['usage:write'],
    expiry: 'never',
    expiresAt: '',
    ...values,
  }).flatMap(([name, value]) => [value].flat().map((each): [string, string] => [name, each]));
const create = (browser: Browser, values = {}) => postForm(browser, PATH, keyForm(values));

describe('the form for a new key', () => {
  it('explains every option and creates the key as submitted', async () => {
    const { browser, organization, user } = await signedIn(database.db, service.url);
    const page = await getPage(browser, `${PATH}/new`);
    expect(page.status).toBe(200);
    for (const scope of ['usage:write', 'usage:read', 'entitlements:read', 'trading:read', 'trading:write'])
      expect(textOf(page)).toContain(scope);
    expect([fieldOf(page, 'preset'), fieldOf(page, 'scopes')]).toEqual([['send'], []]);
    const [id] = fieldOf(page, 'id');
    const answer = await create(browser, {
      id: id!,
      name: 'from a form',
      scopes: ['usage:write', 'trading:read'],
    });
    expect(answer.status).toBe(201);
    expect(answer.headers.get('cache-control')).toBe('no-store, no-transform');
    expect(answer.headers.get('content-encoding')).toBeNull();
    const secret = copiedOf(answer, 'secret');
    expect(secret).toMatch(/^org_live_[0-9A-Za-z]{32}$/);
    expect(textOf(answer)).toContain('it cannot be shown again');
    expect(await keysOf(organization.id)).toMatchObject([
      {
        id,
        name: 'from a form',
        scopes: ['usage:write', 'trading:read'],
        createdBy: user.id,
        expiresAt: null,
      },
    ]);
    expect(await auditOf(database.db, organization.id)).toMatchObject([
      { action: 'api_key.created', target: id },
    ]);
    for (const path of [PATH, `${PATH}/${id}`])
      expect((await getPage(browser, path)).text).not.toContain(secret);
  });

  it('creates one key when sent twice, and says that its secret was already shown', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const form = keyForm();
    const answers = await Promise.all([1, 2, 3].map(() => postForm(browser, PATH, form)));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 303, 303]);
    expect(await keysOf(organization.id)).toHaveLength(1);
    expect(await auditOf(database.db, organization.id)).toHaveLength(1);
    const address = answers.find(({ status }) => status === 303)!.headers.get('location')!;
    expect(address).toBe(`${PATH}/${form[0]![1]}?done=exists`);
    expect(textOf(await getPage(browser, address))).toContain('already created this key');
  });

  it('accepts a key id that another Organization uses', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const other = await signedIn(database.db, service.url);
    const id = newId();
    expect((await create(other.browser, { id })).status).toBe(201);
    expect((await create(browser, { id })).status).toBe(201);
    expect(await keysOf(organization.id)).toHaveLength(1);
  });

  it.each([
    ['no id', () => ''],
    ['junk', () => 'junk'],
    ['another UUID version', () => v4()],
    ['an id from yesterday', () => v7({ msecs: service.clock.now() - 24 * 60 * MINUTE - 1000 })],
    ['an id from tomorrow', () => v7({ msecs: service.clock.now() + 10 * MINUTE })],
    ['a path', () => '../../../../x'],
  ])('with %s is shown again with a new id and the typed values', async (_name, makeId) => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const answer = await create(browser, { id: makeId(), name: 'kept name' });
    expect(answer.status).toBe(400);
    expect(textOf(answer)).toContain('was renewed');
    expect(fieldOf(answer, 'name')).toEqual(['kept name']);
    expect(await keysOf(organization.id)).toEqual([]);
    expect((await create(browser, { id: fieldOf(answer, 'id')[0]! })).status).toBe(201);
  });

  it.each([
    ['name', { name: '' }, 'Must be 1 to 100 characters'],
    ['name', { name: '   ' }, 'Must not be blank'],
    ['name', { name: 'a\0b' }, 'Must be 1 to 100 characters'],
    ['name', { name: 'x'.repeat(300) }, 'Must be 1 to 100 characters'],
    ['livemode', { livemode: 'yes' }, 'Choose live or test'],
    ['scopes', { scopes: [] }, 'Must have at least one scope'],
    ['scopes', { scopes: ['admin'] }, ''],
    ['scopes', { scopes: ['usage:write', 'usage:write'] }, 'Must not name a scope twice'],
    ['preset', { preset: 'admin' }, 'Must be one of the options'],
    ['preset', { preset: "' or 1=1" }, 'Must be one of the options'],
    ['scopes', { preset: 'send', scopes: ['usage:correct'] }, 'Are selected, but “Send usage” is too'],
    ['livemode', { preset: 'paper', scopes: [] }, 'Must be test to trade on paper'],
    ['expiry', { expiry: '31' }, 'Must be one of the options'],
    ['expiresAt', { expiry: 'at' }, 'Must be a date and time'],
    ['expiresAt', { expiry: 'at', expiresAt: '2031-02-30T10:00' }, 'Must be a date and time'],
    ['expiresAt', { expiry: 'at', expiresAt: '2020-01-01T10:00' }, 'Must be in the future'],
    ['expiresAt', { expiry: 'never', expiresAt: '2031-01-01T10:00' }, 'another option is selected'],
  ])('shows the error for %s next to the field: %j', async (field, values, words) => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const form = { id: newId(), name: 'kept', ...values };
    const answer = await create(browser, form);
    expect(answer.status).toBe(400);
    expect(answer.text).toMatch(new RegExp(`id="(field-)?${field}-error"`));
    expect(textOf(answer)).toContain(words);
    expect(fieldOf(answer, 'id')).toEqual([form.id]);
    expect(fieldOf(answer, 'name')).toEqual([form.name]);
    expect(await keysOf(organization.id)).toEqual([]);
  });

  it.each([
    ['send', 'true', ['usage:write', 'usage:read', 'entitlements:read']],
    ['read', 'true', ['usage:read', 'entitlements:read', 'trading:read']],
    ['paper', 'false', ['trading:read', 'trading:write']],
  ])('creates a key with the scopes of the preset %s', async (preset, livemode, scopes) => {
    const { browser, organization } = await signedIn(database.db, service.url);
    expect((await create(browser, { preset, livemode, scopes: [] })).status).toBe(201);
    expect(await keysOf(organization.id)).toMatchObject([{ scopes, livemode: livemode === 'true' }]);
  });

  it('shows all errors at once', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const answer = await create(browser, { name: '', scopes: [], expiry: 'at' });
    expect(textOf(answer)).toContain('Please correct these 3 fields:');
  });

  it.each([
    ['30', '', 30],
    ['90', '', 90],
    ['365', '', 365],
  ])('creates a key that expires after %s days', async (expiry, expiresAt, days) => {
    const { browser, organization } = await signedIn(database.db, service.url);
    expect((await create(browser, { expiry, expiresAt })).status).toBe(201);
    const [key] = await keysOf(organization.id);
    expect(key!.expiresAt!.getTime()).toBe(service.clock.now() + days * 24 * 60 * MINUTE);
  });

  it('creates a key that expires at a date and time in UTC', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    for (const expiresAt of ['2131-05-06T07:08', '2131-05-06 07:08'])
      expect((await create(browser, { expiry: 'at', expiresAt })).status).toBe(201);
    for (const key of await keysOf(organization.id))
      expect(key.expiresAt!.toISOString()).toBe('2131-05-06T07:08:00.000Z');
  });

  it('at the limit keeps the typed values and says when to try again', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    for (let i = 0; i < 10; i++) await create(browser);
    const answer = await create(browser, { name: 'one too many', scopes: ['usage:read'] });
    expect(answer.status).toBe(429);
    expect(answer.headers.get('retry-after')).toBe('3600');
    expect(fieldOf(answer, 'name')).toEqual(['one too many']);
    expect(fieldOf(answer, 'scopes')).toEqual(['usage:read']);
    expect(textOf(answer)).toContain('at most 10 API keys an hour');
    expect(textOf(answer)).toContain(
      '0 of 10 key changes left this hour; the next one becomes available in 1 hour.',
    );
    expect(await keysOf(organization.id)).toHaveLength(10);
  });

  it('can be prefilled from an existing key, but only of the same Organization', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const values = { name: 'model', livemode: false, scopes: ['usage:read'] };
    const { id } = await createKey(database.db, organization.id, values);
    const page = await getPage(browser, `${PATH}/new?like=${id}`);
    expect([fieldOf(page, 'name'), fieldOf(page, 'livemode'), fieldOf(page, 'scopes')]).toEqual([
      ['model'],
      ['false'],
      ['usage:read'],
    ]);
    const other = await signedIn(database.db, service.url);
    for (const like of [id, 'x', "' or 1=1"])
      expect(
        fieldOf(await getPage(other.browser, `${PATH}/new?like=${encodeURIComponent(like)}`), 'name'),
      ).toEqual(['']);
  });

  it('does not accept other body types, which still reach the JSON route', async () => {
    const { browser } = await signedIn(database.db, service.url);
    expect((await browser.send('POST', PATH, { form: { name: 'x' } })).status).toBe(415);
    expect(
      (await browser.send('POST', PATH, { json: { name: 'x', livemode: true, id: newId() } })).body,
    ).toMatchObject({
      code: 'invalid_request',
      errors: [{ pointer: '/id' }],
    });
    expect((await browser.get(`${PATH}/new`)).body).toMatchObject({ code: 'not_found' });
  });
});

describe('the page with a new secret', () => {
  async function entitled() {
    const signed = await signedIn(database.db, service.url);
    const product = await createProduct(database.db, {
      slug: `p-${newId()}`,
      usageMetric: `it's $HOME "calls" \`x\` \\`,
    });
    await grant(database.db, signed.organization.id, product.id);
    return { ...signed, product };
  }
  const shell = async (command: string) => JSON.parse((await run('bash', ['-c', command])).stdout);

  it('contains a curl command that sends one first event', async () => {
    const { browser, organization } = await entitled();
    const line = copiedOf(await create(browser), 'snippet-curl');
    expect(await shell(line)).toMatchObject({ accepted: 1, deduped: 0, warnings: [] });
    expect(await shell(line)).toMatchObject({ accepted: 0, deduped: 1, warnings: [] });
    // The next key's first event must not count as a repeat of this key's event.
    expect(await shell(copiedOf(await create(browser), 'snippet-curl'))).toMatchObject({ accepted: 1 });
    expect((await readUsage(database.db, organization.id)).keys).toHaveLength(2);
  });

  it('contains a TypeScript program that does the same', async () => {
    const { browser, organization } = await entitled();
    const folder = mkdtempSync(join(tmpdir(), 'gauge-snippet-'));
    try {
      const file = join(folder, 'first-call.mts');
      writeFileSync(file, copiedOf(await create(browser), 'snippet-typescript'));
      const tsx = join(import.meta.dirname, '../../../node_modules/.bin/tsx');
      expect((await run(tsx, [file], { cwd: folder })).stdout).toContain('accepted: 1');
      expect((await readUsage(database.db, organization.id)).keys).toHaveLength(1);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.skipIf(!hasPython)('contains Python programs that do the same', async () => {
    const { browser, organization, product } = await entitled();
    const python = async (values = {}) => {
      const code = copiedOf(await create(browser, values), 'snippet-python');
      return (await run('python3', ['-c', code])).stdout;
    };
    expect(await python()).toContain("'accepted': 1");
    expect((await readUsage(database.db, organization.id)).keys).toHaveLength(1);
    expect(await python({ scopes: ['entitlements:read'] })).toContain(product.slug);
  });

  it('uses a product that the Organization may use now', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const past = new Date(service.clock.now() - MINUTE);
    for (const [slug, values] of [
      [`a-${newId()}`, { kind: 'read_only' }],
      [`b-${newId()}`, { endsAt: past }],
      [`c-${newId()}`, { startsAt: new Date(service.clock.now() + MINUTE) }],
    ] as const)
      await grant(database.db, organization.id, (await createProduct(database.db, { slug })).id, values);
    const without = await create(browser);
    expect(textOf(without)).toContain('has no live entitlement');
    expect(await shell(copiedOf(without, 'snippet-curl'))).toMatchObject({ apiKey: { name: 'edge proxy' } });
    const slug = `z-${newId()}`;
    await grant(database.db, organization.id, (await createProduct(database.db, { slug })).id);
    expect(copiedOf(await create(browser), 'snippet-curl')).toContain(slug);
  });

  it('matches the snippets to the key’s scopes', async () => {
    const { browser, product } = await entitled();
    const created = await create(browser, { scopes: ['entitlements:read'] });
    expect(created.text).toContain('Secret of the live key');
    const reader = copiedOf(created, 'snippet-curl');
    expect(await shell(reader)).toMatchObject({ entitlements: [{ productSlug: product.slug }] });
    const trader = copiedOf(await create(browser, { scopes: ['trading:read'] }), 'snippet-curl');
    expect(await shell(trader)).toMatchObject({ apiKey: { scopes: ['trading:read'] } });
  });

  it('uses the address that the browser used', async () => {
    const proxied = await startTestService(database.db, { env: { TRUST_PROXY: '1' } });
    const { browser } = await signedIn(database.db, proxied.url);
    const answer = await browser.send('POST', PATH, {
      form: keyForm(),
      headers: { accept: 'text/html', 'x-forwarded-host': 'gauge.example' },
    });
    expect(copiedOf(answer, 'snippet-curl')).toContain(' http://gauge.example/api/');
    await proxied.stop();
  });
});

describe('the rotation form', () => {
  const rotate = (browser: Browser, id: string, form: Record<string, string> = { grace: '60' }) =>
    postForm(browser, `${PATH}/${id}/rotate`, form);
  const one = async (values = {}) => {
    const signed = await signedIn(database.db, service.url);
    return {
      ...signed,
      key: await createKey(database.db, signed.organization.id, { name: 'worker', ...values }),
    };
  };

  it('shows the new secret once and links to the cut-over', async () => {
    const { browser, organization, key } = await one();
    const page = await getPage(browser, `${PATH}/${key.id}/rotate`);
    expect(formsOf(page)).toEqual([`${PATH}/${key.id}/rotate`]);
    expect(fieldOf(page, 'grace')).toEqual(['60']);
    const answer = await rotate(browser, key.id);
    expect(answer.status).toBe(201);
    expect(answer.headers.get('cache-control')).toBe('no-store, no-transform');
    const next = (await keysOf(organization.id)).find(({ rotatedFromId }) => rotatedFromId === key.id)!;
    expect(copiedOf(answer, 'secret').slice(0, 12)).toBe(next.prefix);
    expect(linksOf(answer)).toContain(`${PATH}/${next.id}/cut-over`);
  });

  it.each([
    [{ grace: '0' }, 0],
    [{ grace: '60', graceMinutes: '' }, 60],
    [{ grace: '1440' }, 1440],
    [{ grace: '10080' }, 10_080],
    [{ grace: 'custom', graceMinutes: '0' }, 0],
    [{ grace: 'custom', graceMinutes: ' 17 ' }, 17],
  ])('ends the old key at the chosen time: %j', async (form, minutes) => {
    const { browser, organization, key } = await one();
    expect((await rotate(browser, key.id, form)).status).toBe(201);
    const old = (await keysOf(organization.id)).find(({ id }) => id === key.id)!;
    expect(old.expiresAt!.getTime()).toBe(service.clock.now() + minutes * MINUTE);
  });

  it.each([
    [{}, 'grace'],
    [{ grace: '61' }, 'grace'],
    [{ grace: 'custom' }, 'graceMinutes'],
    [{ grace: 'custom', graceMinutes: '10081' }, 'graceMinutes'],
    [{ grace: 'custom', graceMinutes: '-1' }, 'graceMinutes'],
    [{ grace: 'custom', graceMinutes: '1.5' }, 'graceMinutes'],
    [{ grace: 'custom', graceMinutes: '<script>' }, 'graceMinutes'],
    [{ grace: '60', graceMinutes: '5' }, 'graceMinutes'],
  ])('keeps the typed values when they are invalid: %j', async (form: Record<string, string>, field) => {
    const { browser, organization, key } = await one();
    const answer = await rotate(browser, key.id, form);
    expect(answer.status).toBe(400);
    expect(answer.text).toMatch(new RegExp(`id="(field-)?${field}-error"`));
    expect(fieldOf(answer, 'graceMinutes')).toEqual([form.graceMinutes ?? '']);
    expect(await keysOf(organization.id)).toHaveLength(1);
  });

  it('rotates once when sent twice, and links to the successor', async () => {
    const { browser, organization, key } = await one();
    const answers = [await rotate(browser, key.id), await rotate(browser, key.id)];
    expect(answers.map(({ status }) => status)).toEqual([201, 409]);
    expect(await keysOf(organization.id)).toHaveLength(2);
    const next = (await keysOf(organization.id)).find(({ rotatedFromId }) => rotatedFromId === key.id)!;
    for (const page of [answers[1]!, await getPage(browser, `${PATH}/${key.id}/rotate`)]) {
      expect(textOf(page)).toContain('has already been rotated');
      const path = [PATH, `${PATH}/${key.id}`];
      expect(linksOf(page)).toEqual([...path, `${PATH}/${next.id}/cut-over`, `${PATH}/${next.id}/rotate`]);
      expect(formsOf(page)).toEqual([]);
    }
  });

  it('offers to duplicate a key that has ended', async () => {
    const { browser, key } = await one({ revokedAt: new Date(service.clock.now()) });
    for (const page of [await getPage(browser, `${PATH}/${key.id}/rotate`), await rotate(browser, key.id)]) {
      expect(textOf(page)).toContain('This key is revoked');
      expect(linksOf(page)).toContain(`${PATH}/new?like=${key.id}`);
    }
    expect((await rotate(browser, key.id)).status).toBe(409);
  });

  it('says at the limit when to try again, and keeps the choice', async () => {
    const { browser, organization, key } = await one();
    for (let i = 0; i < 10; i++) await create(browser);
    const answer = await rotate(browser, key.id, { grace: '1440' });
    expect(answer.status).toBe(429);
    expect(fieldOf(answer, 'grace')).toEqual(['1440']);
    expect(await keysOf(organization.id)).toHaveLength(11);
  });

  it('warns that the new key would expire together with the old one', async () => {
    const { browser, key } = await one({ expiresAt: new Date(service.clock.now() + 5 * 24 * 60 * MINUTE) });
    const page = await getPage(browser, `${PATH}/${key.id}/rotate`);
    expect(textOf(page)).toContain('expires soon, and so will the new one');
    expect(linksOf(page)).toContain(`${PATH}/new?like=${key.id}`);
  });
});

describe('the revocation form', () => {
  it('names the key, makes its next call fail, and changes nothing the second time', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const product = await createProduct(database.db);
    await grant(database.db, organization.id, product.id);
    const { id, secret } = await createKey(database.db, organization.id, { name: 'worker' });
    expect((await sendUsage(service.url, secret, [usageEvent(product.slug, newId())])).status).toBe(202);
    const page = await getPage(browser, `${PATH}/${id}/revoke`);
    expect(textOf(page)).toContain('Revoke worker?');
    expect(textOf(page)).toContain(`${secret.slice(0, 12)}…`);
    expect(textOf(page)).toContain('It is in use: 1 call in the last 24 hours.');
    expect(formsOf(page)).toEqual([`${PATH}/${id}/revoke`]);
    for (let i = 0; i < 2; i++) {
      const answer = await postForm(browser, `${PATH}/${id}/revoke`, {});
      expect(answer.status).toBe(303);
      expect(answer.headers.get('location')).toBe(`${PATH}/${id}?done=revoked`);
    }
    expect((await sendUsage(service.url, secret, [usageEvent(product.slug, newId())])).body.code).toBe(
      'key_revoked',
    );
    expect(await auditOf(database.db, organization.id)).toMatchObject([
      { action: 'api_key.revoked', target: id },
    ]);
    expect(textOf(await getPage(browser, `${PATH}/${id}?done=revoked`))).toContain('The key is revoked.');
    const again = await getPage(browser, `${PATH}/${id}/revoke`);
    expect(textOf(again)).toContain('This key was revoked just now');
    expect(formsOf(again)).toEqual([]);
  });

  it('says so if there were no recent calls', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const { id } = await createKey(database.db, organization.id);
    expect(textOf(await getPage(browser, `${PATH}/${id}/revoke`))).toContain('No calls in the last');
  });
});

describe('permissions', () => {
  it.each(['member', 'billing'] as const)('offer a %s no changes', async (role) => {
    const { browser, organization } = await signedIn(database.db, service.url, role);
    const { id } = await createKey(database.db, organization.id, {
      expiresAt: new Date(service.clock.now() + MINUTE),
    });
    for (const path of [PATH, `${PATH}/${id}`]) {
      const page = await getPage(browser, path);
      expect(page.status).toBe(200);
      expect(linksOf(page).filter((href) => /new|rotate|rename|revoke/.test(href))).toEqual([]);
      expect(formsOf(page).filter((action) => action !== PATH)).toEqual([]);
    }
  });
});
