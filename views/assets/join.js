/**
 * An invitation's secret stands behind the `#` of its link, which browsers keep to themselves: it is taken out of the
 * address at once and posted. Without this, the page has a field to paste the link into.
 */
export function openInvitation() {
  const open = () => {
    const [token] = /[\w-]{64}$/.exec(location.hash) ?? [];
    if (location.pathname !== '/dashboard/join' || token === undefined) return;
    history.replaceState(null, '', location.pathname);
    const form = document.createElement('form');
    form.method = 'post';
    form.action = '/dashboard/join/open';
    const field = document.createElement('input');
    field.type = 'hidden';
    field.name = 'invitation';
    field.value = token;
    form.append(field);
    document.body.append(form);
    form.submit();
  };
  open();
  addEventListener('hashchange', open);
}
