import type { Section } from '../../dashboard/frame.js';

export const sections: Section[] = [
  { id: 'usage', href: '/dashboard/usage', label: 'Usage' },
  { id: 'entitlements', href: '/dashboard/entitlements', label: 'Entitlements' },
];
