import type { SQL } from 'drizzle-orm';
import type { Part } from '../accounts/audit/wording.js';
import type { Source } from '../accounts/identity/source.js';
import type { Orm, Tx } from '../core/db/client.js';
import type { ErrorCode } from '../core/errors.js';
import type { Context } from '../core/http/context.js';
import type { Metrics } from '../core/metrics.js';
import type { CsvCell } from '../core/pages/csv.js';
import type { FormFields } from '../core/pages/form.js';
import type { Signal } from './customer-queries.js';

export interface Flag {
  tone: 'bad' | 'warn' | 'info';
  label: string;
  /** Shows the cause; relative to the customer's page. */
  path: string;
}

export const toFlag = (tone: Flag['tone'], isMet: unknown, label: string, path: string): Flag[] =>
  isMet ? [{ tone, label, path }] : [];

export interface CustomerSummary {
  columns: readonly CustomerColumn[];
  /** Renders the columns' cells. */
  view: string;
  /** Those of `cells`. */
  csvColumns: readonly string[];
  /** Renders a customer's figures. */
  header: string;
  signals: readonly Signal[];
  /** Also filter the list, with a condition for the rows `o` of organizations. */
  plans?: { list(orm: Orm): Promise<{ value: string; label: string }[]>; isOn(value: string): SQL };
  /** In one statement for each shard group. */
  read(
    db: Context['db'],
    nowMs: number,
    orgIds: readonly string[],
    withTrends: boolean,
  ): Promise<Map<string, CustomerFacts>>;
  /** Above the list. */
  tiles(facts: readonly SortedFacts[]): Tile[];
  /** `aside` renders the same data beside the customer's states. */
  panel?: {
    view: string;
    aside: string;
    read(deps: Pick<Context, 'db' | 'clock'>, orgId: string): Promise<object>;
  };
  /** The main changes, beside a customer's name. Relative to its page. */
  actions?: readonly { label: string; path: string }[];
  newCustomer?: NewCustomerPart;
  /** For a customer's timeline, newest first. */
  listMoments?(orm: Orm, orgId: string, limit: number): Promise<Moment[]>;
}

export interface Moment {
  at: Date;
  /** Where its names lead; relative to the customer's page. */
  path: string;
  isWarning?: boolean;
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
  /** Above 0. */
  tone?: Flag['tone'];
}

export interface SortedFacts {
  /** By column. Customers without a key come last in any order. */
  keys: Record<string, number | string | undefined>;
  /** Ids of the product's signals. */
  signals: string[];
  /** From 0 to below 1. Among customers with equally urgent signals, the highest comes first. */
  degree?: number | undefined;
  /** Searches find the customer by the start of each of their words. */
  words?: string | undefined;
}

/** In the form of a new customer. */
export interface NewCustomerPart {
  view: string;
  read(orm: Orm): Promise<object>;
  /** In the transaction that creates the customer. The result is for after its commit. */
  begin(tx: Tx, slug: string, fields: FormFields, source: Source): Promise<(metrics: Metrics) => void>;
  /** Errors that the form shows. */
  codes: readonly ErrorCode[];
}

export interface CustomerFacts extends SortedFacts {
  flags: Flag[];
  /** A list without room for the column shows this elsewhere. */
  latest: { label: string; at: Date | undefined };
  /** For a CSV file. */
  cells: CsvCell[];
  data: object;
}
