import { v7 as uuid } from 'uuid';
import { beforeAll, expect, it } from 'vitest';
import { createKey, createOrganization, past } from '../support/fixtures.js';
import { addGrant } from '../metering/support/credits.js';
import { createProduct, grant } from '../metering/support/products.js';
import { operatorClient } from '../support/operator.js';
import { signedInOperator, type TestOperator } from '../support/operators.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
let operator: TestOperator;
const api = operatorClient(() => service);
beforeAll(async () => {
  service.clock.set('2026-03-04T00:00:00.000Z');
  operator = await signedInOperator(service);
  const { db } = database;
  const calls = await createProduct(db, { slug: 'calls', creditPrice: '1', creditEnforcement: 'warn' });
  for (const slug of ['acme', 'initech']) {
    const { id } = await createOrganization(db, { slug });
    await grant(db, id, calls.id);
    await addGrant(db, id, { amount: '1000' }, new Date(service.clock.now()));
    const { secret } = await createKey(db, id);
    const event = { ...usageEvent('calls', `of ${slug}`), quantity: 12.5 };
    expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
  }
});

const html = { accept: 'text/html' };
const post = (path: string, form: Record<string, string> = {}) =>
  operator.browser.send('POST', `/console/customers/acme/usage${path}`, { headers: html, form });
const totalOf = async (month: string) => {
  const { body } = await api(
    'GET',
    `/usage?from=${month}-01&to=${month}-28&granularity=total&organization=acme`,
  );
  return body.usage.map(({ quantity }: { quantity: number }) => quantity);
};

it('corrects an event beside its list after showing the effect, and reports errors beside their fields', async () => {
  const correction = { quantity: '2.5', reason: 'Counted five times', correctionKey: uuid() };
  const get = (path: string) => operator.browser.get(`/console/customers/acme/usage${path}`, html);
  const list = await get('');
  expect([list.status, list.text.includes('event=of+acme')]).toEqual([200, true]);
  expect(list.text).toMatch(/<th[^>]*>Subject<\/th>/);
  const found = await get('?idempotencyKey=of');
  expect([found.text.includes('of acme'), found.text.includes('of initech')]).toEqual([true, false]);
  const place = 'product=calls&mode=live&from=2026-03-04&to=2026-03-04';
  const row = `?${place}&event=of+acme`;
  expect((await get('?from=2026-03-04&to=2026-03-04')).text).toContain(row.replaceAll('&', '&amp;'));
  const panel = (await get(row)).text.split('<aside')[1]!;
  const ledger = '/acme/credits\\?product=calls&amp;mode=live&amp;from=2026-03-04&amp;to=2026-03-04';
  const json = '&#34;quantity&#34;: 12.5,.*&#34;idempotencyKey&#34;: &#34;of acme&#34;';
  for (const fact of [
    'Sent as|Quantity',
    'from=2026-03-04&amp;to=2026-03-04">Events of that day',
    'Credits',
    'Received',
    'usage\\?[^"]*key=',
    'small danger" href="[^"]*correct=void',
    ledger,
    json,
  ])
    expect(panel).toMatch(new RegExp(fact, 's'));
  expect((await get(`${row}&correct=amend`)).text).toContain('value="12.5"');
  for (const other of ['of+initech', 'of+init', '%27+or+1%3D1+--']) {
    const { text } = await get(`?event=${other}&correct=amend`);
    expect(text).toMatch(/This customer has no event/);
    const elsewhere =
      'Recorded for <a href="/console/customers/initech/usage?mode=live&amp;event=of+initech">';
    const isElsewhere = other.startsWith('of');
    expect([text.includes(elsewhere), text.includes('Ask the customer to send')]).toEqual([
      isElsewhere,
      !isElsewhere,
    ]);
  }
  expect((await post('?event=of+initech', correction)).status).toBe(404);
  const amend = `${row}&correct=amend`;
  for (const [field, value, problem] of [
    ['quantity', '-1', 'Must not be below 0.'],
    ['quantity', '12.50', 'Already 12.5.'],
    ['quantity', '1e30', 'Correct quantity'],
    ['reason', '', 'Reason'],
  ] as const) {
    const { status, text } = await post(amend, { ...correction, [field]: value });
    expect([field, status]).toEqual([field, 400]);
    expect(text).toContain(`href="#field-${field}"`);
    expect(text).toContain(problem);
  }
  for (const step of [{}, { step: 'edit' }]) {
    const { status, text } = await post(amend, { ...correction, ...step });
    const cells = [...text.matchAll(/data-label="(?:Now|Then)"><div>([^ ]+)/g)].map(([, value]) => value);
    if (!('step' in step)) expect(text).toContain('<dt>Reason</dt><dd><bdi>Counted five times</bdi></dd>');
    expect([status, cells]).toEqual([
      200,
      'step' in step ? [] : ['12.5', '2.5', '12.5', '2.5', '12.5', '2.5', '12.5', '2.5', '987.5', '997.5'],
    ]);
  }
  expect(await totalOf('2026-03')).toEqual(['12.5']);
  for (let time = 0; time < 2; time++) {
    const { status, headers } = await post(amend, { ...correction, step: 'save' });
    expect([status, headers.get('location')]).toEqual([
      303,
      `/console/customers/acme/usage?done=corrected&${place}&event=of+acme#event`,
    ]);
  }
  expect(await totalOf('2026-03')).toEqual(['2.5']);
  const saved = (await get(`?done=corrected&${place}&event=of+acme`)).text;
  expect(saved.match(/is corrected\./g)).toHaveLength(1);
  expect(saved).toMatch(/class="side-panel".*role="status">\s*<p>The event is corrected\./s);
  expect((await get(row)).text).toMatch(/Sent as.*12\.5.*Counted five times/s);
  expect(saved).toMatch(/data-label="Quantity"><div>2\.5 .*<\/div> <span class="badge"[^>]*>Corrected/);
  expect((await get(row)).text.split('id="corrections-title"')[1]).toContain(`<bdi>${operator.name}</bdi>`);
  const overview = await operator.browser.get('/console/customers/acme', html);
  expect(overview.text.split('id="changes"')[1]).toMatch(/Corrected the event\s+<a [^>]*>\s*<bdi>of acme</);
});

