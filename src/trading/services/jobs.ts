import type { TradingContext } from '../config.js';
import type { Job } from '../../core/db/jobs.js';
import type { TradingServices } from './services.js';

/** What the trading face does on schedules. */
export const tradingJobs = (
  { config }: TradingContext,
  { refresher, live, scores, trainer, climate, isReplay }: TradingServices,
): Job[] => [
  {
    name: 'refresh-markets',
    schedule: everySeconds(config.trading.refreshSeconds),
    run: () => refresher.refresh(),
  },
  ...(live ? [{ name: 'reconcile-live', schedule: '20 * * * * *', run: () => live.reconcile() }] : []),
  ...(climate
    ? [
        // Looks every five minutes; there is something to ask for a few times a night.
        { name: 'read-climate-reports', schedule: '35 */5 * * * *', run: () => climate.run() },
        { name: 'clean-up-climate-reports', schedule: '0 53 3 * * *', run: () => climate.cleanUp() },
      ]
    : []),
  ...(isReplay ? [] : learningJobs({ scores, trainer })),
];

/** What books the past of portfolios. */
export const bookingJobs = ({ settlement }: TradingServices): Job[] => [
  // A few seconds after a refresh of the default schedule.
  { name: 'settle-markets', schedule: '8,38 * * * * *', run: () => settlement.settle() },
  { name: 'record-portfolio-history', schedule: '15 */15 * * * *', run: () => settlement.recordHistory() },
  { name: 'clean-up-trading', schedule: '0 41 * * * *', run: () => settlement.cleanUp() },
];

const learningJobs = ({ scores, trainer }: Pick<TradingServices, 'scores' | 'trainer'>): Job[] => [
  // Looks every minute; there is something to learn a few times a day.
  { name: 'learn-forecasts', schedule: '25 * * * * *', run: () => trainer.learn() },
  { name: 'clean-up-forecasts', schedule: '0 47 * * * *', run: () => trainer.cleanUp() },
  { name: 'record-forecasts', schedule: '10 * * * * *', run: () => scores.record() },
  { name: 'score-forecasts', schedule: '40 */5 * * * *', run: () => scores.score() },
  { name: 'judge-gates', schedule: '50 */5 * * * *', run: () => scores.judge() },
  { name: 'backfill-forecasts', schedule: '5 * * * * *', run: () => scores.backfill() },
];

/** `seconds` divides a minute. */
const everySeconds = (seconds: number): string => (seconds === 60 ? '0 * * * * *' : `*/${seconds} * * * * *`);
