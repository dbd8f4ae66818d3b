import type { Orm } from '../core/db/client.js';
import type { Context } from '../core/http/context.js';
import type { Signal } from './customer-queries.js';

export interface Flag {
  tone: 'bad' | 'warn';
  label: string;
}

/** A product's part of the customers: a column of the list, flags, filters by these flags, and a panel. */
export interface CustomerSummary {
  /** Heading of the column. */
  column: string;
  /** Template below `views`. */
  view: string;
  signals: readonly Signal[];
  read(orm: Orm, nowMs: number, orgIds: readonly string[]): Promise<Map<string, CustomerFacts>>;
  /** Leads the page of one customer. */
  panel?: CustomerPanel;
}

interface CustomerPanel {
  /** Template below `views`. */
  view: string;
  read(deps: Pick<Context, 'db' | 'clock'>, orgId: string): Promise<object>;
}

export interface CustomerFacts {
  data: object;
  flags: Flag[];
}
