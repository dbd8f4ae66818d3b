/** Every table, in one place, for the ORM and for generating migrations. */
export * from './organizations/table.js';
export * from './mail/table.js';
export * from './webhooks/table.js';
export * from './identity/table.js';
export * from './entitlements/table.js';
export * from './api-keys/table.js';
export * from './usage/table.js';
export * from './usage/backfills/table.js';
export * from './notices/table.js';
export * from './audit/table.js';
export * from './trading/ledger/orders-table.js';
export * from './trading/ledger/portfolio-table.js';
export * from './trading/ledger/risk-table.js';
export * from './trading/forecast/table.js';
export * from './trading/climate/table.js';
export * from './trading/snapshot/table.js';
export * from './trading/execution/table.js';
