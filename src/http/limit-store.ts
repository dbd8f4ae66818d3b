import { MemoryStore, type Store } from 'express-rate-limit';

/** Makes the store in which one rate limit is counted. */
export interface LimitStores {
  create(name: string): Store;
  close(): Promise<void>;
}

/** Counts in this process: exact for one instance. */
export function memoryLimitStores(): LimitStores {
  return { create: () => new MemoryStore(), close: () => Promise.resolve() };
}
