import { joinDemoParts, type DemoData } from './demo/demo.js';
import { demo as markets, type MarketsDemo } from './markets/demo/demo.js';
import { demo as metering, type MeteringDemo } from './metering/demo/demo.js';

export type Demo = DemoData<MeteringDemo & MarketsDemo>;

export const demoPart = joinDemoParts(metering, markets);
