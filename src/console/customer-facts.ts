import { setTimeout } from 'node:timers/promises';
import type { Context } from '../core/http/context.js';
import { inChunks, shareRun } from '../core/steps.js';
import { MINUTE_MS } from '../core/time.js';
import { formatCount } from '../core/pages/format.js';
import { ownSignals, readCurrentCustomers, type Customer, type Signal } from './customer-queries.js';
import { toFlag, type CustomerFacts, type CustomerSummary, type SortedFacts } from './customer-summary.js';

export interface FactsDeps extends Pick<Context, 'db' | 'clock' | 'log'> {
  summaries: readonly CustomerSummary[];
}

export type AllFacts = Awaited<ReturnType<typeof readAllFacts>>;

/** A larger installation's page shows older figures, or none. */
const PATIENCE_MS = 500;
/** In one statement. */
const READ_CUSTOMERS = 1000;

/** Reads every customer's facts when they are older than a minute, and waits for them only if a page needs them. */
export function createReader(deps: FactsDeps) {
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

async function readAllFacts({ db, clock, summaries }: FactsDeps) {
  const atMs = clock.now();
  const customers = await readCurrentCustomers(db.orm, atMs);
  const facts = summaries.map(() => new Map<string, SortedFacts>());
  for (const some of inChunks(customers, READ_CUSTOMERS))
    for (const [i, summary] of summaries.entries()) {
      const ids = some.map(({ id }) => id);
      for (const [id, { keys, signals, degree, words }] of await summary.read(db, atMs, ids, false))
        facts[i]!.set(id, { keys, signals, degree, words });
    }
  const needs = new Map(customers.map((customer) => [customer.id, toNeeds(customer, summaries, facts)]));
  const words = new Map(
    customers.map(({ id, ownerName, owner, invited }) => [
      id,
      [ownerName, owner, invited, ...facts.map((own) => own.get(id)?.words)].join(' ').toLowerCase(),
    ]),
  );
  return { atMs, facts: [...facts, needs], words };
}

function toNeeds(
  customer: Customer,
  summaries: readonly CustomerSummary[],
  facts: readonly Map<string, SortedFacts>[],
): SortedFacts {
  const own: Signal[] = ownSignals.filter(({ isMet }) => isMet(customer));
  const ofProducts = summaries.flatMap((summary, i) =>
    summary.signals.filter(({ id }) => facts[i]!.get(customer.id)?.signals.includes(id)),
  );
  const sum = [...own, ...ofProducts].reduce((total, { urgency }) => total + 100 ** urgency, 0);
  const degree = Math.max(0, ...facts.map((all) => all.get(customer.id)?.degree ?? 0));
  return { keys: { attention: sum && sum + degree }, signals: own.map(({ id }) => id) };
}

const tones = ['bad', 'warn', 'info'];

/** Reasons for attention. A wrong code means that the password was right. */
function listFlags(
  { isArchived, expiringKeys, failingWebhooks, owners, invited, failed }: Customer,
  parts: CustomerFacts[],
) {
  return [
    ...toFlag('warn', isArchived, 'Archived', '/settings'),
    ...parts.flatMap(({ flags }) => flags),
    ...toFlag('warn', expiringKeys, `${formatCount(expiringKeys, 'key')} expiring`, '/keys'),
    ...toFlag('bad', failingWebhooks, `${formatCount(failingWebhooks, 'webhook')} failing`, '/webhooks'),
    ...toFlag('info', owners === 0 && invited, 'Owner invited', '/people'),
    ...toFlag('warn', owners === 0 && !invited, 'No owner', '/people'),
    ...toFlag('warn', failed.passwords, formatCount(failed.passwords, 'wrong password'), '/people'),
    ...toFlag('bad', failed.codes, formatCount(failed.codes, 'wrong code'), '/people'),
  ].toSorted((a, b) => tones.indexOf(a.tone) - tones.indexOf(b.tone));
}

/** Also renews what was read of all customers before. */
export async function toCustomerViews(
  { db, clock, summaries }: FactsDeps,
  customers: Customer[],
  { older = [], withTrends }: { older?: AllFacts['facts']; withTrends: boolean },
) {
  const ids = customers.map(({ id }) => id);
  const facts: Map<string, CustomerFacts>[] = [];
  for (const [i, summary] of summaries.entries()) {
    const read = await summary.read(db, clock.now(), ids, withTrends);
    for (const [id, { keys, signals, degree }] of read)
      if (older[i]?.has(id)) older[i].set(id, { keys, signals, degree });
    facts.push(read);
  }
  const needs = older.at(-1);
  return customers.map((customer) => {
    const parts = facts.map((own) => own.get(customer.id)!);
    const need = toNeeds(customer, summaries, facts);
    if (needs?.has(customer.id)) needs.set(customer.id, need);
    return {
      ...customer,
      keys: Object.assign({}, ...[...parts, need].map(({ keys }) => keys)) as SortedFacts['keys'],
      parts: parts.map(({ data }) => data),
      flags: listFlags(customer, parts),
      latest: parts.map(({ latest }) => latest),
      cells: parts.flatMap(({ cells }) => cells),
    };
  });
}
