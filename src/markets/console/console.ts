import type { Router } from 'express';
import type { CustomerTab, TabState } from '../../console/page.js';
import type { ConsoleSection } from '../../dashboard/frame.js';
import type { SwitchState } from '../ledger/risk-table.js';
import { readSwitch } from '../risk/switches.js';
import type { MarketConsoleDeps } from './page.js';
import { serviceTradingPages } from './service-trading-pages.js';
import { customerTradingPages } from './trading-pages.js';

export const consoleSections: ConsoleSection[] = [
  { id: 'trading', href: '/console/trading', label: 'Trading', words: 'halt kill switch' },
];

const states: Record<SwitchState, TabState> = {
  open: { state: 'Open' },
  reduce_only: { state: 'Reduce only', tone: 'warn' },
  halt: { state: 'Halted', tone: 'bad' },
};

export const customerTabs: CustomerTab[] = [
  {
    id: 'trading',
    place: 6,
    path: '/trading',
    label: 'Trading',
    words: 'halt kill switch',
    read: async (orm, { id, marketAccess }) =>
      marketAccess === 'trade' ? states[(await readSwitch(orm, id)).state] : { state: 'No access' },
  },
];

export const consolePages = (deps: MarketConsoleDeps): Router[] => [
  customerTradingPages(deps),
  serviceTradingPages(deps),
];
