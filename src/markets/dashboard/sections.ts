import type { Section } from '../../dashboard/frame.js';

const isShownTo: Section['isShownTo'] = ({ marketAccess }) => marketAccess !== 'none';

export const sections: Section[] = [
  { id: 'markets', href: '/dashboard/markets', label: 'Markets', isShownTo },
  { id: 'scores', href: '/dashboard/scores', label: 'Scores', isShownTo },
  { id: 'portfolio', href: '/dashboard/portfolio', label: 'Portfolio', isShownTo },
];
