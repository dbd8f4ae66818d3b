import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

interface Service {
  image?: string;
  build?: string;
  pull_policy?: string;
  restart?: string;
  profiles?: string[];
  depends_on?: Record<string, { condition: string }>;
  read_only?: boolean;
  privileged?: boolean;
  cap_drop?: string[];
  cap_add?: string[];
  security_opt?: string[];
  networks?: string[];
  ports?: string[];
  volumes?: string[];
  command?: string[];
  environment?: Record<string, string>;
}

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const compose = parse(read('docker-compose.yml'), { merge: true }) as {
  services: Record<string, Service>;
  networks: Record<string, { internal?: boolean } | null>;
};
const services = Object.entries(compose.services);

describe.each(services)('the container %s', (name, service) => {
  it('has a read-only root, no capability that it does not need, and gains no privileges', () => {
    expect(service).toMatchObject({
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
    });
    expect(service.privileged).toBeUndefined();
    // The Postgres image starts as root to take ownership of its volume; the other services add no capabilities.
    if (name !== 'postgres') expect(service.cap_add).toBeUndefined();
  });

  it('runs an exact version', () => {
    const image =
      service.image === 'gauge' ? /^ARG NODE_IMAGE=(.+)$/m.exec(read('Dockerfile'))![1]! : service.image!;
    expect(image).toMatch(/:\d+\.\d+(\.\d+)?-bookworm/);
  });

  it('is reachable from this machine at most', () => {
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
    if (name !== 'app') expect(service.networks).toEqual(['back']);
    expect(compose.networks.back).toEqual({ internal: true });
    for (const volume of service.volumes ?? []) expect(volume).not.toContain('docker.sock');
  });
});

describe('the sharded database', () => {
  const sharded = parse(read('docker-compose.citus.yml'), { merge: true }) as typeof compose & {
    volumes: Record<string, unknown>;
  };
  const servers = Object.entries(sharded.services).filter(([, { volumes }]) => volumes !== undefined);

  it('is a coordinator in the place of Postgres and two workers, with a volume each', () => {
    expect(servers.map(([name]) => name)).toEqual(['postgres', 'worker-1', 'worker-2']);
    const data = servers.map(([, { volumes }]) => volumes![0]!.split(':')[0]!);
    expect(data).toEqual(Object.keys(sharded.volumes));
  });

  it.each(Object.entries(sharded.services).filter(([name]) => name !== 'app'))(
    'the container %s is as hardened and runs an exact version',
    (_name, service) => {
      expect(service).toMatchObject({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        networks: ['back'],
      });
      expect(service.ports).toBeUndefined();
      if (service.image !== 'gauge')
        expect(service.image).toMatch(/^\$\{CITUS_IMAGE:-citusdata\/citus:\d+\.\d+\.\d+\}$/);
    },
  );

  it.each(servers)('%s has what Citus requires', (_name, { command }) => {
    expect(command).toEqual(
      expect.arrayContaining(['-cshared_preload_libraries=citus', '-cwal_level=logical']) as unknown,
    );
    const numberOf = (setting: string) =>
      Number(command!.find((one) => one.includes(setting))!.split('=')[1]);
    expect(numberOf('max_prepared_transactions')).toBeGreaterThanOrEqual(numberOf('max_connections'));
  });
});

it('the service has the password of the role that serves, and no other', () => {
  const { app, migrate } = compose.services;
  const told = JSON.stringify(app!.environment);
  expect(told).toContain('gauge_app:${POSTGRES_APP_PASSWORD');
  expect(told).not.toMatch(/POSTGRES_OWNER_PASSWORD|POSTGRES_PASSWORD|gauge_owner/);
  expect(migrate!.environment!.MIGRATION_DATABASE_URL).toContain('gauge_owner:');
});

