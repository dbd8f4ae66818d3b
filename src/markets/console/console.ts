import type { Router } from 'express';
import type { CustomerTab } from '../../console/page.js';
import type { ConsoleSection } from '../../dashboard/frame.js';
import type { MarketConsoleDeps } from './page.js';
import { serviceTradingPages } from './service-trading-pages.js';
import { customerTradingPages } from './trading-pages.js';

export const consoleSections: ConsoleSection[] = [
  { id: 'trading', href: '/console/trading', label: 'Trading' },
];

export const customerTabs: CustomerTab[] = [{ id: 'trading', place: 6, path: '/trading', label: 'Trading' }];

export const consolePages = (deps: MarketConsoleDeps): Router[] => [
  customerTradingPages(deps),
  serviceTradingPages(deps),
];
