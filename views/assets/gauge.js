// What pages do beyond their HTML. Each of them works without any of this.
import { hoverCharts } from './chart.js';
import { openLink } from './join.js';
import { enhance, pollParts } from './live.js';
import { menus } from './menus.js';
import { sendOnce } from './once.js';
import { passkeyButtons } from './passkeys.js';

enhance(document);
hoverCharts();
openLink();
menus();
passkeyButtons();
sendOnce();
pollParts();