it('Postgres and Redis require passwords, which have no fallback', () => {
  const text = read('docker-compose.yml');
  for (const name of [
    'POSTGRES_PASSWORD',
    'POSTGRES_OWNER_PASSWORD',
    'POSTGRES_APP_PASSWORD',
    'REDIS_PASSWORD',
  ]) {
    const uses = [...text.matchAll(new RegExp(`(?<!\\$)\\$\\{${name}(.{2})`, 'g'))];
    expect(uses.length).toBeGreaterThan(0);
    for (const [, operator] of uses) expect(operator).toBe(':?');
  }
  expect(text).toContain('requirepass');
});

const citus = parse(read('docker-compose.citus.yml'), { merge: true }) as typeof compose;
const merged = Object.entries(citus.services).reduce<Record<string, Service>>(
  (all, [name, service]) => ({
    ...all,
    [name]: { ...all[name], ...service, depends_on: { ...all[name]?.depends_on, ...service.depends_on } },
  }),
  compose.services,
);

describe.each([
  ['docker-compose.yml', compose.services],
  ['both files', merged],
])('`up --build --wait` of %s', (_files, all) => {
  it('builds the image once, and never takes it from a registry', () => {
    const users = Object.entries(all).filter(([, { image }]) => image === 'gauge');
    expect(users.filter(([, { build }]) => build !== undefined).map(([name]) => name)).toEqual(['app']);
    for (const [name, { pull_policy }] of users) if (name !== 'app') expect(pull_policy).toBe('never');
  });

  it('has a service that waits for the end of each service that ends, without which it fails', () => {
    const ending = Object.keys(all).filter((name) => all[name]!.restart === 'on-failure');
    const awaited = Object.values(all)
      .filter(({ profiles }) => profiles === undefined)
      .flatMap(({ depends_on = {} }) => Object.entries(depends_on))
      .filter(([, { condition }]) => condition === 'service_completed_successfully')
      .map(([name]) => name);
    expect(ending).not.toHaveLength(0);
    expect(awaited).toEqual(expect.arrayContaining(ending));
  });

  it('mounts only files that are committed', () => {
    const mounted = Object.values(all)
      .flatMap(({ volumes = [] }) => volumes)
      .filter((volume) => volume.startsWith('./'));
    for (const volume of mounted) expect(tracked(volume.split(':')[0]!)).toMatch(/^100/);
  });
});

const root = new URL('../..', import.meta.url).pathname;
const tracked = (path: string) =>
  execFileSync('git', ['ls-files', '--stage', path], { cwd: root, encoding: 'utf8' });

const initScripts = Object.values(merged)
  .flatMap(({ volumes = [] }) => volumes)
  .filter((volume) => /:\/docker-entrypoint-initdb\.d\/[^/]+\.sh:/.test(volume))
  .map((volume) => volume.split(':')[0]!);

describe.each([...new Set(initScripts)])('the init script %s', (path) => {
  it('is executable for whoever clones the repository', () => {
    expect(tracked(path)).toMatch(/^100755 /);
  });

  /** Runs the script as the entrypoint of the Postgres image does: a file without its mode is read into the entrypoint. */
  function play(mode: number, psql: string) {
    const folder = mkdtempSync(join(tmpdir(), 'gauge-init-'));
    try {
      const script = join(folder, basename(path));
      cpSync(join(root, path), script);
      chmodSync(script, mode);
      writeFileSync(join(folder, 'psql'), `#!/bin/sh\n${psql}\n`, { mode: 0o755 });
      const entrypoint = `set -Eeo pipefail; if [ -x "$1" ]; then "$1"; else . "$1"; fi; echo "$unset_variable"; echo serves`;
      const { status, stdout } = spawnSync('bash', ['-c', entrypoint, 'entrypoint', script], {
        env: { PATH: `${folder}:${process.env.PATH}`, POSTGRES_USER: 'postgres' },
        encoding: 'utf8',
      });
      return { status, serves: stdout.includes('serves') };
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  it.each([0o755, 0o644])(
    'with mode %o leaves the entrypoint running, and stops it if psql fails',
    (mode) => {
      expect(play(mode, 'cat > /dev/null')).toEqual({ status: 0, serves: true });
      expect(play(mode, 'exit 3')).toMatchObject({ status: 3, serves: false });
    },
  );
});
