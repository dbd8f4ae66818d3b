import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

interface Service {
  image?: string;
  build?: string;
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
    const image = service.build ? /^ARG NODE_IMAGE=(.+)$/m.exec(read('Dockerfile'))![1]! : service.image!;
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

  it.each(Object.entries(sharded.services))(
    'the container %s is as hardened and runs an exact version',
    (_name, service) => {
      expect(service).toMatchObject({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        networks: ['back'],
      });
      expect(service.ports).toBeUndefined();
      if (!service.build)
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
