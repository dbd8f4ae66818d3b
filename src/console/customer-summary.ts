import type { Orm } from '../core/db/client.js';
import type { Context } from '../core/http/context.js';
import type { Signal } from './customer-queries.js';

export interface Flag {
  tone: 'bad' | 'warn';
  label: string;
}

export interface CustomerSummary {
  column: string;
  view: string;
  signals: readonly Signal[];
  read(orm: Orm, nowMs: number, orgIds: readonly string[]): Promise<Map<string, CustomerFacts>>;
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
