import { fileURLToPath } from 'node:url';

/** In cascade order: later sheets may override earlier ones. */
const sheets = [
  ['tokens', 'base', 'frame'],
  ['cards', 'buttons', 'forms', 'alerts', 'tables', 'charts', 'stacked', 'lists', 'samples'],
  ['audit-log', 'account', 'api-keys', 'usage', 'overview', 'console', 'search'],
  ['markets', 'desk', 'ladder', 'event', 'ticket', 'portfolio', 'chart-parts', 'chart-kinds', 'scores'],
  ['utilities'],
].flat();

export const styleSheets: readonly string[] = sheets.map((name) =>
  fileURLToPath(new URL(`../../../views/styles/${name}.css`, import.meta.url)),
);

const fontFolder = new URL('../../../views/fonts/', import.meta.url);

/** Separate, because a single-file report has no font file beside it. */
export const fontSheet = fileURLToPath(new URL('inter.css', fontFolder));
export const fontFile = fileURLToPath(new URL('inter.woff2', fontFolder));
