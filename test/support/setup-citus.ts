import type { TestProject } from 'vitest/node';
import { createCitusCluster } from './citus-cluster.js';
import { provideOwnBuild } from './own-build.js';
import { makeTemplate } from './setup-postgres.js';

declare module 'vitest' {
  interface ProvidedContext {
    /**
     * URLs of the maintenance databases, the coordinator's first. `template_gauge` on the coordinator is migrated,
     * empty and not sharded.
     */
    citusUrls: string[];
  }
}

export default async function setup(project: TestProject) {
  const removeBuild = await provideOwnBuild();
  const cluster = await createCitusCluster();
  await makeTemplate(cluster.coordinator);
  project.provide('postgresUrl', cluster.coordinator.url('postgres'));
  project.provide('citusUrls', cluster.urls);
  return () => {
    removeBuild();
    return cluster.remove();
  };
}
