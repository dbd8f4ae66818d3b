import Color, { type ColorInstance } from 'color';

/** WCAG 2.2, 1.4.3. */
const MIN_CONTRAST = 4.5;

/** Those of views/styles/tokens.css. */
const light = { surface: Color('#ffffff'), onAccent: Color('#ffffff') };
const dark = { surface: Color('#14181f'), onAccent: Color('#0a1a3a') };
/** Part of the accent in the ground of a chosen entry. */
const SOFT = 0.08;

/** How clearly text in this colour is read on a page in light mode. */
export const contrastOf = (accent: string): number => lowest(Color(accent), light);

export const hasContrast = (accent: string): boolean => contrastOf(accent) >= MIN_CONTRAST;

/** In dark mode, the colour is as much lighter as its text needs. */
export function toSchemes(accent: string) {
  let lighter = Color(accent);
  while (lowest(lighter, dark) < MIN_CONTRAST) lighter = lighter.mix(Color('#ffffff'), 0.1);
  return { light: toScheme(Color(accent), light), dark: toScheme(lighter, dark) };
}

const softOf = (accent: ColorInstance, { surface }: typeof light) => surface.mix(accent, SOFT);

const toScheme = (accent: ColorInstance, scheme: typeof light) => ({
  accent: accent.hex(),
  soft: softOf(accent, scheme).hex(),
});

const lowest = (accent: ColorInstance, scheme: typeof light): number =>
  Math.min(
    ...[scheme.surface, softOf(accent, scheme), scheme.onAccent].map((other) => accent.contrast(other)),
  );
