/** A login shown to every visitor: always of the demo, never of a customer. */
export interface DemoLogin {
  email: string;
  name: string;
  organization: string;
  role: string;
  password: string;
  /** Belongs to an authenticator app; the demo shows its codes. */
  factorSecret?: string | undefined;
}

export type ListDemoLogins = () => readonly DemoLogin[];

/** One group per person, even with several Organizations. */
export function groupByPerson(logins: readonly DemoLogin[]): DemoLogin[][] {
  const emails = new Set(logins.map(({ email }) => email));
  return [...emails].map((email) => logins.filter((login) => login.email === email));
}
