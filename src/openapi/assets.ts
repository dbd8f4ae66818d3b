import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

export interface Asset {
  type: string;
  gzipped: Buffer;
}

export interface Assets {
  /** Where the files are served: the path holds a hash of all of them, so that they may be cached for ever. */
  version: string;
  files: ReadonlyMap<string, Asset>;
}

const ownFolder = fileURLToPath(new URL('../../views/docs', import.meta.url));
// The package is found, never imported: importing it would load the whole bundle into the process.
const swaggerFolder = () =>
  join(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'), '..');

const types = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8' };

/** Reads and compresses the files of the API reference. */
export async function loadAssets(): Promise<Assets> {
  const swagger = swaggerFolder();
  const sources = [
    join(swagger, 'swagger-ui.css'),
    join(swagger, 'swagger-ui-bundle.js'),
    join(ownFolder, 'docs.css'),
    join(ownFolder, 'docs.js'),
  ];
  const hash = createHash('sha256');
  const files = new Map<string, Asset>();
  for (const source of sources) {
    const bytes = await readFile(source);
    hash.update(bytes);
    const name = source.slice(source.lastIndexOf('/') + 1);
    const type = name.endsWith('.css') ? types.css : types.js;
    files.set(name, { type, gzipped: await promisify(gzip)(bytes, { level: 9 }) });
  }
  return { version: hash.digest('hex').slice(0, 16), files };
}
