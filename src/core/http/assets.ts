import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, RequestHandler, Response } from 'express';
import { once } from '../steps.js';
import { endShared } from './connections.js';
import { nothingHere } from './problem.js';

export interface Compressed {
  plain: Buffer;
  gzipped: Buffer;
}

interface Asset extends Compressed {
  type: string;
}

interface LoadedAssets {
  version: string;
  files: ReadonlyMap<string, Asset>;
}

/** A file served under its own name, or one concatenated from several files in order. */
export type AssetSource = string | { name: string; files: readonly string[]; end?: string };

export interface Assets {
  /** URL prefix of the files. It contains a hash of all of them, so they can be cached forever. */
  base(): Promise<string>;
  serve: RequestHandler<{ version: string; file: string }>;
}

const types: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
  woff2: 'font/woff2',
};

/** Serves files of pages under `mount`. They are read and compressed on first use and kept. */
export function createAssets(mount: string, listSources: () => AssetSource[]): Assets {
  const load = once(() => loadAssets(listSources()));
  return {
    base: async () => `${mount}/${(await load()).version}`,
    async serve(req, res) {
      const { version, files } = await load();
      const asset = files.get(req.params.file);
      if (!asset) throw nothingHere();
      // During a rolling update, a page of one version may ask an instance of the other: it gets the current file, uncached.
      const isExact = req.params.version === version;
      res.setHeader('Cache-Control', isExact ? 'public, max-age=31536000, immutable' : 'no-store');
      sendCompressed(req, res, asset.type, asset);
    },
  };
}

export const compress = async (plain: Buffer): Promise<Compressed> => ({
  plain,
  gzipped: await promisify(gzip)(plain, { level: 9 }),
});

export function sendCompressed(
  req: Request<object>,
  res: Response,
  type: string,
  { plain, gzipped }: Compressed,
): void {
  res.setHeader('Content-Type', type);
  res.vary('Accept-Encoding');
  // A font is compressed already.
  const isGzip = gzipped.length < plain.length && req.acceptsEncodings('gzip', 'identity') === 'gzip';
  const bytes = isGzip ? gzipped : plain;
  if (isGzip) res.setHeader('Content-Encoding', 'gzip');
  res.setHeader('Content-Length', bytes.length);
  endShared(res, bytes);
}

async function loadAssets(sources: AssetSource[]): Promise<LoadedAssets> {
  const hash = createHash('sha256');
  const files = new Map<string, Asset>();
  for (const source of sources) {
    const { name, bytes } = await readSource(source);
    hash.update(bytes);
    const type = types[name.slice(name.lastIndexOf('.') + 1)];
    if (type === undefined) throw new Error(`${name}: unknown media type`);
    files.set(name, { type, ...(await compress(bytes)) });
  }
  return { version: hash.digest('hex').slice(0, 16), files };
}

async function readSource(source: AssetSource): Promise<{ name: string; bytes: Buffer }> {
  if (typeof source === 'string') return { name: basename(source), bytes: await readFile(source) };
  const { name, files, end = '' } = source;
  const parts = await Promise.all(files.map((file) => readFile(file)));
  return { name, bytes: Buffer.concat([...parts, Buffer.from(end)]) };
}
