import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { get as getPlain } from 'node:http';
import { request, type RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTenant, usageEvent } from '../metering/support/usage.js';
import { findFreePort } from '../support/free-port.js';
import { startTestService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';
import { useDatabase } from '../support/use.js';

// Each test starts processes, which is slow on a busy machine.

const database = useDatabase();
const folder = mkdtempSync(join(tmpdir(), 'gauge-proxy-'));
const certificate = join(folder, 'certificate.pem');
const key = join(folder, 'key.pem');
const logged: { ip?: string }[] = [];
let tenant: Awaited<ReturnType<typeof createTenant>>;
let service: TestService;

beforeAll(async () => {
  const asked =
    'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost';
  execFileSync('openssl', [...asked.split(' '), '-keyout', key, '-out', certificate], { stdio: 'ignore' });
  tenant = await createTenant(database.db, '1');
  const accessLog = pino({}, { write: (line) => void logged.push(JSON.parse(line) as { ip?: string }) });
  service = await startTestService(database.db, { env: { TRUST_PROXY: '1' }, context: { accessLog } });
});
afterAll(async () => {
  await service?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const read = (path: string) => readFileSync(new URL(`../../deploy/${path}`, import.meta.url), 'utf8');

/** Applies each replacement to the example, which must contain the text to replace. */
function replaceAll(example: string, replacements: [before: string, after: string][]): string {
  return replacements.reduce((text, [before, after]) => {
    expect(text).toContain(before);
    return text.replaceAll(before, after);
  }, example);
}

interface Proxy {
  program: string;
  write(ports: { http: number; https: number }, gauge: string): string;
  check: string[];
  run: string[];
}

const config = join(folder, 'proxy.conf');
const prefix = join(folder, 'nginx');
const nginx: Proxy = {
  program: 'nginx',
  write: ({ http, https }, gauge) =>
    `${process.getuid?.() === 0 ? 'user root; ' : ''}daemon off; pid ${folder}/nginx.pid; error_log stderr; events {} http { access_log off;
${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${prefix}/${name};`).join(' ')}
${replaceAll(read('nginx.conf'), [
  ['server 127.0.0.1:3000', `server ${gauge}`],
  ['listen 80', `listen 127.0.0.1:${http}`],
  ['  listen [::]:80;\n', ''],
  ['listen 443', `listen 127.0.0.1:${https}`],
  ['  listen [::]:443 ssl http2;\n', ''],
  ['/etc/letsencrypt/live/gauge.example.com/fullchain.pem', certificate],
  ['/etc/letsencrypt/live/gauge.example.com/privkey.pem', key],
])} }`,
  check: ['-t', '-p', prefix, '-c', config],
  run: ['-p', prefix, '-c', config],
};
const caddy: Proxy = {
  program: 'caddy',
  write: ({ http, https }, gauge) =>
    `{\n\tadmin off\n\thttp_port ${http}\n\thttps_port ${https}\n\tskip_install_trust\n}\n${replaceAll(
      read('Caddyfile'),
      [
        ['gauge.example.com {', `localhost {\n\tbind 127.0.0.1\n\ttls ${certificate} ${key}`],
        ['127.0.0.1:3000', gauge],
      ],
    )}`,
  check: ['validate', '--adapter', 'caddyfile', '--config', config],
  run: ['run', '--adapter', 'caddyfile', '--config', config],
};

const isInstalled = ({ program }: Proxy) => !spawnSync(program, ['version'], { stdio: 'ignore' }).error;

describe.each([nginx, caddy])('the example for $program', (proxy) => {
  const ports = { http: 0, https: 0 };
  let child: ChildProcess;
  const ask = (options: RequestOptions, body = '') =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const asked = request(
        { host: 'localhost', family: 4, port: ports.https, ca: readFileSync(certificate), ...options },
        async (response) => {
          let text = '';
          for await (const chunk of response.setEncoding('utf8')) text += chunk;
          resolve({ status: response.statusCode!, text });
        },
      );
      asked.on('error', reject);
      asked.end(body);
    });

  beforeAll(async () => {
    if (!isInstalled(proxy)) return;
    mkdirSync(prefix, { recursive: true });
    Object.assign(ports, { http: await findFreePort(), https: await findFreePort() });
    writeFileSync(config, proxy.write(ports, new URL(service.url).host));
    const env = { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
    const checked = spawnSync(proxy.program, proxy.check, { env, encoding: 'utf8' });
    expect(checked.status, checked.stderr).toBe(0);
    child = spawn(proxy.program, proxy.run, { env, stdio: 'ignore' });
    await until(() =>
      ask({ path: '/docs' }).then(
        ({ status }) => status === 200,
        () => false,
      ),
    );
  });
  afterAll(async () => {
    if (!child) return;
    child.kill('SIGTERM');
    await new Promise((resolve) => child.once('exit', resolve));
  });

  it.runIf(isInstalled(proxy))('passes a large batch on, and only the address of the caller', async () => {
    const batch = JSON.stringify({ events: [usageEvent(tenant.product.slug, `${proxy.program} 1`)] });
    logged.length = 0;
    const sent = await ask(
      {
        path: '/api/usage/events',
        method: 'POST',
        headers: {
          authorization: `Bearer ${tenant.key.secret}`,
          'content-type': 'application/json',
          'x-forwarded-for': '203.0.113.7',
        },
      },
      batch + ' '.repeat(4_500_000),
    );
    expect(sent).toMatchObject({ status: 202, text: expect.stringContaining('"accepted":1') });
    await until(() => logged.length > 0);
    expect(logged).toMatchObject([{ ip: expect.stringMatching(/^127\.0\.0\./) }]);
  });

  it.runIf(isInstalled(proxy))('does not expose the probes and metrics, and redirects to https', async () => {
    const spellings = (path: string) => [path, `${path}/`, path.toUpperCase(), `/${path}`, `${path}?a=/`];
    for (const path of ['/healthz', '/readyz', '/metrics', '/Metrics/', '/%6Detrics'].flatMap(spellings))
      expect(await ask({ path })).toMatchObject({
        status: 404,
        text: expect.not.stringContaining('gauge_'),
      });
    const location = await new Promise((resolve, reject) => {
      getPlain(
        { host: '127.0.0.1', port: ports.http, path: '/login?a=b', headers: { host: 'localhost' } },
        (response) => {
          response.resume();
          resolve(response.headers.location);
        },
      ).on('error', reject);
    });
    expect(location).toMatch(/^https:\/\/localhost(:\d+)?\/login\?a=b$/);
  });
});
