/**
 * A button with `data-passkey` fetches passkey options from the URL in that attribute and submits its form with the
 * result in the `passkey` field. If the browser does not support passkeys, the buttons stay hidden and elements with
 * `data-passkey-missing` are shown.
 */
export function passkeyButtons() {
  const isKnown = typeof PublicKeyCredential === 'function';
  for (const text of document.querySelectorAll('[data-passkey-missing]')) text.hidden = isKnown;
  if (!isKnown) return;
  for (const button of document.querySelectorAll('button[data-passkey]')) {
    button.hidden = false;
    button.addEventListener('click', () => sendPasskey(button));
  }
}

async function sendPasskey(button) {
  const { form } = button;
  const problem = form.querySelector('[data-passkey-problem]');
  // Disables the code field, because a passkey replaces the code.
  const code = form.elements.namedItem('code');
  problem.textContent = '';
  if (code) code.disabled = true;
  try {
    if (!form.reportValidity()) return;
    button.disabled = true;
    const [{ startAuthentication, startRegistration }, optionsJSON] = await Promise.all([
      import('./webauthn.js'),
      readOptions(button.dataset.passkey),
    ]);
    const make = optionsJSON.user ? startRegistration : startAuthentication;
    const value = JSON.stringify(await make({ optionsJSON }));
    form.append(Object.assign(document.createElement('input'), { type: 'hidden', name: 'passkey', value }));
    form.submit();
  } catch (error) {
    problem.textContent = describe(error);
  } finally {
    button.disabled = false;
    if (code) code.disabled = false;
  }
}

async function readOptions(address) {
  const response = await fetch(address, { method: 'POST', headers: { accept: 'application/json' } });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer;
}

const describe = ({ name, message }) =>
  name === 'NotAllowedError' ? 'No passkey was used. The request was cancelled or timed out.' : message;
