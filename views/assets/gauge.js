// These scripts are optional: every page works without them.
import { hoverCharts } from './chart.js';
import { choicesFollowFields } from './choices.js';
import { filterOnChange } from './filters.js';
import { openLink } from './join.js';
import { swapLinks } from './links.js';
import { enhance, pollParts, sendInPlace } from './live.js';
import { menus } from './menus.js';
import { sendOnce } from './once.js';
import { passkeyButtons } from './passkeys.js';
import { revealButtons } from './reveal.js';
import { searchDialog } from './search.js';
import { slugsFollowNames } from './slugs.js';

enhance(document);
choicesFollowFields();
filterOnChange();
hoverCharts();
openLink();
menus();
passkeyButtons();
revealButtons();
searchDialog();
sendInPlace();
sendOnce();
slugsFollowNames();
swapLinks();
pollParts();
