import { v7 as uuid } from 'uuid';
import type { TestService } from './service.js';

export const operatorToken = 'operator-token-of-the-tests-0123456789';

export interface Answer {
  status: number;
  body: any;
  text: string;
  headers: Headers;
}

export function operatorClient(service: () => TestService) {
  return async function call(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await fetch(`${service().url}/operator${path}`, {
      method,
      headers: {
        authorization: `Bearer ${operatorToken}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      body: text === '' ? undefined : JSON.parse(text),
      text,
      headers: response.headers,
    };
  };
}

export const unique = (word: string) => `${word}-${uuid()}`;
export const uniqueEmail = () => `${unique('person')}@example.com`;

export const hostileSlugs = [
  '%01',
  'a%01b',
  'Upper',
  '-a',
  'a-',
  '.a',
  'a b',
  '__proto__',
  'x'.repeat(65),
  'x'.repeat(300),
  '%3Cscript%3E',
  '%F0%9F%98%80',
  'a%2Fb',
  "a'b",
  '%ED%A0%80',
];

export const hostileNames = [
  '',
  ' \u3000',
  'nul\u0000',
  'line\nbreak',
  '\ud800',
  'x'.repeat(201),
  5,
  null,
  {},
  [],
];
