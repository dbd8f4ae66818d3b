import { textOf, toWords, say, type Wording } from '../../accounts/audit/wording.js';

const RISK = '/dashboard/portfolio/risk';
const limits = { name: 'risk limits', href: RISK };

const switchOf: Record<string, string> = { own: "Organization's own", service: "whole service's" };

export const auditWording: Wording = {
  sentences: {
    'trading_limits.declared': () => say`Set the ${limits}`,
    'trading_limits.withdrawn': () => say`Removed the ${limits}: the defaults apply`,
    'trading_switch.changed': (entry) => {
      const { after } = entry.details;
      const own = switchOf[entry.target] ?? "operator's";
      const state = to(textOf(after, 'state'));
      const reason = textOf(after, 'reason');
      const change = state === '' ? 'Changed the reason for' : 'Set';
      if (reason === '') return say`${change} the ${own} ${{ name: 'trading switch', href: RISK }}${state}`;
      return say`${change} the ${own} ${{ name: 'trading switch', href: RISK }}${state}: ${{ name: reason }}`;
    },
  },
  titles: {
    'trading_limits.declared': 'Risk limits set',
    'trading_limits.withdrawn': 'Risk limits removed',
  },
  pages: { trading_limits: () => RISK, trading_switch: () => RISK },
};

const to = (state: string): string => (state === '' ? '' : ` to ${toWords(state).toLowerCase()}`);
