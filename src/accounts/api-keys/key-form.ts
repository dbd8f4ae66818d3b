import type { z } from 'zod';
import { AppError, type ErrorPlace } from '../../core/errors.js';
import { parseInput } from '../../core/http/validate.js';
import { fieldError, listField, refuseIgnored, textField, type FormFields } from '../../core/pages/form.js';
import { DAY_MS, MINUTE_MS } from '../../core/time.js';
import type { KeyDetails } from './queries.js';
import { serviceScopes, type AnyScope, type Scope } from './scopes.js';
import { rotateApiKeySchema } from './schema.js';

const GRACE_DAY_MINUTES = DAY_MS / MINUTE_MS;

interface Preset {
  value: string;
  label: string;
  note: string | undefined;
  scopes: readonly AnyScope[];
  /** A live key with these scopes could spend money. */
  isTestOnly?: boolean;
}

const presets: Preset[] = [
  {
    value: 'send',
    label: 'Send usage',
    note: 'For a runtime that reports its usage, reads it back and checks its entitlements.',
    scopes: ['usage:write', 'usage:read', 'entitlements:read'],
  },
  {
    value: 'read',
    label: 'Read-only',
    note: 'For dashboards and checks. It changes nothing.',
    scopes: ['usage:read', 'entitlements:read', 'trading:read'],
  },
  {
    value: 'paper',
    label: 'Trade on paper',
    note: 'For trading clients with a test key. No order reaches the venue.',
    scopes: ['trading:read', 'trading:write'],
    isTestOnly: true,
  },
];

const OWN_SCOPES = 'own';
const ownChoice: Preset = { value: OWN_SCOPES, label: 'Choose scopes', note: undefined, scopes: [] };

/** Without one of its write scopes, a preset's name would be misleading. */
export function presetChoices(offered: readonly Scope[]): Preset[] {
  const isOffered = (scope: AnyScope) => (offered as readonly AnyScope[]).includes(scope);
  return [
    ...presets
      .filter(({ scopes }) => scopes.every((scope) => isOffered(scope) || scope.endsWith(':read')))
      .map((preset) => ({ ...preset, scopes: preset.scopes.filter(isOffered) })),
    ownChoice,
  ];
}

export const servicePresets: Preset[] = [
  {
    value: 'gateway',
    label: 'Gateway',
    note: 'For a program in front of your API that checks keys and entitlements, and records usage.',
    scopes: ['usage:write', 'usage:read', 'entitlements:read', 'keys:verify'],
  },
  {
    value: 'billing',
    label: 'Billing',
    note: 'Reads usage, entitlements and credits. It changes nothing.',
    scopes: ['usage:read', 'entitlements:read'],
  },
  {
    value: 'portal',
    label: 'Portal',
    note: 'For your own product, which shows a customer its usage and keys.',
    scopes: ['portal:create', 'portal:keys'],
  },
  { value: 'all', label: 'Everything', note: undefined, scopes: serviceScopes },
  ownChoice,
];

