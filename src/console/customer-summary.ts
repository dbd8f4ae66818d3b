import type { Orm } from '../core/db/client.js';
import type { Context } from '../core/http/context.js';
import type { Signal } from './customer-queries.js';

export interface Flag {
  tone: 'bad' | 'warn';
  label: string;
}

/** A product's contribution to the customer list: a column, flags, filters by these flags, and a panel. */
export interface CustomerSummary {
  column: string;
  view: string;
  signals: readonly Signal[];
  read(orm: Orm, nowMs: number, orgIds: readonly string[]): Promise<Map<string, CustomerFacts>>;
  /** Shown at the top of a customer's page. */
  panel?: CustomerPanel;
}

interface CustomerPanel {
  view: string;
  read(deps: Pick<Context, 'db' | 'clock'>, orgId: string): Promise<object>;
}

export interface CustomerFacts {
  data: object;
  flags: Flag[];
}
