import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import type { OpenApiDocument } from '../../src/core/reference/document.js';
import { createChecker } from './check.js';
import { toCurl, toCurlOfRaw } from './curl.js';
import { anyRaw } from './raw.js';
import { anyRequest, type FuzzRequest, type Operation, type Parameter } from './requests.js';
import { send, sendRaw } from './send.js';
import type { Schema } from './values.js';
import { makeWorld } from './world.js';

export interface FuzzOptions {
  url: string;
  /** The server's process id, used to measure its memory. */
  pid: number;
  requests: number;
  seed: number;
  onProgress?: (line: string) => void;
}

export interface FuzzReport {
  requests: number;
  statuses: Record<string, number>;
  slowestMs: number;
  /** Resident memory after a third of the requests and at the end. */
  memoryMb: { third: number; end: number };
  faults: string[];
}

const PARALLEL = 8;
/** Every twentieth request uses a raw socket. */
const RAW_EVERY = 20;
const MAX_FAULTS = 50;
/** Allowed memory growth after the first third, because caches fill and the heap fluctuates. */
const MAX_GROWTH = { share: 0.3, mb: 60 };

/** Sends requests, each determined only by the seed and its number. */
export async function fuzz({ url, pid, requests, seed, onProgress }: FuzzOptions): Promise<FuzzReport> {
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as OpenApiDocument;
  const components = (document.components?.schemas ?? {}) as Record<string, Schema>;
  const world = await makeWorld(url);
  const findFault = createChecker(document);
  const any = anyRequest(listOperations(document), world, components);
  const report: FuzzReport = {
    requests: 0,
    statuses: {},
    slowestMs: 0,
    memoryMb: { third: 0, end: 0 },
    faults: [],
  };
  const target = new URL(url);

  async function runOne(number: number): Promise<void> {
    const params = { seed: seed * 1_000_003 + number, numRuns: 1 };
    if (number % RAW_EVERY === 0) {
      const [bytes] = fc.sample(anyRaw, params) as [Buffer];
      const fault = await sendRaw(target, bytes);
      if (fault !== undefined) report.faults.push(`${number}: ${fault}\n  ${toCurlOfRaw(target, bytes)}`);
      return;
    }
    const [request] = fc.sample(any, params) as [FuzzRequest];
    const fault = await send(target, request).then(
      (answer) => {
        report.statuses[answer.status] = (report.statuses[answer.status] ?? 0) + 1;
        report.slowestMs = Math.max(report.slowestMs, answer.ms);
        return findFault(request, answer);
      },
      (error: unknown) => `got no answer: ${String(error)}`,
    );
    if (fault !== undefined)
      report.faults.push(`${number}: ${request.actor.name}: ${fault}\n  ${toCurl(target, request)}`);
  }

  let next = 1;
  const work = Array.from({ length: PARALLEL }, async () => {
    for (let number = next++; number <= requests && report.faults.length < MAX_FAULTS; number = next++) {
      await runOne(number);
      report.requests++;
      if (report.requests === Math.floor(requests / 3)) report.memoryMb.third = memoryOf(pid);
      if (report.requests % 500 === 0) onProgress?.(`${report.requests} requests, ${memoryOf(pid)} MB`);
    }
  });
  await Promise.all(work);
  const { third } = report.memoryMb;
  const end = (report.memoryMb.end = memoryOf(pid));
  if (third > 0 && end - third > third * MAX_GROWTH.share + MAX_GROWTH.mb)
    report.faults.push(`the server grew from ${third} to ${end} MB`);
  return report;
}

const memoryOf = (pid: number): number =>
  Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024);

interface DocumentedOperation {
  security?: Record<string, unknown>[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
}

function listOperations(document: OpenApiDocument): Operation[] {
  return Object.entries(document.paths ?? {}).flatMap(([path, methods]) =>
    Object.entries(methods as Record<string, DocumentedOperation>).map(([method, operation]) => {
      const [mediaType, body] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
      return {
        method,
        path,
        security: Object.keys(operation.security?.[0] ?? {})[0],
        parameters: operation.parameters ?? [],
        mediaType,
        bodySchema: body?.schema,
      };
    }),
  );
}
