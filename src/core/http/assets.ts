import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, RequestHandler, Response } from 'express';
import { once } from '../steps.js';
import { endShared } from './connections.js';
import { nothingHere } from './problem.js';

/** Bytes that lie ready, compressed and plain: answers share them, however many wait to be read. */
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

/** A file that is served under its own name, or one that is put together of several, in their order. */
export type AssetSource = string | { name: string; files: readonly string[]; end?: string };

export interface Assets {
  /** Where the files are, with a hash of all of them in it, so that they may be cached for ever. */
  base(): Promise<string>;
  /** Answers `…/:version/:file`. */
  serve: RequestHandler<{ version: string; file: string }>;
}

const types: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
};

/** Files that pages load, under `mount`. They are read and compressed at the first use and kept. */
export function createAssets(mount: string, listSources: () => AssetSource[]): Assets {
  const load = once(() => loadAssets(listSources()));
  return {
    base: async () => `${mount}/${(await load()).version}`,
    async serve(req, res) {
      const { version, files } = await load();
      const asset = files.get(req.params.file);
      if (!asset) throw nothingHere();
      // While versions change over, a page of the one may ask an instance of the other: it gets what there is, not to keep.
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

/** Answers with bytes that were compressed beforehand. */
export function sendCompressed(
  req: Request<object>,
  res: Response,
  type: string,
  { plain, gzipped }: Compressed,
): void {
  res.setHeader('Content-Type', type);
  res.vary('Accept-Encoding');
  const isGzip = req.acceptsEncodings('gzip', 'identity') === 'gzip';
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
    if (type === undefined) throw new Error(`${name}: no media type is known for this file`);
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
