import { readLine, sendEventLine } from '../core/pages/curl-line.js';

/** What a new key may try first, ready to be pasted. */
export interface Snippets {
  /** What the commands do, in a sentence. */
  purpose: string;
  curl: string;
  typescript: string;
}

interface SnippetKey {
  id: string;
  secret: string;
  scopes: string[];
}

/** The first call with a key: an event of a product that the Organization may use, or else a read. */
export function makeSnippets(
  baseUrl: string,
  key: SnippetKey,
  product: { slug: string; usageMetric: string } | undefined,
): Snippets {
  if (key.scopes.includes('usage:write') && product) return firstEvent(baseUrl, key, product);
  if (!key.scopes.includes('usage:write') && key.scopes.includes('entitlements:read'))
    return read(`${baseUrl}/api/entitlements`, key, 'Read what your Organization is entitled to:');
  return read(`${baseUrl}/api/key`, key, 'Ask the service what this key is:');
}

function firstEvent(
  baseUrl: string,
  { id, secret }: SnippetKey,
  { slug, usageMetric }: { slug: string; usageMetric: string },
): Snippets {
  const url = `${baseUrl}/api/usage/events`;
  const event = (idempotencyKey: string) => ({
    productSlug: slug,
    metric: usageMetric,
    quantity: 1,
    idempotencyKey,
  });
  return {
    purpose: `Send a first event: it counts 1 of ${usageMetric} for ${slug}, and once only, however often you send it.`,
    // An event's key is unique in the Organization: the first events of two API keys must not be taken for one.
    curl: sendEventLine(baseUrl, secret, event(`first-event-${id}`)),
    typescript: `// Save as first-event.ts and run: npx tsx first-event.ts
const apiKey = ${JSON.stringify(secret)}; // in your runtime: from its environment

async function sendUsage(events: object[]) {
  const response = await fetch(${JSON.stringify(url)}, {
    method: "POST",
    headers: { Authorization: \`Bearer \${apiKey}\`, "Content-Type": "application/json" },
    body: JSON.stringify({ events }),
  });
  if (!response.ok) throw new Error(\`\${response.status} \${await response.text()}\`);
  return response.json();
}

sendUsage([${JSON.stringify(event(`first-event-ts-${id}`), null, 2)}]).then(console.log);
`,
  };
}

function read(url: string, { secret }: SnippetKey, purpose: string): Snippets {
  return {
    purpose,
    curl: readLine(url, secret),
    typescript: `// Save as first-call.ts and run: npx tsx first-call.ts
const apiKey = ${JSON.stringify(secret)}; // in your runtime: from its environment

async function call() {
  const response = await fetch(${JSON.stringify(url)}, { headers: { Authorization: \`Bearer \${apiKey}\` } });
  if (!response.ok) throw new Error(\`\${response.status} \${await response.text()}\`);
  return response.json();
}

call().then(console.log);
`,
  };
}
