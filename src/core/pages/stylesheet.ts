import { fileURLToPath } from 'node:url';

/** The sheets of `views/styles`, in the order in which they are put together: what is later may override what is earlier. */
const sheets = [
  ['tokens', 'base', 'frame'],
  ['cards', 'buttons', 'forms', 'alerts', 'tables', 'charts', 'lists'],
  ['audit-log', 'account', 'api-keys', 'usage'],
  ['cities', 'markets', 'ladder', 'event', 'ticket', 'portfolio', 'chart-parts', 'chart-kinds', 'scores'],
  ['utilities'],
].flat();

export const styleSheets: readonly string[] = sheets.map((name) =>
  fileURLToPath(new URL(`../../../views/styles/${name}.css`, import.meta.url)),
);
