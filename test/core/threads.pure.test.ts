import { once } from 'node:events';
import { MessageChannel } from 'node:worker_threads';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { connectThread } from '../../src/core/threads.js';

interface Calls {
  double(value: number): number;
  fail(): void;
}

let channel: MessageChannel;
beforeEach(() => (channel = new MessageChannel()));
afterEach(() => channel.port1.close());

class DatabaseError extends Error {
  code = '23505';
  values = ['not copied'];
}

function connect() {
  connectThread<object, Calls>(channel.port1, {
    double: (value) => value * 2,
    fail() {
      throw new DatabaseError('duplicate', { cause: Object.assign(new Error('inner'), { code: '57P01' }) });
    },
  });
  return connectThread<Calls>(channel.port2, {});
}

it('calls functions on the other side', async () => {
  expect(await connect().double(21)).toBe(42);
});

it('passes an error on with its message, its simple fields and its cause', async () => {
  const error: unknown = await connect()
    .fail()
    .catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(Error);
  expect(error).toMatchObject({
    message: 'duplicate',
    code: '23505',
    cause: { message: 'inner', code: '57P01' },
  });
  expect(error).not.toHaveProperty('values');
  expect((error as Error).stack).toContain('threads.pure.test');
});

it('rejects calls that wait when the connection is closed', async () => {
  const remote = connectThread<{ wait(): Promise<void> }>(channel.port2, {});
  connectThread<object, { wait(): Promise<void> }>(channel.port1, {
    wait: () => new Promise(() => undefined),
  });
  const waiting = remote.wait();
  const closed = once(channel.port1, 'close');
  channel.port2.close();
  await closed;
  remote.$close(new Error('ended'));
  await expect(waiting).rejects.toThrow('ended');
});
