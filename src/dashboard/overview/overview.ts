import { readActors } from '../audit-log/people.js';
import { listAuditRows } from '../../audit/queries.js';
import { toEntryView, type EntryView } from '../audit-log/view.js';
import type { Context } from '../../core/http/context.js';
import type { Orm } from '../../core/db/client.js';
import { compareDecimals, subtractDecimals } from '../../core/decimal.js';
import type { Role } from '../../organizations/table.js';
import { listExpiringKeys, listStandings, readProgress, type Standing } from './queries.js';

const SHOWN_PRODUCTS = 12;
const SHOWN_KEYS = 5;
const SHOWN_CHANGES = 5;
const SOON_MS = 14 * 24 * 60 * 60 * 1000;
/** From this share of its cap on a product is near it. */
const NEAR = 0.8;
/** As long as this few events have come in all, their arrival is worth a word. */
const FIRST_EVENTS = 10;

interface Cap {
  unitCap: string;
  remaining: string;
  /** How far above the cap; `0` below it. */
  above: string;
  /** Used ÷ cap: for a picture and its colour, not for counting. */
  share: number;
  isNear: boolean;
}

export interface ProductView extends Standing {
  cap: Cap | undefined;
}

/** Everything the overview shows. */
export interface Overview {
  /** What is still to do until the first event has arrived; undefined from then on. */
  steps: { hasEntitlement: boolean; hasKey: boolean; example: Standing | undefined } | undefined;
  isJustStarted: boolean;
  products: ProductView[];
  hasMoreProducts: boolean;
  /** Used at least to 80 %, or above. */
  nearCap: ProductView[];
  expiringKeys: Awaited<ReturnType<typeof listExpiringKeys>>;
  /** The newest entries of the audit log; undefined for who may not read it. */
  changes: EntryView[] | undefined;
  mayChangeKeys: boolean;
}

export async function readOverview(
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  { orgId, role }: { orgId: string; role: Role },
  livemode: boolean,
): Promise<Overview> {
  const now = new Date(clock.now());
  const until = new Date(now.getTime() + SOON_MS);
  const standings = await listStandings(db.orm, orgId, { now, livemode, limit: SHOWN_PRODUCTS + 1 });
  const { hasKey, events } = await readProgress(db.orm, orgId);
  const products = standings.slice(0, SHOWN_PRODUCTS).map(toProductView);
  const isManager = role === 'owner' || role === 'admin';
  const example = standings.find(({ kind }) => kind === 'live');
  return {
    steps: events > 0 ? undefined : { hasEntitlement: example !== undefined, hasKey, example },
    isJustStarted: events > 0 && events <= FIRST_EVENTS,
    products,
    hasMoreProducts: standings.length > SHOWN_PRODUCTS,
    nearCap: products.filter(({ cap }) => cap?.isNear),
    expiringKeys: await listExpiringKeys(db.orm, orgId, { now, until, limit: SHOWN_KEYS }),
    changes: isManager ? await readChanges(db.orm, orgId) : undefined,
    mayChangeKeys: isManager,
  };
}

async function readChanges(orm: Orm, orgId: string): Promise<EntryView[]> {
  const rows = await listAuditRows(orm, orgId, {}, { limit: SHOWN_CHANGES });
  const actorOf = await readActors(
    orm,
    orgId,
    rows.map(({ actor }) => actor),
  );
  return rows.map((row) => toEntryView(row, actorOf(row.actor)));
}

function toProductView(standing: Standing): ProductView {
  const { unitCap, usedThisMonth: used } = standing;
  if (unitCap === null) return { ...standing, cap: undefined };
  const isUsed = compareDecimals(used, '0') > 0;
  const share = Number(unitCap) > 0 ? Number(used) / Number(unitCap) : isUsed ? Infinity : 0;
  const cap = {
    unitCap,
    remaining: subtractDecimals(unitCap, used),
    above: subtractDecimals(used, unitCap),
    share,
    isNear: share >= NEAR,
  };
  return { ...standing, cap };
}
