import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { findFreePort } from './free-port.js';

/** The command that starts Redis; undefined if Redis is not installed. TEST_REDIS_BIN overrides it. */
export function findRedisBinary(): string | undefined {
  const binary = process.env.TEST_REDIS_BIN ?? 'redis-server';
  try {
    execFileSync(binary, ['--version'], { stdio: 'ignore' });
    return binary;
  } catch {
    return undefined;
  }
}

export interface RedisServer {
  url: string;
  start(): Promise<void>;
  stall(): void;
  resume(): void;
  kill(): Promise<void>;
  /** Sends one command over a separate connection and returns the first line of the response. */
  command(line: string): Promise<string>;
}

export async function createRedisServer(): Promise<RedisServer> {
  const binary = findRedisBinary();
  if (!binary) throw new Error('No Redis was found; install redis-server or set TEST_REDIS_BIN.');
  const port = await findFreePort();
  let server: ChildProcess | undefined;

  async function command(line: string): Promise<string> {
    const socket = connect(port, '127.0.0.1');
    try {
      await once(socket, 'connect');
      socket.write(`${line}\r\n`);
      const [chunk] = (await once(socket, 'data')) as [Buffer];
      return chunk.toString().split('\r\n', 1)[0]!;
    } finally {
      socket.destroy();
    }
  }

  async function answers(): Promise<boolean> {
    return command('PING').then(
      (answer) => answer === '+PONG',
      () => false,
    );
  }

  return {
    url: `redis://127.0.0.1:${port}`,
    command,
    async start() {
      const options = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
      server = spawn(binary, options, { stdio: 'ignore' });
      for (let i = 0; i < 200; i++) {
        if (await answers()) return;
        await setTimeout(25);
      }
      throw new Error('Redis did not answer within 5 seconds.');
    },
    stall: () => void server?.kill('SIGSTOP'),
    resume: () => void server?.kill('SIGCONT'),
    async kill() {
      if (!server || server.exitCode !== null || server.signalCode !== null) return;
      const ended = once(server, 'exit');
      server.kill('SIGKILL');
      await ended;
    },
  };
}