it('names the caps and limits that a correction crosses, and when the credits then run out', async () => {
  const { db } = database;
  const { id } = await createOrganization(db, { slug: 'crossing' });
  const product = await createProduct(db, {
    slug: 'crossing',
    creditPrice: '1',
    creditEnforcement: 'warn',
    subjectsSince: past,
  });
  const limit = { enforcement: 'warn' as const, window: 'PT5H' };
  await grant(db, id, product.id, {
    hasOwnCap: true,
    unitCap: '90',
    limits: [
      { ...limit, quantity: '50' },
      { ...limit, quantity: '1000' },
      { ...limit, quantity: '55', per: 'subject' },
    ],
  });
  const { secret } = await createKey(db, id);
  const send = async (key: string, quantity: number, day: string) => {
    service.clock.set(`${day}T00:00:00.000Z`);
    const event = usageEvent('crossing', key, { quantity, subject: 'jo', occurredAt: `${day}T00:00:00Z` });
    expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
  };
  service.clock.set('2026-03-02T00:00:00.000Z');
  await addGrant(db, id, { amount: '1000' }, new Date(service.clock.now()));
  await send('earlier', 40, '2026-03-02');
  await send('today', 60, '2026-03-04');
  const effectOf = async (event: string, quantity: string) => {
    const path = `/console/customers/crossing/usage?event=${event}&correct=amend`;
    const form = { quantity, reason: 'Wrong', correctionKey: uuid() };
    const { text } = await operator.browser.send('POST', path, { headers: html, form });
    const rows = [...text.matchAll(/<th scope="row" role="rowheader"><div><bdi>([^<]+)<(.*?)<\/tr>/gs)];
    const notes = rows.map(([, name, cells]) => [name, /note quiet">([^<]+)/.exec(cells!)?.[1]]);
    const ends = /<dt>Credits run out<.*?<\/dd>/s.exec(text)?.[0] ?? '';
    return [notes.filter(([, note]) => note), [...ends.matchAll(/\d+ \w+ 2026/g)].join(' ')];
  };
  const within = 'in the last 5\u00a0hours';
  const names = [
    ['Its month (UTC)', 'cap of 90'],
    [`Used ${within}`, 'limit of 50'],
    [`Used by jo ${within}`, 'limit of 55'],
  ];
  expect(await effectOf('today', '10')).toEqual([
    names.map(([name, most]) => [name, `no longer over its ${most}`]),
    '19 Apr 2026 21 Apr 2026',
  ]);
  expect(await effectOf('today', '59')).toEqual([[], '']);
  expect(await effectOf('earlier', '20')).toEqual([
    [[names[0]![0], 'no longer over its cap of 90']],
    expect.any(String),
  ]);
  const save = { quantity: '10', reason: 'Wrong', correctionKey: uuid(), step: 'save' };
  const path = '/console/customers/crossing/usage?event=today&correct=amend';
  expect((await operator.browser.send('POST', path, { headers: html, form: save })).status).toBe(303);
  expect((await effectOf('today', '60'))[0]).toEqual(names.map(([name, most]) => [name, `over its ${most}`]));
});

it('narrows the events to an API key or a subject, and names both', async () => {
  const get = (path: string) => operator.browser.get(`/console/customers/acme/usage${path}`, html);
  const key = /[?&]key=[\w-]{36}/.exec((await get('')).text.replaceAll('&amp;', '&'))![0].slice(1);
  const own = (await get(`?${key}`)).text;
  expect(own).toContain('event=of+acme');
  expect(own).toMatch(
    new RegExp(`<option value="">\\s*All API keys.*<option value="${key.slice(4)}" selected>`, 's'),
  );
  expect(own).not.toContain('id="field-subject"');
  expect((await get('?subject=nobody')).text).toMatch(/id="field-subject".*value="nobody".*No events match/s);
  const showAll = '/console/customers/acme/usage?mode=live">Show all';
  for (const query of ['?subject=nobody', `?${key}`, '?idempotencyKey=of', '?from=2026-03-04'])
    expect([query, (await get(query)).text.includes(showAll)]).toEqual([query, true]);
  expect((await get('')).text).not.toContain('Show all');
  for (const typed of [' of acme ', '"of acme"', ' "of acme" ', "'of'"]) {
    const q = encodeURIComponent(typed);
    expect([typed, (await get(`?idempotencyKey=${q}`)).text.includes('event=of+acme')]).toEqual([
      typed,
      true,
    ]);
    const found = await operator.browser.get(`/console/search?q=${q}`, html);
    expect([typed, found.text.includes('event=of+acme')]).toEqual([typed, true]);
  }
  expect((await operator.browser.get('/console/customers/acme/keys', html)).text).toContain(
    `href="/console/customers/acme/usage?mode=live&amp;${key}"`,
  );
});

it('lists the events of some days and of all products, and downloads those of one product', async () => {
  const { db } = database;
  const { id } = await createOrganization(db, { slug: 'two-products' });
  const { secret } = await createKey(db, id);
  for (const slug of ['maps', 'rain']) {
    await grant(db, id, (await createProduct(db, { slug, dimensions: ['model'] })).id);
    const event = { ...usageEvent(slug, `from ${slug}`), dimensions: { model: `large ${slug}` } };
    await sendUsage(service.url, secret, [event]);
  }
  const path = '/console/customers/two-products/usage';
  const keysOn = async (query: string) =>
    [...(await operator.browser.get(path + query, html)).text.matchAll(/title="(from \w+)" data-panel/g)].map(
      ([, key]) => key,
    );
  expect(new Set(await keysOn(''))).toEqual(new Set(['from maps', 'from rain']));
  expect(await keysOn('?product=maps')).toEqual(['from maps']);
  const narrow = '?product=maps&mode=live&dimension.model=large+maps';
  expect((await operator.browser.get(path, html)).text).toContain(`usage${narrow.replaceAll('&', '&amp;')}"`);
  expect(await keysOn(narrow)).toEqual(['from maps']);
  expect(await keysOn('?product=maps&dimension.model=small')).toEqual([]);
  expect(await keysOn('?product=rain&dimension.size=small')).toEqual(['from rain']);
  expect(await keysOn('?from=2026-03-04&to=2026-03-04')).toHaveLength(2);
  expect(await keysOn('?to=2026-03-03')).toEqual([]);
  const linksOn = async (query: string) => {
    const { text } = await operator.browser.get(path + query, html);
    return [
      ...text
        .replaceAll('&amp;', '&')
        .matchAll(/<a href="([^"]+)"( aria-current="true")?>(?:<bdi>)?([^<]+)/g),
    ];
  };
  const hrefOf = async (label: string, query: string) =>
    (await linksOn(query)).find(([, , , name]) => name === label)?.[1];
  for (const [label, days] of [
    ['Today', 'from=2026-03-04&to=2026-03-04'],
    ['Yesterday', 'from=2026-03-03&to=2026-03-03'],
    ['This month', 'from=2026-03-01&to=2026-03-31'],
    ['Last month', 'from=2026-02-01&to=2026-02-28'],
  ] as const) {
    expect(await hrefOf(label, '?subject=jo&from=2026-03-01&to=2026-03-01')).toBe(
      `${path}?mode=live&subject=jo&${days}`,
    );
    const current = (await linksOn(`?${days}`))
      .filter(([, , isCurrent]) => isCurrent)
      .map(([, , , name]) => name);
    expect(current).toEqual(['Events', label, 'Live']);
  }
  for (const [query, chart] of [
    ['', '&mode=live'],
    ['?mode=test&product=maps&to=2026-03-03', '&product=maps&mode=test'],
    ['?from=2026-02-03+10:00&to=2026-03-02+12:30', '&mode=live&from=2026-02-03&to=2026-03-02'],
    ['?from=2026-02-03&to=2026-03-02', '&mode=live&from=2026-02-03&to=2026-03-02'],
    ['?from=2026-02-03', '&mode=live&from=2026-02-03&to=2026-03-04'],
  ] as const)
    expect(await hrefOf('Chart and totals', query)).toBe(`/console/usage?organization=two-products${chart}`);
  const file = await operator.browser.get(`${path}.csv?product=maps`, html);
  expect([file.status, file.text.trim().split('\r\n').length]).toEqual([200, 2]);
  const all = await operator.browser.get(`${path}.csv?from=2026-03-04`, html);
  expect(all.headers.get('content-disposition')).toContain('events-all-products-live-20260304T0000Z-to-');
  expect([...all.text.matchAll(/^"(from \w+)"/gm)].map(([, key]) => key)).toEqual(['from maps', 'from rain']);
  const wrong = await operator.browser.get(`${path}.csv?product=maps&to=2026-02-30`, html);
  expect(wrong.status).toBe(400);
  const none = await operator.browser.get(`${path}?product=nothing`, html);
  expect([none.status, none.text]).toEqual([404, expect.stringMatching(/error"[^>]*>Not a product of/)]);
});

it('names an invalid filter at its field and keeps the others', async () => {
  for (const [query, field, problem] of [
    ['from=31+Foo&to=2026-03-05', 'from', 'Must be a date like 29 Nov 2026 or 29 Nov 2026 14:00.'],
    ['from=3+Mar+2026+25:00', 'from', 'Must be a date like 29 Nov 2026 or 29 Nov 2026 14:00.'],
    ['from=2026-03-05&to=2026-03-04', 'to', 'Must not be before From.'],
    ['to=2026-11-31', 'to', 'November has only 30 days.'],
    ['mode=other', 'mode', 'Must be live or test.'],
  ] as const) {
    const path = `/console/customers/acme/usage?subject=jo&${query}`;
    const { status, text } = await operator.browser.get(path, html);
    expect([query, status]).toEqual([query, 400]);
    if (field !== 'mode') expect(text).toContain('Correct this field to see the result:');
    expect(text).toMatch(new RegExp(`role="alert".*href="#field-${field}">[^<]+</a>: ${problem}`, 's'));
    expect(text.split('class="filters"')[field === 'mode' ? 0 : 1]).toMatch(
      new RegExp(`error"[^>]*>${problem}`),
    );
    expect(text).toMatch(/name="subject"[^>]*value="jo"/);
    expect(text).not.toContain('id="events"');
  }
});

it('sums the events of a filter, offers the known subjects, and marks events of the other mode', async () => {
  const { db } = database;
  const { id } = await createOrganization(db, { slug: 'sums' });
  const product = await createProduct(db, {
    slug: 'sums',
    creditPrice: '2',
    creditEnforcement: 'warn',
    subjectsSince: past,
  });
  await grant(db, id, product.id);
  await addGrant(db, id, { amount: '1000' }, new Date(service.clock.now()));
  const [live, test] = [await createKey(db, id), await createKey(db, id, { livemode: false })];
  const events = ['11:30', '12:30', '13:30'].map((time, i) =>
    usageEvent('sums', `sum_${i}`, {
      quantity: 5,
      occurredAt: `2026-03-03T${time}:00Z`,
      subject: i === 0 ? 'app-team' : 'web-team',
    }),
  );
  expect((await sendUsage(service.url, live.secret, events)).status).toBe(202);
  await sendUsage(service.url, test.secret, [usageEvent('sums', 'sum_of_test')]);
  const get = async (query: string) => {
    const { text } = await operator.browser.get(`/console/customers/sums/usage?${query}`, html);
    return text.replaceAll(/\s+/g, ' ');
  };
  const sumsOf = async (query: string) => /id="events-title">.*?<\/h2>/.exec(await get(query))?.[0];
  const at = (time: string) => encodeURIComponent(`3 Mar 2026 ${time}`);
  expect(await sumsOf('mode=live')).not.toContain('credits');
  expect(await sumsOf('from=2026-03-03&to=2026-03-03')).toContain(
    '(3 events, 15 <bdi>calls</bdi>, 30 credits)',
  );
  expect(await sumsOf(`from=${at('12:00')}&to=${at('12:30')}`)).toContain(
    '(1 event, 5 <bdi>calls</bdi>, 10 credits)',
  );
  expect(await sumsOf(`from=${at('12:30')}&to=${at('12:30')}`)).toContain('(1 event, ');
  expect(await sumsOf(`from=${at('12:00')}&to=${at('12:29:59')}`)).not.toContain('(1 event');
  expect(await sumsOf(`from=${at('12:30')}&to=2026-03-03`)).toContain(
    '(2 events, 10 <bdi>calls</bdi>, 20 credits)',
  );
  for (const subject of ['web-team', '+web-team+'])
    expect(await sumsOf(`subject=${subject}`)).toContain('(2 events, 10 <bdi>calls</bdi>, 20 credits)');
  expect(await get(`from=${at('13:00')}&to=${at('12:00')}`)).toContain('Must not be before From.');
  const subjects = '<option value="web-team"></option><option value="app-team"></option>';
  expect(await get('subject=app')).toContain(`<datalist id="field-subject-values">${subjects}`);
  expect(await get('subject=app')).toMatch(
    /placeholder="exact value".*No events match. Enter the whole subject/,
  );
  const found = await get('idempotencyKey=sum');
  expect(found.match(/data-tone="none">Test</g)).toHaveLength(1);
  expect((await get('mode=test&idempotencyKey=sum')).match(/data-tone="info">Live</g)).toHaveLength(3);
  const everywhere = 'href="/console/search?q=of+acme">Search all customers</a>';
  for (const query of ['idempotencyKey=of+acme', 'event=of+acme'])
    expect([query, (await get(query)).includes(everywhere)]).toEqual([query, true]);
  const { text } = await operator.browser.get('/console/search?q=sum_of_test', html);
  expect(text).toContain('test event of');
});

it('says in test mode that the customer’s figures are live', async () => {
  for (const tab of ['usage', 'credits'])
    for (const mode of ['live', 'test']) {
      const { text } = await operator.browser.get(`/console/customers/acme/${tab}?mode=${mode}`, html);
      const [, strip] = /aria-label="In short">(.*?)<\/section>/s.exec(text)!;
      expect([tab, mode, />Live<\/span>/.test(strip!)]).toEqual([tab, mode, mode === 'test']);
    }
});
