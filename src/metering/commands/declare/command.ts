import { writeSync } from 'node:fs';
import { Command } from 'commander';
import { stringify } from 'yaml';
import { z } from 'zod';
import {
  CommandError,
  messageOf,
  readServiceUrl,
  runCommand,
  type Terminal,
} from '../../../commands/kit/command.js';
import { nameOf, openInput, readWhole } from '../../../commands/kit/input.js';
import { openPrivateFile } from '../../../core/private-file.js';
import { exactTag } from '../../../core/http/exact-yaml.js';
import { printableLines } from '../../../core/terminal.js';
import { fileSchema, MAX_FILE_BYTES, parseFile, type DeclaredFile, type State } from './file.js';
import {
  describeChange,
  isMasked,
  listResources,
  makePlan,
  withoutDefaults,
  type Change,
  type Plan,
} from './resources.js';
import {
  createOperatorApi,
  pickFields,
  readOperatorToken,
  readState,
  RefusedError,
  type OperatorApi,
} from './service.js';

export interface DeclareTerminal extends Terminal {
  env: Record<string, string | undefined>;
}

const environment = `
Environment:
  OPERATOR_TOKEN an operator token of the service
  GAUGE_URL      the address of the service (default: http://127.0.0.1, with PORT or 3000); --url has precedence
  GAUGE_ALLOW_HTTP
                 yes: send the token to an http address of another machine, unencrypted`;

const applyHelp = `
The file has products, plans, Organizations, their entitlements, plans and webhook endpoints, and service keys, as \`npm run --silent export\` writes it.
Everything is validated before the first request. Only what differs is changed. What the service has and the file does not
is listed and kept, unless --prune: then entitlements are withdrawn, endpoints deleted, and products and Organizations
archived. A section that the file does not have at all is left alone.

A service key is created if no active one has its name, and its secret is printed once unless --secrets. Keys are never
changed or revoked here.

A chat's URL is a credential, so the export masks it. A masked URL keeps the URL that the service has; a new endpoint needs
the full URL.
${environment}

Exit status: 0 the service has what the file says, 1 something differs (with --dry-run), was kept or was refused, 2 the file
or a flag is not valid, or the service cannot be read.`;

const createApplyCommand = (): Command =>
  new Command('apply')
    .description(
      'Makes a running service match a file of products, Organizations, entitlements and webhooks.',
    )
    .argument('<file>', 'YAML or JSON; - reads standard input')
    .option('--url <address>', 'the address of the service')
    .option('--dry-run', 'print what differs and change nothing')
    .option('--prune', 'delete or archive what the file does not have')
    .option(
      '--secrets <file>',
      'where to append the secrets of new webhook endpoints and service keys, one JSON object a line',
    )
    .addHelpText('after', applyHelp);

export const runApplyCommand = (terminal: DeclareTerminal): Promise<number> =>
  runCommand<{ url?: string; dryRun?: boolean; prune?: boolean; secrets?: string }>(
    createApplyCommand(),
    terminal,
    async ({ url, dryRun = false, prune = false, secrets }, [path]) => {
      const { env, stdin, stdout, stderr } = terminal;
      const api = openApi(url, env);
      const file = parseFile(nameOf(path!), await readText(path!, stdin));
      const { changes, removals, unchanged } = await planFile(api, file);
      const [work, kept] = prune ? [[...changes, ...removals], []] : [changes, removals];
      const print = (text: string) => void stdout.write(`${printableLines(text)}\n`);
      if (dryRun) for (const change of work) print(describeChange(change));
      else {
        const failure = await makeChanges(api, work, print, openSecrets(secrets));
        if (failure) {
          const { done, change, reason } = failure;
          const { label, pointer } = change.resource;
          const place = changes.includes(change) ? `${file.placeOf(pointer)}: ${pointer}` : label;
          stderr.write(`apply: ${printableLines(`${place} was refused: ${reason}`)}\n`);
          print(`Made ${done} of ${work.length} changes. Run it again to make the rest.`);
          return 1;
        }
      }
      for (const change of kept) print(`${describeChange(change)}, not in the file: kept`);
      print(summarize(work, { unchanged, isDone: !dryRun }));
      if (kept.length > 0) print('--prune deletes or archives what was kept.');
      return kept.length > 0 || (dryRun && work.length > 0) ? 1 : 0;
    },
    messageOf(RefusedError),
  );

const openApi = (url: string | undefined, env: DeclareTerminal['env']): OperatorApi =>
  createOperatorApi(
    readServiceUrl(url ?? env.GAUGE_URL, url === undefined ? 'GAUGE_URL' : '--url', env.GAUGE_ALLOW_HTTP),
    readOperatorToken(env.OPERATOR_TOKEN),
  );

async function readText(path: string, stdin: Terminal['stdin']): Promise<string> {
  const refusal = `${nameOf(path)} is larger than ${MAX_FILE_BYTES / 1024 / 1024} MB.`;
  const bytes = await readWhole(openInput(path, stdin), MAX_FILE_BYTES, refusal);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new CommandError(`${nameOf(path)} is not UTF-8.`);
  }
}

