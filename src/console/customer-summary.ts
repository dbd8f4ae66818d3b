import type { Part } from '../accounts/audit/wording.js';
import type { Orm } from '../core/db/client.js';
import type { Context } from '../core/http/context.js';
import type { Signal } from './customer-queries.js';

export interface Flag {
  tone: 'bad' | 'warn';
  label: string;
}

export interface CustomerSummary {
  columns: readonly CustomerColumn[];
  /** Renders the columns' cells. */
  view: string;
  /** Renders a customer's figures. */
  header: string;
  signals: readonly Signal[];
  /** In one statement for each shard group. */
  read(
    db: Context['db'],
    nowMs: number,
    orgIds: readonly string[],
    withTrends: boolean,
  ): Promise<Map<string, CustomerFacts>>;
  /** Above the list. */
  tiles(facts: readonly SortedFacts[]): Tile[];
  panel?: CustomerPanel;
  /** For a customer's timeline, newest first. */
  listMoments?(orm: Orm, orgId: string, limit: number): Promise<Moment[]>;
}

export interface Moment {
  at: Date;
  what: Part[];
}

export interface CustomerColumn {
  id: string;
  label: string;
  isNumber?: true;
  /** At the first click on its header. */
  isLargestFirst?: true;
}

export interface Tile {
  label: string;
  value: string;
  query: { signal?: string; sort?: string };
}

interface CustomerPanel {
  view: string;
  read(deps: Pick<Context, 'db' | 'clock'>, orgId: string): Promise<object>;
}

export interface SortedFacts {
  /** By column. Customers without a key come last in any order. */
  keys: Record<string, number | string | undefined>;
  /** Ids of the product's signals. */
  signals: string[];
}

export interface CustomerFacts extends SortedFacts {
  flags: Flag[];
  data: object;
}
