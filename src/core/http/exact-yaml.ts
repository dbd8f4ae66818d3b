import type { ScalarTag } from 'yaml';
import { ExactNumber } from './json.js';

/** Keeps all digits. */
export const exactTag: ScalarTag = {
  tag: 'tag:yaml.org,2002:float',
  default: true,
  identify: (value) => value instanceof ExactNumber,
  resolve: (text) => text,
  stringify: ({ value }) => (value as ExactNumber).digits,
};
