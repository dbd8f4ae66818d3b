import { sql, type SQL } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { selectRows, textArray, timeText } from '../../core/db/sql.js';
import { addTo } from './file.js';
import type { ArchivedEvent, Month, Sum } from './queries.js';

/** @throws ArchiveError if the sums differ */
type Compare = (
  productId: string,
  actual: ReadonlyMap<string, Sum>,
  expected: ReadonlyMap<string, Sum>,
) => void;

/** One hour at a time, to bound memory. @param remaining the database still has events that are not in the file */
export async function createSubjectCheck(
  orm: Orm,
  month: Month,
  { productIds, remaining, compare }: { productIds: string[]; remaining: boolean; compare: Compare },
) {
  const since = await listSubjectsSince(orm, productIds);
  let sums = new Map<string, Sum>();
  let current = { productId: '', hour: '', from: '' };

  async function check(to: string): Promise<void> {
    const { productId, from } = current;
    const rows = await listSubjects(orm, month, productId, { from, to, remaining });
    compare(productId, sums, new Map(rows.map((row) => [nameOf(row.slot, row), row])));
    sums = new Map();
    current.from = to;
  }

  async function begin(productId: string, hour: string): Promise<void> {
    if (productId === current.productId) await check(`${hour}:00Z`);
    else current.from = month.period;
    current = { ...current, productId, hour };
  }

  return {
    /** Expects events ordered by product, then by time. */
    onSubject: (event: ArchivedEvent & { subject: string }): Promise<void> | undefined => {
      const { productId, occurredAt, receivedAt, quantity } = event;
      const first = since.get(productId);
      // With microseconds and one time zone, text sorts chronologically.
      if (first === undefined || receivedAt < first) return undefined;
      const hour = occurredAt.slice(0, 13);
      const add = () => addTo(sums, nameOf(slotOf(occurredAt), event), quantity);
      if (productId !== current.productId || hour !== current.hour) return begin(productId, hour).then(add);
      add();
      return undefined;
    },
    /** Call this after each product's last event. */
    async onProduct(productId: string): Promise<void> {
      if (!since.has(productId)) return;
      if (productId !== current.productId) await begin(productId, '');
      const [year = 0, number = 0] = month.period.split('-').map(Number);
      await check(new Date(Date.UTC(year, number)).toISOString());
    },
  };
}

const nameOf = (slot: string, { subject, metric }: { subject: string; metric: string }): string =>
  `${slot} ${metric} ${subject}`;

/** `2025-10-31T13:45` for 13:47. */
const slotOf = (occurredAt: string): string =>
  `${occurredAt.slice(0, 15)}${Number(occurredAt[15]) < 5 ? 0 : 5}`;

/** RFC 3339 with microseconds. */
async function listSubjectsSince(orm: Orm, ids: string[]): Promise<Map<string, string>> {
  const rows = await selectRows<{ id: string; since: string }>(
    orm,
    sql`select id::text, ${timeText(sql`subjects_since`)} as since from products
    where id = any (${textArray(ids)}::uuid[]) and subjects_since is not null`,
  );
  return new Map(rows.map(({ id, since }) => [id, since]));
}

interface SubjectSum extends Sum {
  slot: string;
  subject: string;
  metric: string;
}

/** `to` is exclusive. Leaves out corrections: a file holds its events as sent. */
function listSubjects(
  orm: Orm,
  { orgId, livemode }: Month,
  productId: string,
  { from, to, remaining }: { from: string; to: string; remaining: boolean },
): Promise<SubjectSum[]> {
  const ofRow = (of: string) =>
    sql.raw(`${of}.org_id = s.org_id and ${of}.product_id = s.product_id and ${of}.livemode = s.livemode and ${of}.metric = s.metric
        and ${of}.subject = s.subject and ${of}.occurred_at >= s.slot and ${of}.occurred_at < s.slot + interval '5 minutes'`);
  const left = (sum: SQL) =>
    remaining
      ? sql`(select ${sum} from usage_events e join products p on p.id = e.product_id
          where ${ofRow('e')} and e.received_at >= p.subjects_since)`
      : sql`0`;
  return selectRows(
    orm,
    sql`select to_char(slot at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI') as slot, subject, metric,
      trim_scale(quantity)::text as quantity, events
    from (
      select slot, subject, metric, (events - ${left(sql`count(*)`)})::float8 as events,
        quantity - ${left(sql`coalesce(sum(e.quantity), 0)`)}
          - (select coalesce(sum(c.quantity - c.previous_quantity), 0) from usage_corrections c where ${ofRow('c')}) as quantity
      from usage_subjects s
      where org_id = ${orgId}::uuid and product_id = ${productId}::uuid and livemode = ${livemode}
        and slot >= ${from}::timestamp at time zone 'UTC' and slot < ${to}::timestamp at time zone 'UTC'
    ) u
    where events <> 0 or quantity <> 0`,
  );
}
