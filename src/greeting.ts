import type { DemoData } from './demo/demo.js';
import type { RunningProduct } from './product.js';

export function describeDemo(
  demo: DemoData,
  baseUrl: string,
  products: readonly Pick<RunningProduct, 'greet'>[],
  { operatorToken, portalPath }: { operatorToken?: string | undefined; portalPath?: string | undefined } = {},
): string {
  const { logins, database } = demo;
  const parts = products.map(({ greet }) => greet(demo, baseUrl));
  const loginTable = table([
    ['e-mail', 'password', 'role', 'Organization'],
    ...logins.map(({ email, password, role, organization }) => [email, password, role, organization]),
  ]);
  const keyTables = parts.flatMap(({ keyTable = [] }) => keyTable);
  const keyLines = parts.flatMap(({ keys }) =>
    keys.map(({ name, secret, note }) => `  ${name.padEnd(5)}  ${secret}${note ? `   (${note})` : ''}`),
  );
  const subject = [
    logins[0]?.organization ?? 'the first Organization',
    ...keyTables.map(({ title }) => title),
  ].join(', ');
  const sections = [
    `Gauge is running at ${baseUrl} with demo data.`,
    `Sign in at ${baseUrl}/login as one of:\n\n${loginTable}`,
    ...logins.flatMap(({ role, factorSecret }) =>
      factorSecret === undefined
        ? []
        : [
            `The page fills in the ${role}'s code. Later codes come from an app with the key ${factorSecret}.`,
          ],
    ),
    `API keys of ${subject}:`,
    keyLines.join('\n'),
    ...keyTables.map(({ rows }) => table(rows)),
    ...(operatorToken === undefined
      ? []
      : [
          `For the operator API and its commands (apply, export):\n\n  export OPERATOR_TOKEN=${operatorToken}`,
        ]),
    ...parts.flatMap(({ steps }) => steps.map(({ text, command }) => `${text}:\n\n  ${command}`)),
  ];
  if (portalPath !== undefined)
    sections.push(
      `What a customer sees inside your own product, without an account (open it within 10 minutes; it works once):\n\n  ${baseUrl}${portalPath}`,
    );
  if (database === 'embedded') sections.push(embeddedNotice.trimEnd());
  return `\n${sections.join('\n\n')}\n`;
}

export const embeddedNotice = `The embedded database is for trying, and for one process. It does not fsync: what was accepted survives a
killed process, not a power cut. Set DATABASE_URL to run on Postgres.
`;

function table(rows: string[][]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) => `  ${row.map((cell, column) => cell.padEnd(widths[column]!)).join('  ')}`.trimEnd())
    .join('\n');
}
