/** By its name, or by a path like `realm_access.roles`. Names may contain dots, too. */
export function findClaim(claims: unknown, path: string): unknown {
  if (!isObject(claims)) return undefined;
  if (Object.hasOwn(claims, path)) return claims[path] ?? undefined;
  for (let dot = path.indexOf('.'); dot !== -1; dot = path.indexOf('.', dot + 1)) {
    const name = path.slice(0, dot);
    const found = Object.hasOwn(claims, name) ? findClaim(claims[name], path.slice(dot + 1)) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Issuers send text, text with commas, a list of texts or of objects with a name, an object whose keys are roles, and
 * each of these as JSON text.
 * @param known values that are one role although they contain a comma
 * @returns undefined if the form cannot be read
 */
export function readRoleValues(claim: unknown, known: readonly string[]): string[] | undefined {
  if (typeof claim === 'string') return readText(claim, known);
  if (Array.isArray(claim)) return all(claim.map(readName));
  if (!isObject(claim)) return undefined;
  const name = readName(claim);
  if (name !== undefined) return [name];
  const names = Object.entries(claim).map(([key, value]) => (isPlain(value) ? { key, value } : undefined));
  return all(names)?.flatMap(({ key, value }) => (value === false ? [] : [key]));
}

function readText(text: string, known: readonly string[]): string[] | undefined {
  if (known.includes(text)) return [text];
  if (/^\s*[[{]/.test(text)) {
    const value = parseJson(text);
    return typeof value === 'object' ? readRoleValues(value, known) : undefined;
  }
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function readName(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  return isObject(value) && typeof value.name === 'string' ? value.name : undefined;
}

/** An object of roles holds flags, texts, or objects of texts. A list would hold the roles itself. */
const isPlain = (value: unknown): boolean =>
  typeof value === 'boolean' ||
  typeof value === 'string' ||
  (isObject(value) && Object.values(value).every((part) => typeof part === 'string'));

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Undefined if a part is undefined. */
const all = <T>(parts: (T | undefined)[]): T[] | undefined =>
  parts.every((part) => part !== undefined) ? parts : undefined;
