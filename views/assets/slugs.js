/** Derives the value of a field with `data-slug-of="name"` from the `name` field until the reader edits the slug. */
export function slugsFollowNames() {
  for (const field of document.querySelectorAll('[data-slug-of]')) {
    const name = field.form.elements[field.dataset.slugOf];
    const derive = () => toSlug(name.value);
    let lastSlug = field.value === derive() ? field.value : '';
    name.addEventListener('input', () => {
      if (field.value === lastSlug) field.value = lastSlug = derive();
    });
  }
}

/** NFKD does not decompose these letters. */
const latinLetters = { ß: 'ss', æ: 'ae', œ: 'oe', ø: 'o', ł: 'l', đ: 'd', ð: 'd', þ: 'th', ı: 'i' };

/** Must match how the server derives slugs. */
export const toSlug = (name) =>
  name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[ßæœøłđðþı]/g, (letter) => latinLetters[letter])
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, 64)
    .replace(/-$/, '');