/**
 * Reads only the declared sections. @throws RefusedError, and CommandError for a change that the service cannot make
 */
async function planFile(api: OperatorApi, { declared, placeOf }: DeclaredFile): Promise<Plan> {
  const state = await readState(api, (slug, part) => declared.organizations?.[slug]?.[part] !== undefined);
  const plan = makePlan(listResources(declared), listResources(pickFields({ shape: declared }, state)));
  for (const { kind, resource, differences } of plan.changes) {
    const { pointer } = resource;
    const refuse = (detail: string) =>
      new CommandError(`${placeOf(pointer)}: ${pointer} ${detail} Nothing was changed.`);
    if (kind === 'change' && resource.isFixed)
      throw refuse(
        `is not what the service has (${differences.join('; ')}). A service key cannot be changed: declare another name, or revoke the key in the console first.`,
      );
    const product = /\/entitlements\/(.+)$/.exec(pointer)?.[1];
    if (product !== undefined && !Object.hasOwn(declared.products ?? state.products, product))
      throw refuse('is not a product of the service.');
    if (kind === 'create' && isMasked(resource))
      throw refuse('has a masked URL, and the service has no such endpoint. Write its full URL.');
  }
  return plan;
}

type KeepSecret = (path: string, answer: Record<string, unknown>) => void;

function openSecrets(path: string | undefined): KeepSecret | undefined {
  if (path === undefined) return undefined;
  const file = openPrivateFile(path);
  return (path, { webhook, serviceKey, secret }) => {
    const { id, url, name } = (webhook ?? serviceKey) as { id: string; url?: string; name?: string };
    const owner = webhook ? { organization: path.split('/')[2] } : { serviceKey: name };
    writeSync(file, `${JSON.stringify({ ...owner, id, url, secret })}\n`);
  };
}

async function makeChanges(
  api: OperatorApi,
  work: readonly Change[],
  print: (text: string) => void,
  keepSecret: KeepSecret | undefined,
): Promise<{ done: number; change: Change; reason: string } | undefined> {
  for (const [done, change] of work.entries()) {
    const { method, path, body } = change;
    try {
      const answer = await api.call(method, path, body);
      if (typeof answer.secret === 'string') keepSecret?.(path, answer);
      print(describeChange(change) + (keepSecret ? '' : describeSecret(answer)));
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      return { done, change, reason: error.message };
    }
  }
  return undefined;
}

const describeSecret = ({ secret, serviceKey }: Record<string, unknown>): string =>
  typeof secret !== 'string'
    ? ''
    : serviceKey
      ? `\n    secret: ${secret} (shown only now: store it)`
      : '\n    secret: not kept. Use --secrets, or rotate it in the dashboard.';

const words = {
  create: ['created', 'to create'],
  change: ['changed', 'to change'],
  delete: ['deleted', 'to delete'],
  archive: ['archived', 'to archive'],
} as const;

function summarize(work: readonly Change[], { unchanged, isDone }: { unchanged: number; isDone: boolean }) {
  const counts = Object.entries(words).flatMap(([kind, [done, due]]) => {
    const count = work.filter((change) => change.kind === kind).length;
    return count === 0 ? [] : [`${count} ${isDone ? done : due}`];
  });
  return counts.length === 0 ? 'Nothing to change.' : `${[...counts, `${unchanged} unchanged`].join(', ')}.`;
}

const exportHelp = `
Secrets are never exported, and the URL of a chat is masked. \`npm run --silent\` keeps npm's heading out of the file.

  npm run --silent export > gauge.yaml
  npm run --silent export -- --schema > gauge.schema.json     the JSON Schema that editors read beside it
${environment}

Exit status: 0 done, 2 the service cannot be read.`;

const createExportCommand = (): Command =>
  new Command('export')
    .description(
      'Prints the products, Organizations, entitlements and webhooks of a running service as YAML.',
    )
    .option('--url <address>', 'the address of the service')
    .option('--schema', 'print the JSON Schema of the file instead')
    .addHelpText('after', exportHelp);

export const runExportCommand = (terminal: DeclareTerminal): Promise<number> =>
  runCommand<{ url?: string; schema?: boolean }>(
    createExportCommand(),
    terminal,
    async ({ url, schema = false }) => {
      const { env, stdout } = terminal;
      stdout.write(schema ? describeSchema() : toYaml(await readState(openApi(url, env))));
      return 0;
    },
    messageOf(RefusedError),
  );

const describeSchema = (): string =>
  `${JSON.stringify(z.toJSONSchema(fileSchema, { io: 'input', target: 'draft-7' }), null, 2)}\n`;

const toYaml = (state: State): string =>
  '# yaml-language-server: $schema=gauge.schema.json\n' +
  stringify(withoutDefaults(state), {
    customTags: (tags) => [exactTag, ...tags],
    lineWidth: 0,
    aliasDuplicateObjects: false,
  });
