import { expect, it } from 'vitest';
import { fillInSlug } from '../../../../src/accounts/identity/operator/schema.js';

/** Without a type declaration, because browsers load it as it is. */
const browserSlugs = '../../../../views/assets/slugs.js';

it.each([
  ['Tromsø Robotics & Söhne', 'tromso-robotics-sohne'],
  ['Łódź Œuvre Ærø Ðorđe Þór', 'lodz-oeuvre-aero-dorde-thor'],
  ['Straße Iğdır', 'strasse-igdir'],
  ['---', ''],
])('the slug of %s keeps its letters, on the server and in the browser', async (name, slug) => {
  const fields: Record<string, string> = { name };
  fillInSlug(fields, 'slug', 'name');
  expect(fields.slug).toBe(slug);
  const { toSlug } = (await import(browserSlugs)) as { toSlug: (name: string) => string };
  expect(toSlug(name)).toBe(slug);
});
