import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** The build copies the files beside the compiled code. */
export const readFeatureFiles = (name: 'functions.sql' | 'reference.yaml' | 'webhook-types.yaml'): string[] =>
  readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith(name))
    .sort()
    .map((path) => readFileSync(join(root, path), 'utf8'));
