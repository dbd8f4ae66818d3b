import type { Router } from 'express';
import type { ConsoleDeps, CustomerTab } from '../../console/page.js';
import type { Context } from '../../core/http/context.js';
import type { ConsoleSection } from '../../dashboard/frame.js';
import { customerCreditPages } from './credit-pages.js';
import { customerEntitlementPages } from './entitlement-pages.js';
import { planPages } from './plan-pages.js';
import { productPages } from './product-pages.js';
import { customerUsageChangePages } from './usage-change-pages.js';
import { customerUsagePages } from './usage-pages.js';

export const consoleSections: ConsoleSection[] = [
  { id: 'products', href: '/console/products', label: 'Products' },
  { id: 'plans', href: '/console/plans', label: 'Plans', words: 'billing prices limits' },
  { id: 'usage', href: '/console/usage', label: 'Usage' },
];

export const customerTabs: CustomerTab[] = [
  { id: 'entitlements', place: 3, path: '/entitlements', label: 'Entitlements' },
  { id: 'plan', place: 3.5, path: '/plan', label: 'Plan' },
  { id: 'usage', place: 5, path: '/usage', label: 'Events' },
  { id: 'credits', place: 5.5, path: '/credits', label: 'Credits' },
];

export const consolePages = (deps: ConsoleDeps & Pick<Context, 'metrics'>): Router[] => [
  customerEntitlementPages(deps),
  customerCreditPages(deps),
  customerUsageChangePages(deps),
  productPages(deps),
  planPages(deps),
  customerUsagePages(deps),
];
