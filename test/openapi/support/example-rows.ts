import { creditAccounts, creditEntries, creditGrants } from '../../../src/metering/credits/table.js';
import { sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { HOUR_MS } from '../../../src/core/time.js';
import { hashFor, hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import { hashCheaply } from '../../support/accounts.js';
import type { Database, Orm } from '../../../src/core/db/client.js';
import type { UsageLimit } from '../../../src/metering/entitlements/table.js';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { portalSessions } from '../../../src/accounts/portal/table.js';
import { serviceKeys } from '../../../src/accounts/service-keys/table.js';
import { auditChains, auditLog, operatorChain, operatorLog } from '../../../src/accounts/audit/table.js';
import { identities, secondFactors, sessions } from '../../../src/accounts/identity/table.js';
import { memberships, organizations, users } from '../../../src/accounts/organizations/table.js';
import {
  webhookAttempts,
  webhookDeliveries,
  webhookEndpoints,
  webhookMessages,
} from '../../../src/accounts/webhooks/table.js';
import { paperBooks, tradingFills, tradingOrders } from '../../../src/markets/ledger/orders-table.js';
import {
  ledgerEntries,
  tradingAccounts,
  tradingPositions,
} from '../../../src/markets/ledger/portfolio-table.js';
import { riskLimits, serviceSwitch, tradingSwitches } from '../../../src/markets/ledger/risk-table.js';
import { entitlements, products } from '../../../src/metering/entitlements/table.js';
import {
  usageCorrections,
  usageEvents,
  usageGates,
  usageHours,
  usageReservations,
  usageTotals,
} from '../../../src/metering/ingestion/table.js';
import { organizationPlans, plans, planVersions } from '../../../src/metering/plans/table.js';
import { exampleWorld as markets } from '../../../src/markets/reference/example-world.js';
import { exampleWorld as metering } from '../../../src/metering/reference/example-world.js';
import { exampleOf } from '../../support/webhook-examples.js';

/** The data that all examples share. */
export const exampleWorld = { ...metering, ...markets, keys: { ...metering.keys, ...markets.keys } };

const createdAt = new Date(exampleWorld.createdAt);
const both = { createdAt, updatedAt: createdAt };
const orgId = exampleWorld.organization.id;
const emptied = [
  tradingFills,
  tradingOrders,
  tradingPositions,
  paperBooks,
  ledgerEntries,
  tradingAccounts,
  usageEvents,
  usageCorrections,
  usageTotals,
  usageHours,
  creditAccounts,
  creditEntries,
  creditGrants,
  usageReservations,
  usageGates,
  riskLimits,
  tradingSwitches,
  serviceSwitch,
  auditLog,
  auditChains,
  operatorLog,
  operatorChain,
  sessions,
  portalSessions,
  webhookAttempts,
  webhookDeliveries,
  webhookMessages,
  webhookEndpoints,
  apiKeys,
  serviceKeys,
  entitlements,
  memberships,
  organizationPlans,
  planVersions,
  plans,
  products,
  users,
  organizations,
];
const deletions = emptied.map((table, n) => sql`${sql.identifier(`deleted_${n}`)} as (delete from ${table})`);
let passwordHash: Promise<string> | undefined;

/** Restores exactly the example world's rows. */
export async function resetExampleWorld(db: Database): Promise<void> {
  passwordHash ??= hashCheaply(exampleWorld.password);
  const hashed = await passwordHash;
  await db.orm.transaction(async (tx) => {
    // Deleting a few rows is several times faster than truncating, and one statement is faster than one per table.
    await tx.execute(sql`with ${sql.join(deletions, sql`, `)} select`);
    const { organization, otherOrganization } = exampleWorld;
    await tx
      .insert(organizations)
      .values([organization, otherOrganization].map((o) => ({ ...o, createdAt, mayCorrect: true })));
    // Another Organization's limit, for the example that withdraws it.
    await tx
      .insert(riskLimits)
      .values({ orgId: otherOrganization.id, maxOpenOrders: 5, updatedAt: createdAt });
    const everybody = Object.values(exampleWorld.users);
    await tx.insert(users).values(
      everybody.map(({ role: _role, ...user }) => ({
        ...user,
        passwordHash: hashed,
        createdAt,
        provenAt: createdAt,
      })),
    );
    await tx
      .insert(memberships)
      .values(
        everybody.flatMap(({ id, role }) => (role === null ? [] : { orgId, userId: id, role, createdAt })),
      );
    await tx.insert(secondFactors).values({
      userId: exampleWorld.users.secured.id,
      secret: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567',
      setupSession: '',
      createdAt,
      confirmedAt: createdAt,
    });
    const { id: userId } = exampleWorld.users.owner;
    const issuer = 'https://login.acme.example';
    await tx.insert(identities).values({ issuer, subject: 'olivia', userId, createdAt });
    for (const { entitlement, used, ...product } of Object.values(exampleWorld.products)) {
      const { countsSubjects, credits, ...columns } = { countsSubjects: false, credits: null, ...product };
      await tx.insert(products).values({
        ...columns,
        ...both,
        subjectsSince: countsSubjects ? new Date(0) : null,
        creditPrice: credits && String(credits.price),
        creditEnforcement: credits?.enforcement ?? null,
      });
      if (entitlement !== null) {
        const granted = {
          orgId,
          productId: product.id,
          kind: entitlement,
          startsAt: createdAt,
          endsAt: null,
          limits: product.slug === 'storage' ? [storageLimit] : null,
        };
        await tx.insert(entitlements).values({ ...granted, ...both });
      }
      if (used === null) continue;
      const usage = {
        orgId,
        productId: product.id,
        livemode: true,
        metric: product.usageMetric,
        quantity: used,
      };
      const apiKeyId = exampleWorld.keys.liveKey.id;
      const event = {
        ...usage,
        apiKeyId,
        idempotencyKey: 'first',
        occurredAt: createdAt,
        receivedAt: createdAt,
      };
      await tx.insert(usageEvents).values(event);
      await tx.insert(usageTotals).values({ ...usage, period: '2026-01-01', events: 1 });
      await tx.insert(usageHours).values({ ...usage, apiKeyId, hour: createdAt, events: 1 });
    }
    await tx.insert(apiKeys).values(
      Object.values(exampleWorld.keys).map(({ secret, expiresAt, revokedAt, ...key }) => ({
        ...keyRow(secret),
        ...key,
        scopes: [...key.scopes],
        expiresAt: expiresAt === null ? null : new Date(expiresAt),
        revokedAt: revokedAt === null ? null : new Date(revokedAt),
        orgId,
        createdBy: exampleWorld.users.owner.id,
      })),
    );
    for (const { secret, expiresAt, revokedAt, ...key } of Object.values(exampleWorld.serviceKeys)) {
      const ends = { expiresAt: toDate(expiresAt), revokedAt: toDate(revokedAt) };
      const row = {
        ...keyRow(secret),
        ...key,
        ...ends,
        prefix: secret.slice(0, 16),
        scopes: [...key.scopes],
      };
      await tx.insert(serviceKeys).values(row);
      const forOne = {
        orgId,
        id: uuid(),
        serviceKeyId: key.id,
        hashedSecret: hashFor(row.hashedSecret, 'acme'),
      };
      await tx.insert(apiKeys).values({ ...row, ...forOne });
    }
    // For the example that ends it.
    await tx.insert(portalSessions).values({
      id: uuid(),
      organizationId: orgId,
      hashedLink: 'opened',
      createdBy: 'operator',
      pages: ['usage'],
      createdAt,
      expiresAt: new Date(Date.parse(exampleWorld.now) + HOUR_MS),
    });
    await insertReservation(tx);
    await insertWebhooks(tx);
    await insertCredits(tx);
    await insertPlan(tx);
    await insertTrade(tx);
    const { audit, users: people } = exampleWorld;
    const source = { ...audit.source, at: new Date(audit.source.at) };
    await tx.insert(operatorLog).values({ ...audit.operator, ...source });
    await tx.insert(auditLog).values({ ...audit.organization, ...source, orgId });
    await tx.insert(operatorChain).values({ seq: audit.operator.seq, hash: audit.operator.hash });
    const { seq, hash: end } = audit.organization;
    await tx.insert(auditChains).values({ orgId, seq, hash: end });
    // The member is also signed in on another device.
    const seen = new Date(exampleWorld.now);
    await tx.insert(sessions).values({
      hashedToken: hashSecret('elsewhere'),
      userId: people.member.id,
      createdAt: seen,
      lastSeenAt: seen,
      expiresAt: new Date(seen.getTime() + 86_400_000),
      ip: '192.0.2.8',
      userAgent: 'elsewhere',
    });
    const otherKey = { id: exampleWorld.otherKeyId, orgId: otherOrganization.id, name: 'theirs' };
    await tx.insert(apiKeys).values({ ...keyRow('org_live_Theirs'), ...otherKey, scopes: ['usage:write'] });
  });
}

const toDate = (time: string | null) => (time === null ? null : new Date(time));

const keyRow = (secret: string) => ({
  prefix: secret.slice(0, 12),
  hashedSecret: hashSecret(secret),
  livemode: secret.includes('_live_'),
  createdAt,
});

const storageLimit: UsageLimit = {
  quantity: String(exampleWorld.reservation.blocked),
  window: 'PT5H',
  enforcement: 'block',
};

/** Inserts two endpoints, another Organization's endpoint, and a message whose receiver was down. */
async function insertWebhooks(tx: Orm): Promise<void> {
  const { live, disabled, message, otherId } = exampleWorld.webhooks;
  const endpoint = { orgId, types: ['api_key.created'], livemode: true, secret: '', createdAt };
  const other = { orgId: exampleWorld.otherOrganization.id, id: otherId, url: 'https://globex.example/' };
  await tx.insert(webhookEndpoints).values([
    { ...endpoint, ...live },
    { ...endpoint, ...disabled, isEnabled: false, disabledReason: 'gone' },
    { ...endpoint, ...other },
  ]);
  const at = new Date(message.createdAt);
  const example = exampleOf('api_key.created');
  await tx.insert(webhookMessages).values({
    orgId,
    id: message.id,
    type: 'api_key.created',
    livemode: true,
    data: example,
    createdAt: at,
  });
  const delivery = { orgId, endpointId: live.id, messageId: message.id };
  await tx
    .insert(webhookDeliveries)
    .values({ ...delivery, status: 'failed', attempts: 1, failures: 1, nextAttemptAt: at });
  const outcome = { attempt: 1, at, durationMs: 120, statusCode: 503, answer: 'down for maintenance' };
  await tx.insert(webhookAttempts).values({ ...delivery, ...outcome });
}

async function insertCredits(tx: Orm): Promise<void> {
  const { id, grantKey, spentId, spentKey } = exampleWorld.creditGrant;
  const grants = [
    { id, grantKey, amount: '100', reason: 'Invoice 1042' },
    { id: spentId, grantKey: spentKey, amount: '10', reason: 'Welcome' },
  ];
  await tx.insert(creditGrants).values(
    grants.map((grant) => ({
      ...grant,
      orgId,
      livemode: true,
      startsAt: createdAt,
      createdAt,
      priority: 50,
      actor: 'operator',
      request: {},
    })),
  );
  await tx.insert(creditEntries).values(
    [
      { grantId: id, amount: '40' },
      { grantId: spentId, amount: '10' },
    ].map((burnt) => ({
      ...burnt,
      orgId,
      livemode: true,
      productId: exampleWorld.products.apiCalls.id,
      at: createdAt,
      hour: createdAt,
      kind: 'burn' as const,
    })),
  );
  await tx.execute(sql`insert into credit_accounts (org_id, livemode, grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days)
    values (${orgId}::uuid, true, array[${id}::uuid], '{60}', array[${createdAt.toISOString()}::timestamptz], '{infinity}', '{""}', '{50}', '{0}', '{0}')`);
}

/** Inserts a plan with two versions; the Organization is on the first. */
async function insertPlan(tx: Orm): Promise<void> {
  const { slug, name, credits } = exampleWorld.plan;
  await tx.insert(plans).values({ slug, name, version: 2, ...both });
  const entitlements = [{ productSlug: 'api-calls', kind: 'live' as const, features: { max_seats: 3 } }];
  await tx.insert(planVersions).values(
    credits.map((amount, i) => ({
      plan: slug,
      version: i + 1,
      definition: {
        entitlements,
        grants: [{ key: 'credits', amount, every: 'month' as const, expires: 'period' as const }],
        trial: { days: 14 },
      },
      createdAt,
    })),
  );
  await tx.insert(organizationPlans).values({
    orgId,
    plan: slug,
    version: 1,
    startsAt: createdAt,
    anchor: createdAt,
    grantedUntil: new Date(exampleWorld.now),
    ...both,
  });
}

/** Inserts a reservation that was created a minute ago. */
async function insertReservation(tx: Orm): Promise<void> {
  const made = Date.parse(exampleWorld.now) - 60_000;
  await tx.insert(usageReservations).values({
    orgId,
    id: exampleWorld.reservation.id,
    productId: exampleWorld.products.storage.id,
    apiKeyId: exampleWorld.keys.liveKey.id,
    createdAt: new Date(made),
    expiresAt: new Date(made + 300_000),
    livemode: true,
    idempotencyKey: 'chat-51',
    metric: 'bytes',
    quantity: String(exampleWorld.reservation.held),
  });
}

/** Inserts yesterday morning's order, as a later read shows it. */
async function insertTrade(tx: Orm): Promise<void> {
  const { id, idempotencyKey, clientOrderId, ticker, createdAt: time } = exampleWorld.trade;
  const at = new Date(time);
  await tx.insert(tradingOrders).values({
    orgId,
    id,
    mode: 'paper',
    idempotencyKey,
    requestHash: '',
    clientOrderId,
    ticker,
    eventTicker: exampleWorld.markets.today.eventTicker,
    seriesTicker: 'KXHIGHNY',
    label: exampleWorld.markets.today.traded.bracket.label,
    side: 'yes',
    action: 'buy',
    contracts: 10,
    limitPrice: 450_000n,
    timeInForce: 'immediate_or_cancel',
    status: 'filled',
    filledContracts: 10,
    exact: -4_673_300n,
    booked: -4_673_300n,
    fees: 173_300n,
    feeRule: { type: 'quadratic', multiplier: '1000000' },
    bookFetchedAt: at,
    apiKeyId: exampleWorld.keys.traderKey.id,
    createdAt: at,
    finishedAt: at,
  });
  await tx.insert(tradingFills).values({
    orgId,
    orderId: id,
    n: 1,
    price: 450_000n,
    contracts: 10,
    fee: 173_300n,
    balanceChange: -4_673_300n,
    filledAt: at,
  });
}

export const restingOrder = {
  orgId: exampleWorld.organization.id,
  id: exampleWorld.resting.id,
  mode: 'paper',
  idempotencyKey: exampleWorld.resting.idempotencyKey,
  requestHash: '',
  clientOrderId: exampleWorld.resting.clientOrderId,
  ticker: exampleWorld.resting.ticker,
  eventTicker: exampleWorld.markets.today.eventTicker,
  seriesTicker: 'KXHIGHNY',
  label: exampleWorld.markets.today.traded.bracket.label,
  side: 'yes',
  action: 'buy',
  contracts: 40,
  limitPrice: 330_000n,
  timeInForce: 'good_till_cancelled',
  cancelOn: ['observation', 'stale'],
  status: 'resting',
  queueAhead: exampleWorld.resting.queueAhead,
  printsSeen: { at: '2026-01-31T12:00:00.001Z', counted: {} },
  reserved: 17_077_400n,
  feeRule: { type: 'quadratic', multiplier: '1000000' },
  bookFetchedAt: new Date(exampleWorld.resting.createdAt),
  apiKeyId: exampleWorld.keys.traderKey.id,
  createdAt: new Date(exampleWorld.resting.createdAt),
} satisfies typeof tradingOrders.$inferInsert;
