import { createHash } from 'node:crypto';
import { DAY_MS } from '../time.js';
import { asShown } from './example-prose.js';
import { exampleWorld } from './example-world.js';
import type { SentRequest } from './described.js';

type Fields = Record<string, unknown>;

/** Replace the shared examples' values. */
export interface OwnValues {
  now: Date;
  /** Only the prefix of a key is ever shown. */
  prefixes: { live?: string | undefined; test?: string | undefined };
  parts: OwnPart[];
}

export interface OwnPart {
  /** The keys are the ids in the examples. */
  ids?: Record<string, string | undefined>;
  renameText?: (text: string, use: 'request' | 'answer') => string;
  renameFields?: (fields: Fields, use: 'request' | 'answer') => Fields;
  adapt?: (request: SentRequest, example: SentRequest) => SentRequest;
}

export type ReadOwnPart = (orgId: string, now: Date) => Promise<OwnPart>;

const exampleNow = exampleWorld.now;
const time = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

/** The request also succeeds with the member's key. */
export function ownRequest(request: SentRequest, own: OwnValues): SentRequest {
  const plain = asShown(request) as SentRequest;
  const renamed = rename(plain, own, 'request') as SentRequest;
  const { headers = {}, body } = renamed;
  const key = headers['idempotency-key'];
  const hash = createHash('sha256')
    .update(JSON.stringify(body ?? null))
    .digest('hex');
  // An idempotency key must not be reused for a different body, so the key includes a hash of the body.
  const sent =
    key === undefined
      ? renamed
      : {
          ...renamed,
          headers: { ...headers, 'idempotency-key': `${stamp(key, own.now)}-${hash.slice(0, 4)}` },
        };
  return own.parts.reduce((changed, { adapt }) => adapt?.(changed, plain) ?? changed, sent);
}

/** Numbers are not changed. */
export const ownAnswer = (answer: unknown, own: OwnValues): unknown => rename(asShown(answer), own, 'answer');

function rename(value: unknown, own: OwnValues, use: 'request' | 'answer'): unknown {
  if (typeof value === 'string') return renameText(value, own, use);
  if (Array.isArray(value)) return value.map((item) => rename(item, own, use));
  if (typeof value !== 'object' || value === null) return value;
  const fields = value as Fields;
  const texts = Object.entries(fields).map(([name, inner]) => [name, rename(inner, own, use)]);
  const changed = own.parts.map(({ renameFields }) => renameFields?.(fields, use));
  return Object.assign(Object.fromEntries(texts), ...changed);
}

function renameText(text: string, { now, parts }: OwnValues, use: 'request' | 'answer'): string {
  const ownId = parts.map(({ ids }) => ids?.[text]).find((id) => id !== undefined);
  if (ownId !== undefined) return ownId;
  const offsetMs = now.getTime() - Date.parse(exampleNow);
  if (time.test(text)) return new Date(Date.parse(text) + offsetMs).toISOString();
  return parts.reduce((changed, part) => part.renameText?.(changed, use) ?? changed, text);
}

/** Differs for each visit, so that trying the example records an event instead of returning a duplicate. */
export function stamp(key: string, now: Date): string {
  const visit = Math.floor((now.getTime() % (100 * DAY_MS)) / 1000).toString(36);
  return `${key.replace(exampleNow.slice(0, 13), now.toISOString().slice(0, 13))}-${visit}`;
}
