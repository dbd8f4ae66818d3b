import { curlLine } from '../pages/curl-line.js';

export interface SampleRequest {
  method: string;
  origin: string;
  /** With the query string and the parameters filled in. */
  path: string;
  headers: Record<string, string>;
  /** Empty if the request has no body. */
  body: string;
  answers: 'json' | 'text' | 'stream' | 'nothing';
  /** Undefined if the typed client cannot make the call. */
  typed?: TypedCall | undefined;
}

export interface TypedCall {
  /** Path with placeholders, as in the client's types. */
  template: string;
  key: { apiKey: string } | { serviceKey: string };
  /** For a service key that acts for one Organization. */
  organization: string | undefined;
  params: Record<'path' | 'query' | 'header', Record<string, unknown>>;
  /** See `RouteDescription.python`. */
  python: readonly string[];
}

export const languages = [
  { id: 'curl', label: 'curl' },
  { id: 'typescript', label: 'TypeScript' },
  { id: 'python', label: 'Python' },
] as const;

export interface Sample {
  id: (typeof languages)[number]['id'];
  label: string;
  code: string;
}

export function toSamples(request: SampleRequest): Sample[] {
  const code = { curl: toCurl(request), typescript: toTypeScript(request), python: toPython(request) };
  return languages.map(({ id, label }) => ({ id, label, code: code[id] }));
}

const toCurl = ({ method, origin, path, headers, body }: SampleRequest): string =>
  curlLine({ method, url: origin + path, headers, body: printJson(body) }, ' \\\n  ');

