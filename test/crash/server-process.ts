import { spawn, type ChildProcess } from 'node:child_process';
import { ownScript } from '../support/own-build.js';

export interface ServerProcess {
  /** Resolves once the server is listening; rejects if the process ends first. */
  ready: Promise<void>;
  readonly isRunning: boolean;
  /** The last part of the process's output. */
  output(): string;
  /** Ends the process with a signal and resolves with its exit code, or null if the signal killed it. */
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null>;
}

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
