import { rmSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import type { MessagePort } from 'node:worker_threads';
import { connectPglite, type PgliteClient } from './pglite-port.js';

export class ServiceEndedError extends Error {}

const socketIn = (dataDir: string): string => join(dataDir, 'gauge.sock');

/**
 * Lets commands run by the same user work on the embedded database while this process has it open. A client can run any
 * statement; only the owner of the database files can connect.
 */
export async function openDatabaseSocket(
  dataDir: string,
  openPort: () => MessagePort,
): Promise<{ close(): void }> {
  const path = socketIn(dataDir);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const port = openPort();
    sockets.add(socket);
    port.on('message', (message) => socket.write(toFrame(message)));
    readFrames(socket, (message) => port.postMessage(message));
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      sockets.delete(socket);
      port.close();
    });
  });
  // A killed process leaves its socket behind. It is safe to remove, because this process holds the directory's lock.
  rmSync(path, { force: true });
  await new Promise<void>((resolve) => {
    server.on('error', () => resolve());
    const umask = process.umask(0o177);
    server.listen(path, resolve);
    process.umask(umask);
  });
  server.unref();
  return {
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Undefined if no process is listening. */
export async function connectDatabaseSocket(dataDir: string): Promise<PgliteClient | undefined> {
  const socket = createConnection(socketIn(dataDir));
  const isOpen = await new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
  });
  if (!isOpen) return undefined;
  socket.on('error', () => socket.destroy());
  const ended = new Promise<never>((_resolve, reject) => {
    socket.once('close', () =>
      reject(new ServiceEndedError('Gauge stopped while this command was running. Run it again.')),
    );
  });
  ended.catch(() => undefined);
  const client = connectPglite({
    postMessage: (message) => void socket.write(toFrame(message)),
    on: (_event, listener) => readFrames(socket, listener),
  });
  return {
    query: ((...args: Parameters<PgliteClient['query']>) =>
      Promise.race([client.query(...args), ended])) as PgliteClient['query'],
    transaction: (work) => Promise.race([client.transaction(work), ended]),
    close: async () => void socket.destroy(),
  };
}

const LENGTH_BYTES = 4;

function toFrame(message: unknown): Buffer {
  const body = serialize(message);
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(body.length);
  return Buffer.concat([length, body]);
}

function readFrames(socket: Socket, onMessage: (message: unknown) => void): void {
  let parts: Buffer[] = [];
  let size = 0;
  let needed = LENGTH_BYTES;
  let isBody = false;
  socket.on('data', (part: Buffer) => {
    parts.push(part);
    size += part.length;
    while (size >= needed) {
      const all = Buffer.concat(parts, size);
      const head = all.subarray(0, needed);
      parts = [all.subarray(needed)];
      size -= needed;
      if (isBody) onMessage(deserialize(head));
      needed = isBody ? LENGTH_BYTES : head.readUInt32BE();
      isBody = !isBody;
    }
  });
}