function printJson(body: string): string {
  if (body.length <= LINE || !/^[[{]/.test(body)) return body;
  return toShortJson(JSON.parse(body));
}

function toTypeScript(request: SampleRequest): string {
  return request.typed ? toClientCall(request, request.typed) : toFetch(request);
}

function toClientCall(
  { method, origin, body }: SampleRequest,
  { template, key, organization, params }: TypedCall,
): string {
  const given = Object.fromEntries(
    Object.entries(params).filter(([, values]) => Object.keys(values).length > 0),
  );
  const options = {
    ...(Object.keys(given).length > 0 ? { params: given } : {}),
    ...(body === '' ? {} : { body: JSON.parse(body) as unknown }),
  };
  const more = Object.keys(options).length > 0 ? `, ${print(options, typescript)}` : '';
  const one = organization === undefined ? '' : `.forOrganization(${typescript.text(organization)})`;
  return [
    "import { createGaugeClient } from 'gauge-client';",
    '',
    `const gauge = createGaugeClient(${print({ baseUrl: origin, ...key }, typescript)})${one};`,
    `const { data, error } = await gauge.${method}(${typescript.text(template)}${more});`,
    'console.log(data ?? error);',
  ].join('\n');
}

const readInTypeScript = {
  json: 'console.log(response.status, await response.json());',
  text: 'console.log(response.status, await response.text());',
  stream: `for await (const part of response.body!.pipeThrough(new TextDecoderStream())) console.log(part);`,
  nothing: 'console.log(response.status);',
};

function toFetch({ method, origin, path, headers, body, answers }: SampleRequest): string {
  const isJson = headers['Content-Type']?.includes('json');
  const options = [
    ...(method === 'GET' ? [] : [`  method: '${method}',`]),
    ...(Object.keys(headers).length > 0 ? [`  headers: ${print(headers, typescript, '  ')},`] : []),
    ...(body === ''
      ? []
      : [
          isJson
            ? `  body: JSON.stringify(${print(JSON.parse(body), typescript, '  ')}),`
            : `  body: ${typescript.text(body)},`,
        ]),
  ];
  const more = options.length > 0 ? `, {\n${options.join('\n')}\n}` : '';
  return `const response = await fetch(${typescript.text(origin + path)}${more});\n${readInTypeScript[answers]}`;
}

const readInPython = {
  json: '    print(response.status, json.load(response))',
  text: '    print(response.status, response.read().decode())',
  stream: '    for line in response:\n        print(line.decode(), end="")',
  nothing: '    print(response.status)',
};

const toPython = (request: SampleRequest): string =>
  request.typed?.python
    .map((call) => toMethodCall(request, request.typed!, call))
    .find((code) => code !== undefined) ?? toUrllib(request);

/** Undefined if the request has fields that the call does not accept. */
function toMethodCall(
  { origin, body }: SampleRequest,
  { key, organization, params }: TypedCall,
  call: string,
): string | undefined {
  const sent = body === '' ? {} : (JSON.parse(body) as Record<string, unknown>);
  const fields: Record<string, unknown> = { ...params.path, ...params.query, ...params.header, ...sent };
  const names = new Set([...call.matchAll(/\{(\w+)/g)].map(([, name]) => name));
  if (!names.has('body') && Object.keys(fields).some((name) => !names.has(name))) return undefined;
  const code = call
    .replace(/(, )?\w+=\{(\w+).*?\}/g, (argument, _, name: string) => (name in fields ? argument : ''))
    .replace(
      /\{(\w+):?(.*?)\}/g,
      (_, name: string, value: string) => value || print(name === 'body' ? sent : fields[name], python),
    );
  const sentKey = 'apiKey' in key ? python.text(key.apiKey) : `service_key=${python.text(key.serviceKey)}`;
  const one = organization === undefined ? '' : `.for_organization(${python.text(organization)})`;
  return `from gauge import GaugeClient\n\ngauge = GaugeClient(${python.text(origin)}, ${sentKey})${one}\n${code}`;
}

function toUrllib({ method, origin, path, headers, body, answers }: SampleRequest): string {
  const isJson = body !== '' && headers['Content-Type']?.includes('json') === true;
  const data = isJson ? `json.dumps(${print(JSON.parse(body), python, '    ')})` : python.text(body);
  const parts = [
    python.text(origin + path),
    ...(method === 'GET' ? [] : [`method=${python.text(method)}`]),
    ...(Object.keys(headers).length > 0 ? [`headers=${print(headers, python, '    ')}`] : []),
    ...(body === '' ? [] : [`data=${data}.encode()`]),
  ];
  return [
    ...(isJson || answers === 'json' ? ['import json'] : []),
    'from urllib.request import Request, urlopen',
    '',
    `request = Request(\n${parts.map((part) => `    ${part},`).join('\n')}\n)`,
    'with urlopen(request) as response:',
    readInPython[answers],
  ].join('\n');
}

interface Notation {
  indent: string;
  isSpaced: boolean;
  /** After the last of several lines. */
  lastComma: ',' | '';
  text: (value: string) => string;
  name: (key: string) => string;
  constant: (value: null | boolean | number) => string;
}

/** JSON string escapes are valid in TypeScript and Python. */
const typescript: Notation = {
  indent: '  ',
  isSpaced: true,
  lastComma: ',',
  text: (value) => (/['\\\p{Cc}]/u.test(value) ? JSON.stringify(value) : `'${value}'`),
  name: (key) => (/^[A-Za-z_$][\w$]*$/.test(key) ? key : typescript.text(key)),
  constant: String,
};

const json: Notation = {
  indent: '  ',
  isSpaced: true,
  lastComma: '',
  text: JSON.stringify,
  name: JSON.stringify,
  constant: String,
};

/** Keeps on one line what fits. */
export const toShortJson = (value: unknown): string => print(value, json);

const python: Notation = {
  indent: '    ',
  isSpaced: false,
  lastComma: ',',
  text: (value) => JSON.stringify(value),
  name: (key) => JSON.stringify(key),
  constant: (value) =>
    value === null ? 'None' : value === true ? 'True' : value === false ? 'False' : `${value}`,
};

/** Characters. */
const LINE = 76;

function print(value: unknown, notation: Notation, margin = ''): string {
  if (typeof value === 'string') return notation.text(value);
  if (typeof value !== 'object' || value === null) return notation.constant(value as null | boolean | number);
  const inner = margin + notation.indent;
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  const items = (deeper: string): string[] =>
    Array.isArray(value)
      ? value.map((item) => print(item, notation, deeper))
      : Object.entries(value).map(([key, item]) => `${notation.name(key)}: ${print(item, notation, deeper)}`);
  if (items('').length === 0) return `${open}${close}`;
  const gap = !Array.isArray(value) && notation.isSpaced ? ' ' : '';
  const flat = `${open}${gap}${items(inner).join(', ')}${gap}${close}`;
  if (!flat.includes('\n') && margin.length + flat.length <= LINE) return flat;
  const lines = items(inner).map((item) => `${inner}${item}`);
  return `${open}\n${lines.join(',\n')}${notation.lastComma}\n${margin}${close}`;
}
