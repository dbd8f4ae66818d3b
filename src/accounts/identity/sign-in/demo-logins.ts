/** Shown to every visitor, so it is never a customer's. */
export interface DemoLogin {
  email: string;
  name: string;
  organization: string;
  role: string;
  password: string;
  /** The demo shows the app's codes. */
  factorSecret?: string | undefined;
}

export type ListDemoLogins = () => readonly DemoLogin[];

export function groupByPerson(logins: readonly DemoLogin[]): DemoLogin[][] {
  const emails = new Set(logins.map(({ email }) => email));
  return [...emails].map((email) => logins.filter((login) => login.email === email));
}
