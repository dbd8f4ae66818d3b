import { accountsReference } from './accounts/reference.js';
import { describeWebhooks } from './accounts/webhooks/types.js';
import { joinReference, type Reference } from './core/reference/part.js';
import { marketsReference } from './markets/reference.js';
import { meteringReference } from './metering/reference.js';
import { introduction, serviceReference } from './mounts/service-reference.js';

/** Every route of the service, in reading order. A test compares this list with the mounted routes. */
export const describeService = (hasMarkets: boolean): Reference =>
  joinReference({ introduction, webhooks: describeWebhooks(hasMarkets) }, [
    meteringReference,
    ...(hasMarkets ? [marketsReference] : []),
    accountsReference,
    serviceReference,
  ]);
