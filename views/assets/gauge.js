// What pages do beyond their HTML. Each of them works without any of this.
import { copyButtons } from './copy.js';
import { openInvitation } from './join.js';
import { liveParts } from './live.js';
import { menus } from './menus.js';
import { sendOnce } from './once.js';
import { printButtons } from './print.js';
import { localTimes } from './times.js';
import { hoverCharts } from './chart.js';

/** Applied to the page, and again to every part of it that is replaced. */
function enhance(root) {
  localTimes(root);
  copyButtons(root);
  printButtons(root);
  hoverCharts(root);
}

enhance(document);
openInvitation();
menus();
sendOnce();
liveParts(enhance);
