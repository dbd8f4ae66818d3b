import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import type { Context } from '../core/http/context.js';
import { inChunks, shareRun } from '../core/steps.js';
import { MINUTE_MS } from '../core/time.js';
import type { Wording } from '../accounts/audit/wording.js';
import { countFailingWebhooks, findIds, ownSignals, type Customer, type Signal } from './customer-queries.js';
import type { CustomerFacts, CustomerSummary, SortedFacts } from './customer-summary.js';
import { addressOf, type ConsoleDeps } from './page.js';

export interface CustomerDeps extends ConsoleDeps, Pick<Context, 'log' | 'metrics'> {
  wording: Wording;
  summaries: readonly CustomerSummary[];
}

export type AllFacts = Awaited<ReturnType<typeof readAllFacts>>;

/** A larger installation's page shows older figures, or none. */
const PATIENCE_MS = 500;
/** In one statement. */
const READ_CUSTOMERS = 1000;

/** Two other signals do not outweigh it. */
const URGENT = 3;

/** Reads every customer's facts when they are older than a minute, and waits for them only if a page needs them. */
export function createReader(deps: CustomerDeps) {
  let latest: AllFacts | undefined;
  const { run } = shareRun(async () => (latest = await readAllFacts(deps)));
  const refresh = () =>
    run().catch((error: unknown) => {
      deps.log.warn({ err: error }, 'the figures of all customers could not be read');
      return latest;
    });
  const read = async (isNeeded: boolean): Promise<AllFacts | undefined> => {
    if (latest && Math.abs(deps.clock.now() - latest.atMs) < MINUTE_MS) return latest;
    if (isNeeded && !latest) return run();
    return Promise.race([refresh(), setTimeout(PATIENCE_MS, undefined, { ref: false }).then(() => latest)]);
  };
  return { read, forget: () => (latest = undefined) };
}

async function readAllFacts({ db, clock, summaries }: CustomerDeps) {
  const atMs = clock.now();
  const ids = await findIds(db, sql`true`);
  const facts = summaries.map(() => new Map<string, SortedFacts>());
  for (const some of inChunks(ids, READ_CUSTOMERS))
    for (const [i, summary] of summaries.entries())
      for (const [id, { keys, signals }] of await summary.read(db, atMs, some, false))
        facts[i]!.set(id, { keys, signals });
  const met = new Map<string, Signal[]>(ids.map((id) => [id, listMet(summaries, facts, id)]));
  for (const signal of ownSignals)
    for (const id of await findIds(db, signal.condition!(atMs))) met.get(id)?.push(signal);
  const needs = new Map([...met].map(([id, signals]) => [id, toNeeds(signals)]));
  return { atMs, facts: [...facts, needs], failingWebhooks: await countFailingWebhooks(db) };
}

const listMet = (
  summaries: readonly CustomerSummary[],
  facts: readonly Map<string, SortedFacts>[],
  orgId: string,
): Signal[] =>
  summaries.flatMap((summary, i) =>
    summary.signals.filter(({ id }) => facts[i]!.get(orgId)?.signals.includes(id)),
  );

/** Customers that need no attention have no key. */
const toNeeds = (met: readonly Signal[]): SortedFacts => {
  const attention = met.reduce((sum, { isUrgent }) => sum + (isUrgent ? URGENT : 1), 0);
  return { keys: { attention: attention || undefined }, signals: [] };
};

/** Also renews what was read of all customers before. */
export async function toCustomerViews(
  { db, clock, summaries }: CustomerDeps,
  customers: Customer[],
  older: AllFacts['facts'] = [],
) {
  const ids = customers.map(({ id }) => id);
  const facts: Map<string, CustomerFacts>[] = [];
  for (const [i, summary] of summaries.entries()) {
    const read = await summary.read(db, clock.now(), ids, true);
    for (const [id, { keys, signals }] of read) if (older[i]?.has(id)) older[i].set(id, { keys, signals });
    facts.push(read);
  }
  const needs = older.at(-1);
  return customers.map((customer) => {
    const parts = facts.map((own) => own.get(customer.id)!);
    const own = ownSignals.filter(({ isMet }) => isMet!(customer));
    const need = toNeeds([...own, ...listMet(summaries, facts, customer.id)]);
    if (needs?.has(customer.id)) needs.set(customer.id, need);
    return {
      ...customer,
      href: addressOf(customer.slug),
      keys: Object.assign({}, ...[...parts, need].map(({ keys }) => keys)) as SortedFacts['keys'],
      parts: parts.map(({ data }) => data),
      flags: parts.flatMap(({ flags }) => flags),
    };
  });
}
