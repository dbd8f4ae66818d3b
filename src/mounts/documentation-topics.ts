import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { Reference } from '../core/reference/described.js';

interface Topic {
  title: string;
  summary: string;
  words?: string[];
  operationId?: string;
}

const file = new URL('../../views/docs/topics.yaml', import.meta.url);
const byTask = parse(readFileSync(file, 'utf8')) as Record<string, Record<string, Topic>>;

export const topics = Object.entries(byTask).flatMap(([task, own]) =>
  Object.entries(own).map(([id, topic]) => ({ id, task, ...topic })),
);

export const listTopics = ({ routes }: Reference) =>
  topics.filter(
    ({ operationId }) =>
      operationId === undefined || routes.some((route) => route.operationId === operationId),
  );
