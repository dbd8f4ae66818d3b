import { accountsReference } from './accounts/reference.js';
import { createWebhookSchemas } from './accounts/webhooks/schema.js';
import { describeWebhooks, joinTypes } from './accounts/webhooks/types.js';
import type { Reference } from './core/reference/described.js';
import { joinReference } from './core/reference/part.js';
import { readProse } from './core/reference/prose.js';
import { introduction, serviceReference } from './mounts/service-reference.js';
import type { Product } from './product.js';

/** In reading order. A test compares the descriptions with the mounted routes. */
export async function describeService(products: readonly Product[]): Promise<Reference> {
  const types = joinTypes(products.map(({ webhookTypes }) => webhookTypes));
  const parts = await Promise.all(products.map(({ loadReference }) => loadReference()));
  const accounts = accountsReference(createWebhookSchemas(types));
  return joinReference(
    { introduction, webhooks: describeWebhooks(types) },
    [...parts, accounts, serviceReference],
    await readProse(),
  );
}
