import { newFormId } from '../../core/ids.js';
import {
  startForm,
  listField,
  renewForm,
  textField,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import { parseInput } from '../../core/http/validate.js';
import { whyRefused, type EndpointDeps, type EndpointInput } from './endpoints.js';
import type { EndpointRow } from './queries.js';
import type { WebhookSchemas } from './schema.js';
import type { WebhookTypes } from './types.js';
import { formatChoices } from './view.js';

export type EndpointForms = ReturnType<typeof createEndpointForms>;

export function createEndpointForms(
  all: WebhookTypes,
  { webhookInputSchema }: WebhookSchemas,
  config: EndpointDeps['config'],
) {
  const typeNames = Object.keys(all);
  const types = Object.entries(all).map(([value, { summary }]) => ({
    value,
    label: value,
    note: summary,
    group: value.split('.')[0]!.replace('api_key', 'API key'),
  }));

  /** A receiver on the local machine may use plain HTTP. */
  const isLocal = !config.production;

  /** Reports a refused URL together with other mistakes. */
  const newSchema = webhookInputSchema.extend({
    url: webhookInputSchema.shape.url.superRefine((url, context) => {
      const problem = whyRefused(config, url);
      if (problem !== undefined) context.addIssue(problem);
    }),
  });

  function read(fields: FormFields, isEnabled: boolean, schema = webhookInputSchema): EndpointInput {
    const livemode = textField(fields, 'livemode');
    const chosen = listField(fields, 'types').filter((type) => type !== '');
    return parseInput(schema, {
      format: textField(fields, 'format') ?? 'standard',
      url: textField(fields, 'url')?.trim() ?? '',
      types: textField(fields, 'allTypes') === 'true' ? typeNames : chosen,
      livemode: livemode === 'true' ? true : livemode === 'false' ? false : undefined,
      isEnabled,
    });
  }

  return {
    typeCount: typeNames.length,

    /** The id makes a form that is submitted twice create only one endpoint. */
    readNew: (fields: FormFields) => ({
      ...read(fields, true, newSchema),
      id: textField(fields, 'id') ?? '',
    }),

    readChanged: (fields: FormFields) => read(fields, textField(fields, 'isEnabled') === 'true'),

    toNewView(form: FormState, nowMs: number) {
      const id = newFormId(nowMs);
      const shown = startForm(form, { id, format: 'standard', url: '', livemode: 'true', allTypes: 'true' });
      return { form: renewForm(shown, id), types, isLocal, formats: formatChoices };
    },

    toEditView(form: FormState, { format, url, types: own, livemode, isEnabled }: EndpointRow) {
      const allTypes = own.length === typeNames.length ? 'true' : '';
      const values = { format, url, types: own, allTypes, livemode: String(livemode) };
      return { form: startForm(form, { ...values, isEnabled: isEnabled ? 'true' : '' }), types, isLocal };
    },
  };
}
