import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { scopes as allScopes } from '../../src/accounts/api-keys/scopes.js';
import { buildDocument } from '../../src/core/reference/document.js';
import { toPythonTypes } from '../../tools/clients/python-types.js';
import { systemClock } from '../../src/core/time.js';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import { addGrant } from '../metering/support/credits.js';
import { createProduct, grant } from '../metering/support/products.js';
import { createKey, createOrganization, createServiceKey } from '../support/fixtures.js';
import { checkTypes, hasMypy, hasPython, pythonClient } from '../support/python.js';
import { use, useService } from '../support/use.js';

const run = promisify(execFile);

it('the types of the Python client match the OpenAPI document', async () => {
  const document = buildDocument(await describeService(products));
  const committed = readFileSync(join(pythonClient, 'src/gauge/types.py'), 'utf8');
  expect(committed, 'Run `npm run client:python` and commit types.py.').toBe(
    toPythonTypes(document, ['/api/', '/service/']),
  );
});

it.skipIf(!hasMypy)('mypy accepts each Python program of the READMEs', async () => {
  const texts = ['README.md', 'clients/python/README.md'].map((path) => readFileSync(path, 'utf8'));
  const programs = texts.flatMap((text) => [...text.matchAll(/^```python\n(.*?)^```$/gms)]);
  expect(programs).toHaveLength(7);
  await checkTypes(programs.map(([, program]) => program!));
});

it.skipIf(!hasMypy)('mypy accepts the Python client', async () => {
  const cache = mkdtempSync(join(tmpdir(), 'gauge-mypy-'));
  await run('mypy', ['--cache-dir', cache], { cwd: pythonClient });
  rmSync(cache, { recursive: true });
});

describe.skipIf(!hasPython)('the Python client', () => {
  const { database, service } = useService({ context: { clock: systemClock } });
  const folder = use(
    () => ({ path: mkdtempSync(join(tmpdir(), 'gauge-venv-')) }),
    ({ path }) => rmSync(path, { recursive: true }),
  );

  it('installs into a fresh virtual environment without a network, and its tests pass against the service', async () => {
    const { id, slug } = await createOrganization(database.db);
    const [product, limited] = [await createProduct(database.db), await createProduct(database.db)];
    await grant(database.db, id, product.id);
    const limits = [{ quantity: '10', window: 'PT1H', enforcement: 'block' as const }];
    await grant(database.db, id, limited.id, { limits });
    const scopes = [...allScopes];
    const key = await createKey(database.db, id, { scopes });
    const serviceKey = await createServiceKey(database.db, [...scopes, 'keys:verify']);
    const testKey = await createKey(database.db, id, { scopes, livemode: false });

    const payer = await createOrganization(database.db);
    const priced = await createProduct(database.db, { creditPrice: '1', creditEnforcement: 'block' });
    await grant(database.db, payer.id, priced.id);
    await addGrant(database.db, payer.id, { amount: '10' }, new Date());
    const creditsKey = await createKey(database.db, payer.id, { scopes });

    await run('python3', ['-m', 'venv', folder.path]);
    await run(join(folder.path, 'bin/pip'), ['install', '--no-index', '--quiet', pythonClient]);
    const { stderr } = await run(join(folder.path, 'bin/python'), ['-B', '-m', 'unittest'], {
      cwd: pythonClient,
      env: {
        ...process.env,
        GAUGE_URL: service.url,
        GAUGE_API_KEY: key.secret,
        GAUGE_TEST_KEY: testKey.secret,
        GAUGE_SERVICE_KEY: serviceKey.secret,
        GAUGE_ORGANIZATION: slug,
        GAUGE_PRODUCT: product.slug,
        GAUGE_PRICED_PRODUCT: priced.slug,
        GAUGE_CREDITS_KEY: creditsKey.secret,
        GAUGE_LIMITED_PRODUCT: limited.slug,
      },
    });
    expect(stderr).toMatch(/Ran [6-9]\d tests[\s\S]*OK\n$/);
  });
});
