import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/time.js';
import { createProduct, grant } from '../metering/support/products.js';
import { createKey, createOrganization, createServiceKey, past } from '../support/fixtures.js';
import { checkTypes, hasPython, providePackages, pythonClient } from '../support/python.js';
import { use, useService } from '../support/use.js';

const run = promisify(execFile);
const options = { cwd: pythonClient, maxBuffer: 64 * 1024 * 1024 };

describe.skipIf(!hasPython)('the Python adapters', () => {
  const { database, service } = useService({ context: { clock: systemClock } });
  const packages = use(
    async () => ({ python: await providePackages() }),
    () => undefined,
  );

  async function createFixtures(): Promise<Record<string, string>> {
    const { db } = database;
    const organization = await createOrganization(db);
    const createLimited = async (...limits: { quantity: string; per?: 'subject' }[]) => {
      const values = { usageMetric: 'tokens', dimensions: ['model', 'kind'], subjectsSince: past };
      const product = await createProduct(db, values);
      const all = limits.map((limit) => ({ ...limit, window: 'P31D', enforcement: 'block' as const }));
      await grant(db, organization.id, product.id, { limits: all });
      return product.slug;
    };
    const serviceKey = await createServiceKey(db, [
      'usage:write',
      'usage:read',
      'entitlements:read',
      'keys:verify',
    ]);
    const other = await createOrganization(db);
    const revokedAt = new Date('2020-01-02T00:00:00Z');
    return {
      GAUGE_URL: service.url,
      GAUGE_SERVICE_KEY: serviceKey.secret,
      GAUGE_ORGANIZATION: organization.slug,
      GAUGE_API_KEY: (await createKey(db, organization.id)).secret,
      GAUGE_REVOKED_KEY: (await createKey(db, organization.id, { revokedAt })).secret,
      GAUGE_OTHER_KEY: (await createKey(db, other.id)).secret,
      GAUGE_PRODUCT: await createLimited(),
      // Room for 40 calls that reserve 1,000 to 1,024 tokens each.
      GAUGE_PRODUCT_FOR_40: await createLimited({ quantity: '40960', per: 'subject' }),
      GAUGE_PRODUCT_FOR_10: await createLimited({ quantity: '10' }),
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    };
  }

  async function runTests(name: string): Promise<string> {
    const { python } = packages;
    const env = { ...process.env, PYTHONPATH: 'src', ...(await createFixtures()) };
    const { stderr } = await run(python!, ['-B', '-m', 'unittest', `adapter_tests.${name}`], {
      ...options,
      env,
    });
    return stderr;
  }

  it('FastAPI and Starlette verify keys, check entitlements, meter and reserve', async ({ skip }) => {
    skip(packages.python === undefined);
    expect(await runTests('asgi_test')).toMatch(/Ran \d+ tests[\s\S]*OK\n$/);
  });

  it('LiteLLM reserves before each call and settles what it used', async ({ skip }) => {
    skip(packages.python === undefined);
    expect(await runTests('litellm_test')).toMatch(/Ran \d+ tests[\s\S]*OK\n$/);
  });

  it('the extras name packages that are tested', async ({ skip }) => {
    skip(packages.python === undefined);
    const install = ['-m', 'pip', 'install', '--dry-run', '--no-index', '--quiet', '.[asgi,litellm]'];
    const { stderr } = await run(packages.python!, install, options);
    expect(stderr).not.toContain('does not provide the extra');
  });

  it('mypy and pyright accept the adapters and the programs of their guides', async ({ skip }) => {
    skip(packages.python === undefined);
    const python = packages.python!;
    const guides = ['ASGI.md', 'LITELLM.md'].map((name) => readFileSync(join(pythonClient, name), 'utf8'));
    const programs = guides.flatMap((text) => [...text.matchAll(/^```python\n(.*?)^```$/gms)]);
    expect(programs).toHaveLength(3);
    await checkTypes(
      programs.map(([, program]) => program!),
      python,
    );
    const adapters = ['asgi', 'litellm'].map((name) => join('src/gauge', `${name}.py`));
    const tests = readdirSync(join(pythonClient, 'adapter_tests')).filter((name) => name.endsWith('.py'));
    const files = [...adapters, ...tests.map((name) => join('adapter_tests', name))];
    await run(python, ['-m', 'mypy', '--strict', '--cache-dir', '/dev/null', ...files], options);
    await run(python, ['-m', 'pyright', '--pythonpath', python], options);
  });
});
