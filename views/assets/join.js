/** Name of the form field for a link's secret, by the link's path. */
const fields = { '/dashboard/join': 'invitation', '/set-up': 'link', '/reset': 'link' };

/**
 * Opens an invitation or another one-time link. The secret is in the URL's fragment, which browsers do not send to the
 * server. This script removes the secret from the address bar immediately and posts it. Without JavaScript, the page
 * shows a field to paste the link into.
 */
export function openLink() {
  const open = () => {
    const [token] = /(?<=^#)[\w-]{43,64}$/.exec(location.hash) ?? [];
    const name = fields[location.pathname];
    if (name === undefined || token === undefined) return;
    history.replaceState(null, '', location.pathname);
    const form = Object.assign(document.createElement('form'), { method: 'post', action: `${location.pathname}/open` });
    form.append(Object.assign(document.createElement('input'), { type: 'hidden', name, value: token }));
    document.body.append(form);
    form.submit();
  };
  open();
  addEventListener('hashchange', open);
}
