import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { TestProject } from 'vitest/node';
import { provideOwnBuild } from './own-build.js';
import { openDatabase } from '../../src/core/db/open.js';

export default async function setup(project: TestProject) {
  // Pages need no process of their own.
  const build = project.name === 'browser' ? undefined : provideOwnBuild();
  const folder = mkdtempSync(join(tmpdir(), 'gauge-embedded-'));
  const db = await openDatabase({ databaseUrl: undefined, dataDir: folder }, pino({ level: 'silent' }));
  await db.close();
  // Each start fills the buffers with zeros: with fewer of them a database opens in two thirds of the time.
  appendFileSync(join(folder, 'pglite/postgresql.conf'), "shared_buffers = '16MB'\n");
  const removeBuild = await build;
  project.provide('embeddedTemplate', folder);
  return () => {
    removeBuild?.();
    rmSync(folder, { recursive: true, force: true });
  };
}
