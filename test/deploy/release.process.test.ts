import { execFile } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { buildDocument } from '../../src/core/reference/document.js';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import { hasPython, providePackages } from '../support/python.js';
import { use } from '../support/use.js';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string, folder = root) => readFileSync(join(folder, path), 'utf8');

/** Every place that names the version, with the version that it names. */
const versions = (folder: string) => ({
  manifest: (JSON.parse(read('package.json', folder)) as { version: string }).version,
  lock: (JSON.parse(read('package-lock.json', folder)) as { version: string }).version,
  python: /^Version: (.+)$/m.exec(read('clients/python/METADATA', folder))![1],
  chart: (parse(read('deploy/helm/Chart.yaml', folder)) as { version: string }).version,
  image: (parse(read('deploy/helm/Chart.yaml', folder)) as { appVersion: string }).appVersion,
  compose: /\/gauge:([\d.]+)\}/.exec(read('deploy/compose.yaml', folder))![1],
  readme: /\/gauge:([\d.]+)/.exec(read('README.md', folder))![1],
  'wheel in the readme': /gauge_client-([\d.]+)-py3/.exec(read('README.md', folder))![1],
});

describe('the version', () => {
  const { version } = JSON.parse(read('package.json')) as { version: string };

  it('is the same in every place, and in the OpenAPI document', async () => {
    const document = buildDocument(await describeService(products));
    expect(new Set([...Object.values(versions(root)), document.info.version])).toEqual(new Set([version]));
  });

  it('is written to every place by one command', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'gauge-version-'));
    const files = ['package.json', 'package-lock.json', 'README.md', 'tools/set-version'];
    for (const path of [
      ...files,
      'clients/python/METADATA',
      'deploy/helm/Chart.yaml',
      'deploy/compose.yaml',
    ]) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      copyFileSync(join(root, path), join(folder, path));
    }
    await run(join(folder, 'tools/set-version'), ['12.34.56']);
    expect(new Set(Object.values(versions(folder)))).toEqual(new Set(['12.34.56']));
    rmSync(folder, { recursive: true });
  });
});