export const expiryChoices = [
  { value: 'never', label: 'Never' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In 365 days' },
  { value: 'at', label: 'At a date and time, in UTC' },
];

export const graceChoices = [
  {
    value: '0',
    label: 'None',
    note: 'The old key ends at once, because it has leaked. Calls with it fail until the new one is in place.',
  },
  { value: '60', label: '1 hour', note: 'Enough to deploy the new key.' },
  { value: String(GRACE_DAY_MINUTES), label: '1 day', note: 'For runtimes that are deployed less often.' },
  { value: String(7 * GRACE_DAY_MINUTES), label: '7 days', note: 'The maximum.' },
  { value: 'custom', label: 'Custom number of minutes', note: undefined },
];

export function keyFormValues(id: string, like?: KeyDetails): FormFields {
  const { name, livemode, scopes } = like ?? { name: '', livemode: true, scopes: [] };
  const preset = like ? OWN_SCOPES : presets[0]!.value;
  return { id, name, livemode: String(livemode), preset, scopes, expiry: 'never', expiresAt: '' };
}

export function readKeyForm<Schema extends NewKeySchema>(
  schema: Schema,
  fields: FormFields,
  nowMs: number,
  choices: readonly Preset[],
) {
  const errors: ErrorPlace[] = [];
  const preset = collect(errors, () => readPreset(fields, choices));
  const input = collect(errors, () =>
    parseInput(schema, {
      name: textField(fields, 'name') ?? '',
      livemode: toBoolean(textField(fields, 'livemode')),
      scopes: preset?.scopes ?? listField(fields, 'scopes'),
    }),
  );
  if (preset?.isTestOnly && input?.livemode)
    errors.push(...fieldError('livemode', 'must be test to trade on paper').errors!);
  const expiresAt = collect(errors, () => readExpiry(fields, nowMs));
  if (errors.length > 0 || input === undefined || expiresAt === undefined)
    throw new AppError('invalid_request', 'The form has mistakes.', { errors });
  // An empty id is rejected later as not fresh.
  return { ...(input as Omit<z.output<Schema>, 'expiresAt'>), id: textField(fields, 'id') ?? '', expiresAt };
}

type NewKeySchema = z.ZodType<{ name: string; livemode: boolean; expiresAt?: string | null | undefined }>;

/** Undefined if the scopes were chosen one by one. Scopes outside the preset would be ignored, so they are refused. */
function readPreset(fields: FormFields, choices: readonly Preset[]): Preset | undefined {
  const choice = textField(fields, 'preset') ?? OWN_SCOPES;
  if (choice === OWN_SCOPES) return undefined;
  const preset = choices.find(({ value }) => value === choice);
  if (!preset) throw fieldError('preset', 'must be one of the options');
  const isSame = listField(fields, 'scopes').every((scope) => preset.scopes.some((own) => own === scope));
  if (!isSame)
    throw fieldError(
      'scopes',
      `are selected, but “${preset.label}” is too: choose “Choose scopes”, or clear these`,
    );
  return preset;
}

function collect<T>(errors: ErrorPlace[], read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof AppError) || !error.errors) throw error;
    errors.push(...error.errors);
    return undefined;
  }
}

const toBoolean = (value: string | undefined) =>
  value === 'true' ? true : value === 'false' ? false : undefined;

function readExpiry(fields: FormFields, nowMs: number): Date | null {
  const choice = textField(fields, 'expiry') ?? 'never';
  const typed = textField(fields, 'expiresAt');
  if (!expiryChoices.some(({ value }) => value === choice))
    throw fieldError('expiry', 'must be one of the options');
  refuseIgnored(fields, 'expiresAt', choice === 'at', 'choose the date');
  if (choice === 'never') return null;
  if (choice !== 'at') return new Date(nowMs + Number(choice) * DAY_MS);
  const at = toUtcTime(typed ?? '');
  if (at === undefined) throw fieldError('expiresAt', 'must be a date and time, like 2030-01-31 12:00');
  if (at.getTime() <= nowMs) throw fieldError('expiresAt', 'must be in the future');
  return at;
}

/** UTC, such as `2030-01-31T12:00`, with `T` or a space. Undefined if malformed or if the day does not exist. */
function toUtcTime(typed: string): Date | undefined {
  const [, day, time] = /^\s*(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::\d\d(?:\.\d+)?)?\s*$/.exec(typed) ?? [];
  if (day === undefined || time === undefined) return undefined;
  const at = new Date(`${day}T${time}:00Z`);
  return !Number.isNaN(at.getTime()) && at.toISOString().startsWith(`${day}T${time}`) ? at : undefined;
}

/** Minutes. */
export function readGrace(fields: FormFields): number {
  const choice = textField(fields, 'grace') ?? '';
  const typed = textField(fields, 'graceMinutes')?.trim();
  if (!graceChoices.some(({ value }) => value === choice))
    throw fieldError('grace', 'must be one of the options');
  refuseIgnored(fields, 'graceMinutes', choice === 'custom', 'choose the custom number');
  if (choice !== 'custom') return Number(choice);
  if (typed === undefined || !/^\d{1,5}$/.test(typed) || Number(typed) > 7 * GRACE_DAY_MINUTES)
    throw fieldError('graceMinutes', 'must be a whole number of minutes from 0 to 10080 (7 days)');
  return parseInput(rotateApiKeySchema, { graceMinutes: Number(typed) }).graceMinutes!;
}
