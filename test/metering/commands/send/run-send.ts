import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { runSendCommand } from '../../../../src/metering/commands/send/command.js';
import type { Summary } from '../../../../src/metering/commands/send/send.js';
import { ownScript } from '../../../support/own-build.js';

export interface SendRun {
  child: ChildProcess;
  ended: Promise<{ code: number | null; stdout: string; stderr: string; summary: Summary }>;
}

/** Starts the command in a separate process, as a user does. `summary` requires `--json`. */
export function startSend(
  args: string[],
  env: { GAUGE_URL?: string; GAUGE_API_KEY?: string; OPERATOR_TOKEN?: string; NODE_OPTIONS?: string },
  input?: Buffer | string,
): SendRun {
  const child = spawn(process.execPath, [...ownScript('src/metering/commands/send'), ...args], {
    env: { PATH: process.env.PATH, ...env },
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdin.on('error', () => undefined);
  if (input !== undefined) child.stdin.end(input);
  const ended = new Promise<Awaited<SendRun['ended']>>((resolve) => {
    child.on('close', (code) => {
      resolve({
        code,
        stdout,
        stderr,
        get summary() {
          return JSON.parse(stdout) as Summary;
        },
      });
    });
  });
  return { child, ended };
}

/** Like `startSend`, but runs in this process, which is faster. */
export async function send(
  args: string[],
  env: { GAUGE_URL?: string; GAUGE_API_KEY?: string; OPERATOR_TOKEN?: string; NODE_OPTIONS?: string },
  input: Buffer | string = '',
  { silentMs = 30_000 } = {},
): Promise<Awaited<SendRun['ended']>> {
  let stdout = '';
  let stderr = '';
  const code = await runSendCommand({
    args,
    env,
    stdin: Readable.from([Buffer.from(input)]),
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
    interrupt: new AbortController().signal,
    backoffMs: 5,
    silentMs,
  });
  return {
    code,
    stdout,
    stderr,
    get summary() {
      return JSON.parse(stdout) as Summary;
    },
  };
}

/** Creates a folder that `remove` deletes after the file's tests. */
export function createFolder(): { path(name: string): string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-send-'));
  return {
    path: (name) => join(folder, name),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
