import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import type { RequestHandler } from 'express';
import { once } from '../steps.js';
import { createSharedContent, sendSharedContent, type SharedContent } from './encoding.js';
import { nothingHere } from './problem.js';

export type AssetSource = string | { name: string; files: readonly string[]; end?: string };

export interface Assets {
  /** Contains a hash of all files, so that they can be cached forever. */
  base(): Promise<string>;
  serve: RequestHandler<{ version: string; file: string }>;
}

const types: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  ico: 'image/x-icon',
  js: 'text/javascript; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
  webp: 'image/webp',
  woff2: 'font/woff2',
};

export function createAssets(mount: string, listSources: () => AssetSource[]): Assets {
  const load = once(() => loadAssets(listSources()));
  return {
    base: async () => `${mount}/${(await load()).version}`,
    async serve(req, res) {
      const { version, files } = await load();
      const asset = files.get(req.params.file);
      if (!asset) throw nothingHere();
      // During a rolling update, a page may request a file of another version. It gets the current one, uncached.
      const isExact = req.params.version === version;
      res.setHeader('Cache-Control', isExact ? 'public, max-age=31536000, immutable' : 'no-store');
      await sendSharedContent(req, res, asset);
    },
  };
}

async function loadAssets(sources: AssetSource[]) {
  const hash = createHash('sha256');
  const files = new Map<string, SharedContent>();
  for (const source of sources) {
    const { name, bytes: read } = await readSource(source);
    const bytes = name.endsWith('.css') ? withoutComments(read) : read;
    hash.update(bytes);
    const type = types[name.slice(name.lastIndexOf('.') + 1)];
    if (type === undefined) throw new Error(`${name}: unknown media type`);
    files.set(name, createSharedContent(type, bytes, 'best'));
  }
  return { version: hash.digest('hex').slice(0, 16), files };
}

async function readSource(source: AssetSource): Promise<{ name: string; bytes: Buffer }> {
  if (typeof source === 'string') return { name: basename(source), bytes: await readFile(source) };
  const { name, files, end = '' } = source;
  const parts = await Promise.all(files.map((file) => readFile(file)));
  return { name, bytes: Buffer.concat([...parts, Buffer.from(end)]) };
}

const withoutComments = (css: Buffer): Buffer => Buffer.from(css.toString().replace(/\/\*.*?\*\//gs, ''));
