import { describe, expect, it } from 'vitest';
import { readConfig } from '../../../../src/config.js';
import { findClaim, readRoleValues } from '../../../../src/accounts/identity/single-sign-on/role-claim.js';
import { oidcClient } from '../../../support/issuer.js';

describe('the value of a role claim', () => {
  it.each<[string, unknown, string[]]>([
    ['one text', 'admin', ['admin']],
    ['texts with commas', 'admin, member', ['admin', 'member']],
    ['a known text that contains a comma', 'cn=admins,ou=groups', ['cn=admins,ou=groups']],
    ['nothing', '', []],
    ['a list', ['admin', 'a,b'], ['admin', 'a,b']],
    ['an empty list', [], []],
    ['a list of named objects', [{ id: 1, name: 'admin' }, 'member'], ['admin', 'member']],
    ['one named object', { id: '1', name: 'admin' }, ['admin']],
    [
      'keys with the Organizations of Zitadel',
      { admin: { '17': 'acme.example' }, member: {} },
      ['admin', 'member'],
    ],
    ['keys with flags', { admin: true, member: false }, ['admin']],
    ['an empty object', {}, []],
    ['a list as JSON text', '["admin","member"]', ['admin', 'member']],
    ['an object as JSON text', '{"admin":{"17":"acme.example"}}', ['admin']],
  ])('%s', (_what, claim, values) => {
    expect(readRoleValues(claim, ['cn=admins,ou=groups'])).toEqual(values);
  });

  it.each<[string, unknown]>([
    ['a number', 7],
    ['a flag', true],
    ['a list with a number', ['admin', 7]],
    ['a list of lists', [['admin']]],
    ['a list of objects without a name', [{ id: 'admin' }]],
    ['an object that holds lists', { roles: ['admin'] }],
    ['the clients of Keycloak', { gauge: { roles: ['admin'] } }],
    ['an object that holds nulls', { admin: null }],
    ['broken JSON', '["admin"'],
  ])('cannot be read: %s', (_what, claim) => {
    expect(readRoleValues(claim, [])).toBeUndefined();
  });
});

describe('a role claim', () => {
  it.each<[string, object, string, unknown]>([
    ['by its name', { groups: ['a'] }, 'groups', ['a']],
    ['by a name with dots', { 'https://acme.example/roles': 'a' }, 'https://acme.example/roles', 'a'],
    ['by a path', { realm_access: { roles: ['a'] } }, 'realm_access.roles', ['a']],
    ['by a path through a name with dots', { r: { 'my.app': { roles: 'a' } } }, 'r.my.app.roles', 'a'],
    ['that is null', { groups: null }, 'groups', undefined],
    ['that is missing', { realm_access: {} }, 'realm_access.roles', undefined],
    ['that only the prototype has', {}, 'constructor.name', undefined],
    ['below a text', { groups: 'a' }, 'groups.length', undefined],
  ])('is found %s', (_what, claims, path, value) => {
    expect(findClaim(claims, path)).toEqual(value);
  });
});

describe('OIDC_ROLES', () => {
  const read = (OIDC_ROLES: string) =>
    readConfig({
      NODE_ENV: 'test',
      OIDC_ISSUER: 'https://login.example.com',
      ...oidcClient,
      OIDC_ROLES_CLAIM: 'groups',
      OIDC_ROLES,
    }).singleSignOn?.roles?.grants.map(({ value, organization, role }) => [value, organization, role]);

  it('may quote values that contain commas or quotes', () => {
    expect(read('"cn=a,ou=b"=acme:admin, plain=acme:member,"say ""x"", y"=initech:owner')).toEqual([
      ['cn=a,ou=b', 'acme', 'admin'],
      ['plain', 'acme', 'member'],
      ['say "x", y', 'initech', 'owner'],
    ]);
    expect(read('"cn=a,ou=b=acme:admin"')).toEqual([['cn=a,ou=b', 'acme', 'admin']]);
  });

  it.each(['"a=acme:admin', 'a=acme:admin,', 'cn=a,ou=b=acme:admin', 'a=acme:boss'])('refuses %s', (text) => {
    expect(() => read(text)).toThrow('OIDC_ROLES');
  });
});
