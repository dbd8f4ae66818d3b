/** Every table in one place, for the ORM and for generating migrations. */
export * from './accounts/organizations/table.js';
export * from './accounts/mail/table.js';
export * from './accounts/webhooks/table.js';
export * from './accounts/identity/table.js';
export * from './metering/entitlements/table.js';
export * from './accounts/api-keys/table.js';
export * from './metering/ingestion/table.js';
export * from './metering/backfills/table.js';
export * from './metering/notices/table.js';
export * from './accounts/audit/table.js';
export * from './markets/ledger/orders-table.js';
export * from './markets/ledger/portfolio-table.js';
export * from './markets/ledger/risk-table.js';
export * from './markets/learning/table.js';
export * from './markets/climate/table.js';
export * from './markets/snapshot/table.js';
export * from './markets/execution/table.js';
