import { spawn, type ChildProcess } from 'node:child_process';
import { ownScript } from '../support/own-build.js';

export interface ServerProcess {
  /** Resolves once it listens; rejects if it ends before that. */
  ready: Promise<void>;
  readonly isRunning: boolean;
  /** The last part of its output. */
  output(): string;
  /** Ends it with a signal; resolves with its exit code, null if killed. */
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null>;
}

/** Starts the service as a separate process. */
export function startServerProcess(env: Record<string, string>): ServerProcess {
  const child = spawn(process.execPath, ownScript('test/support/serve'), {
    env: { PATH: process.env.PATH, NODE_ENV: 'test', LOG_LEVEL: 'error', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const ready = new Promise<void>((resolve, reject) => {
    const read = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-8_000);
      if (/^\{"port":\d+\}$/m.test(output)) resolve();
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    void exit.then((code) =>
      reject(new Error(`The server ended with ${code} before it listened:\n${output}`)),
    );
  });
  ready.catch(() => undefined);
  return {
    ready,
    get isRunning() {
      return isRunning(child);
    },
    output: () => output,
    end(signal) {
      child.kill(signal);
      return exit;
    },
  };
}

const isRunning = (child: ChildProcess) => child.exitCode === null && child.signalCode === null;
