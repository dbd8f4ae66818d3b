import type { Orm } from '../core/db/client.js';
import type { Signal } from './customer-queries.js';

export interface Flag {
  tone: 'bad' | 'warn';
  label: string;
}

/** What a product shows of each customer: a column of the list, flags, and filters by these flags. */
export interface CustomerSummary {
  /** Heading of the column. */
  column: string;
  /** Label on the page of one customer. */
  label: string;
  /** Template below `views`. */
  view: string;
  /** Introduces the column and the flags above the list. */
  columnHint: string;
  flagHint: string;
  signals: readonly Signal[];
  read(orm: Orm, nowMs: number, orgIds: readonly string[]): Promise<Map<string, CustomerFacts>>;
}

export interface CustomerFacts {
  data: object;
  flags: Flag[];
}
