import { fileURLToPath } from 'node:url';

/** Sheets of `views/styles` in cascade order: a later sheet may override an earlier one. */
const sheets = [
  ['tokens', 'base', 'frame'],
  ['cards', 'buttons', 'forms', 'alerts', 'tables', 'charts', 'lists'],
  ['audit-log', 'account', 'api-keys', 'usage', 'console'],
  ['cities', 'markets', 'ladder', 'event', 'ticket', 'portfolio', 'chart-parts', 'chart-kinds', 'scores'],
  ['utilities'],
].flat();

export const styleSheets: readonly string[] = sheets.map((name) =>
  fileURLToPath(new URL(`../../../views/styles/${name}.css`, import.meta.url)),
);
