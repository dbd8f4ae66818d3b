/** The id of a page's last key, as the 22 characters that callers hand back without reading them. */
export const encodeCursor = (id: string): string =>
  Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url');

export const decodeCursor = (cursor: string): string =>
  Buffer.from(cursor, 'base64url')
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
