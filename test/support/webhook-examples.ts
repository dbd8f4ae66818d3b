import { describeWebhooks, type AnyType, type DataOf } from '../../src/accounts/webhooks/types.js';
import { webhookTypes } from '../../src/products.js';

const examples = describeWebhooks(webhookTypes).map(({ type, example }) => [type, example.data] as const);

/** As in the documentation. */
export const exampleOf = <T extends AnyType>(type: T) => new Map(examples).get(type) as DataOf<T>;
