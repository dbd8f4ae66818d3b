import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { simpleParser, type ParsedMail } from 'mailparser';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';

export interface Received extends ParsedMail {
  recipients: string[];
  source: string;
}

export interface MailServer {
  port: number;
  received: Received[];
  stop(): Promise<void>;
}

export async function startMailServer(options: SMTPServerOptions = {}, port = 0): Promise<MailServer> {
  const received: Received[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['AUTH', 'STARTTLS'],
    closeTimeout: 100,
    onData(stream, session, done) {
      simpleParser(stream, {}, (error, mail) => {
        const recipients = session.envelope.rcptTo.map(({ address }) => address);
        const source = mail.headerLines.map(({ line }) => line).join('\n');
        received.push(Object.assign(mail, { recipients, source }));
        done(error);
      });
    },
    ...options,
  });
  server.on('error', () => undefined);
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return {
    port: (server.server.address() as AddressInfo).port,
    received,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

export const mailEnv = (port: number) => ({
  SMTP_URL: `smtp://127.0.0.1:${port}`,
  MAIL_FROM: 'Gauge, Inc. <gauge@example.com>',
  PUBLIC_URL: 'https://gauge.example.com',
});
