import { z } from 'zod';
import { withoutRepeats } from '../../core/http/validate.js';
import { idField } from '../../core/http/fields.js';
import { createApiKeySchema, apiKeySchema } from '../api-keys/schema.js';
import { serviceScopes } from '../api-keys/scopes.js';

export const serviceKeyInputSchema = createApiKeySchema
  .extend({
    scopes: withoutRepeats(
      z.array(z.enum(serviceScopes)).min(1, 'must have at least one scope'),
      'scope',
    ).describe('What the key may do for every Organization, for its whole life. None is a default.'),
  })
  .meta({ id: 'ServiceKeyInput' });

export const serviceKeySchema = apiKeySchema
  .omit({ createdBy: true, rotatedFromId: true })
  .extend({
    id: idField('Unique within the service.'),
    name: z.string().describe('A label chosen by its creator, named after the program that holds it.'),
    prefix: z.string().length(16).describe('The first 16 characters of the secret.'),
    scopes: z.array(z.enum(serviceScopes)).min(1),
  })
  .meta({ id: 'ServiceKey', description: 'A service key without its secret.' });

const secret = z
  .string()
  .regex(/^service_(live|test)_[0-9A-Za-z]{32}$/)
  .describe('The secret of the new key. It is shown only here: store it now.');

export const serviceKeyAnswerSchema = z
  .object({ serviceKey: serviceKeySchema })
  .meta({ id: 'ServiceKeyAnswer' });

export const newServiceKeySchema = z
  .object({ serviceKey: serviceKeySchema, secret })
  .meta({ id: 'NewServiceKey' });

export const rotatedServiceKeySchema = newServiceKeySchema
  .extend({ previous: serviceKeySchema })
  .meta({ id: 'RotatedServiceKey', description: '`previous` is the old key, now in its grace period.' });
