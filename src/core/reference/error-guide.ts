import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { ErrorCode } from '../errors.js';

/** Markdown; `/docs/errors` shows it. */
export interface Guide {
  meaning?: string;
  remedy?: string;
}

/** If several files explain the same code, their sentences are concatenated in order. */
export function readGuides(files: readonly URL[]): Record<ErrorCode, Required<Guide>> {
  const joined: Record<string, Required<Guide>> = {};
  const guides = files.map((file) => parse(readFileSync(file, 'utf8')) as Record<string, Guide>);
  for (const [code, { meaning, remedy }] of guides.flatMap((guide) => Object.entries(guide))) {
    const known = joined[code];
    joined[code] = { meaning: join(known?.meaning, meaning), remedy: join(known?.remedy, remedy) };
  }
  return joined;
}

const join = (...sentences: (string | undefined)[]): string => sentences.filter(Boolean).join(' ');