describe.skipIf(!hasPython)('a release packs', () => {
  const packed = use(
    async () => {
      const path = mkdtempSync(join(tmpdir(), 'gauge-release-'));
      const env = { ...process.env, GITHUB_REPOSITORY: 'someone/gauge' };
      await run(join(root, 'tools/pack-release'), [path], { cwd: root, env });
      return { path };
    },
    ({ path }) => rmSync(path, { recursive: true }),
  );
  const list = async (command: string, ...args: string[]) =>
    (await run(command, args, { cwd: packed.path })).stdout.trim().split('\n').sort();
  const { version } = JSON.parse(read('package.json')) as { version: string };
  const npm = `gauge-client-${version}.tgz`;
  const wheel = `gauge_client-${version}-py3-none-any.whl`;
  const sdist = `gauge_client-${version}.tar.gz`;
  const modules = readdirSync(join(root, 'clients/python/src/gauge')).filter((name) =>
    /\.py$|typed$/.test(name),
  );

  it('an npm package, a wheel and a source distribution', () => {
    expect(readdirSync(packed.path).sort()).toEqual([npm, wheel, sdist].sort());
  });

  it('each exported module of the npm package with its types, and nothing but modules, types and texts', async () => {
    const files = await list('tar', 'tzf', npm);
    const { stdout } = await run('tar', ['xzOf', npm, 'package/package.json'], { cwd: packed.path });
    const manifest = JSON.parse(stdout) as { exports: object; repository: string };
    const exported = JSON.stringify(manifest.exports).match(/(?<="\.\/)[^"]+\.(js|d\.ts)/g)!;
    expect(exported.length).toBeGreaterThan(0);
    expect(files).toEqual(expect.arrayContaining(exported.map((path) => `package/${path}`)));
    expect(files).toEqual(
      expect.arrayContaining(['LICENSE', 'README.md', 'package.json'].map((path) => `package/${path}`)),
    );
    const other = files.filter((path) => !/\.(js|d\.ts|md)$|\/(LICENSE|package\.json)$/.test(path));
    expect(other).toEqual([]);
    expect(manifest).toMatchObject({ version, repository: 'github:someone/gauge' });
  });

  it('the modules of the Python client in the wheel, and nothing else', async () => {
    const program = 'import sys, zipfile; print("\\n".join(zipfile.ZipFile(sys.argv[1]).namelist()))';
    const info = ['LICENSE', 'METADATA', 'RECORD', 'WHEEL'].map(
      (name) => `gauge_client-${version}.dist-info/${name}`,
    );
    expect(await list('python3', '-c', program, wheel)).toEqual(
      [...modules.map((name) => `gauge/${name}`), ...info].sort(),
    );
  });

  it('a source distribution from which pip builds the same wheel', async () => {
    const files = await list('tar', 'tzf', sdist);
    expect(files).toEqual(
      expect.arrayContaining(modules.map((name) => `gauge_client-${version}/src/gauge/${name}`)),
    );
    expect(files.filter((path) => /__pycache__|\.pyc$|\.\.|^\//.test(path))).toEqual([]);
    const folder = join(packed.path, 'built');
    await run('python3', ['-m', 'venv', join(folder, 'venv')]);
    const pip = join(folder, 'venv/bin/pip');
    await run(pip, [
      'wheel',
      '--quiet',
      '--no-index',
      '--no-deps',
      '--wheel-dir',
      folder,
      join(packed.path, sdist),
    ]);
    const contents =
      'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print({n: z.read(n) for n in z.namelist()})';
    const [first, second] = await Promise.all(
      [join(folder, wheel), join(packed.path, wheel)].map((path) => run('python3', ['-c', contents, path])),
    );
    expect(first!.stdout).toBe(second!.stdout);
    rmSync(folder, { recursive: true });
  });

  it('Python packages that the index would accept', async () => {
    const python = await providePackages('outside-packages.txt');
    if (python === undefined) return;
    const check = run(python, ['-m', 'twine', 'check', '--strict', wheel, sdist], { cwd: packed.path });
    expect((await check).stdout.match(/PASSED/g)).toHaveLength(2);
  });
});

const python = hasPython ? await providePackages('outside-packages.txt') : undefined;
const program = (name: string) => join(dirname(python!), name);

describe.skipIf(python === undefined)('checkers of deployments', () => {
  it('find nothing in the Dockerfile', async () => {
    expect((await run(program('hadolint'), ['Dockerfile'], { cwd: root })).stdout).toBe('');
  });

  it('find nothing in the workflow, whose actions are all pinned by commit', async () => {
    const args = ['--offline', '--format', 'plain', '.github/workflows'];
    const { stdout } = await run(program('zizmor'), args, { cwd: root });
    expect(stdout).toContain('No findings to report');
    const actions = [...read('.github/workflows/release.yml').matchAll(/uses: (\S+)/g)];
    expect(actions.length).toBeGreaterThan(0);
    for (const [, action] of actions) expect(action).toMatch(/^[\w-]+\/[\w-]+@[\da-f]{40}$/);
  });

  const good = {
    image: { repository: 'ghcr.io/someone/gauge' },
    env: { PUBLIC_URL: 'https://gauge.example.com' },
  };
  const helm = `
import json, sys
from helm_python import chart
values = json.loads(sys.argv[2])
lint = chart.lint(sys.argv[1], values, strict=True)
print(json.dumps({"errors": lint["errors"], "text": "\\n---\\n".join(chart.Chart.load(sys.argv[1]).render(values, name="usage").values())}))`;
  const render = async (values: object) => {
    const args = ['-c', helm, join(root, 'deploy/helm'), JSON.stringify(values)];
    return JSON.parse((await run(python!, args)).stdout) as { errors: string[]; text: string };
  };

  it('accept the chart and what it renders', async () => {
    const { errors, text } = await render(good);
    expect(errors).toEqual([]);
    const manifests = parseAllDocuments(text).map((one) => one.toJS() as Record<string, any>);
    expect(manifests.map(({ kind }) => kind)).toEqual(['Deployment', 'Service']);
    const folder = mkdtempSync(join(tmpdir(), 'gauge-chart-'));
    writeFileSync(join(folder, 'gauge.yaml'), text);
    await run(program('kubernetes-validate'), ['--strict', join(folder, 'gauge.yaml')]);
    rmSync(folder, { recursive: true });

    const [deployment, service] = manifests as [any, any];
    const { spec, metadata } = deployment.spec.template;
    expect(service.spec.selector).toEqual(metadata.labels);
    const [container] = spec.containers;
    const { version } = JSON.parse(read('package.json')) as { version: string };
    expect(container.image).toBe(`ghcr.io/someone/gauge:${version}`);
    expect(container.env).toContainEqual({ name: 'PUBLIC_URL', value: 'https://gauge.example.com' });
    // The image's user, whose folders the container may write.
    expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
    expect(read('Dockerfile')).toContain('\nUSER 1000\n');
    expect(container.securityContext).toMatchObject({ readOnlyRootFilesystem: true });
  });

  it.each([
    ['the image', { ...good, image: {} }, 'Set image.repository'],
    ['the public address', { ...good, env: {} }, 'Set env.PUBLIC_URL'],
  ])('show what is missing without %s', async (_what, values, message) => {
    await expect(render(values)).rejects.toMatchObject({
      stderr: expect.stringContaining(message) as string,
    });
  });
});
