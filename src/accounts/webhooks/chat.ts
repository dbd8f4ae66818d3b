import { parseNumbersAsText } from '../../core/http/json.js';
import { serviceTypes, type TypeDescription, type WebhookTypes } from './types.js';

/** All but `standard` post unsigned sentences to a chat. */
export const formats = ['standard', 'slack', 'discord', 'teams'] as const;
export type Format = (typeof formats)[number];
export type ChatFormat = Exclude<Format, 'standard'>;

export const isChat = (format: Format): format is ChatFormat => format !== 'standard';

/** Messages per post. */
export const CHAT_GROUP = 10;
/** Minimum time between posts to one endpoint. */
export const CHAT_PAUSE_MS = 500;
const MAX_SENTENCE = 300;
/** Below Discord's limit of 2,000, the lowest among the supported chats. */
const MAX_POST = 1_900;

/** Control and format characters can reverse or hide text (like U+202E). Also halves of a cut emoji. */
const invisible = /[\p{Cc}\p{Cf}\p{Cs}]/gu;

interface Line {
  text: string;
  href: string;
}

interface ChatMessage {
  type: string;
  /** JSON text. */
  data: string;
}

export type Chat = ReturnType<typeof createChat>;

/** @param origin for links to the dashboard */
export function createChat(types: WebhookTypes, origin: string) {
  const described = new Map<string, TypeDescription>(Object.entries({ ...types, ...serviceTypes }));

  function toLine({ type, data }: ChatMessage): Line {
    const description = described.get(type);
    if (!description) return { text: type, href: `${origin}/dashboard/webhooks` };
    const text = description.sentence(parseNumbersAsText(data) as never).replace(/\s+/g, ' ');
    const isLong = text.length > MAX_SENTENCE;
    const shown = isLong ? `${text.slice(0, MAX_SENTENCE - 1)}…` : text;
    return { text: shown.replace(invisible, ''), href: origin + description.page };
  }

  return {
    /** One post covers all messages; those that do not fit are only counted. */
    toBody(format: ChatFormat, messages: readonly ChatMessage[]): string {
      const lines = messages.map(toLine);
      const { toText, toPost } = writers[format];
      let length = 0;
      const fitting = lines.filter((line) => (length += toText(line).length + 1) <= MAX_POST);
      const left = lines.length - fitting.length;
      if (left > 0) fitting.push({ text: `${left} more messages`, href: `${origin}/dashboard/webhooks` });
      return JSON.stringify(toPost(fitting));
    },
  };
}

interface Writer {
  /** Escapes what the chat would read as a mention, a link or formatting. */
  toText: (line: Line) => string;
  toPost: (lines: Line[]) => unknown;
}

const slackEntities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };
const slackText = ({ text, href }: Line): string =>
  `${text.replace(/[&<>]/g, (character) => slackEntities[character]!)} <${href}|Open>`;

/** `allowed_mentions` and the flag that suppresses previews cover what the escapes miss. */
const discordText = ({ text, href }: Line): string =>
  `${text.replace(/[\\*_~`|<>@#[\]():-]/g, '\\$&')} [Open](<${href}>)`;

const writers: Record<ChatFormat, Writer> = {
  slack: {
    toText: slackText,
    // Text elements are not parsed as markup or links. Notifications show `text`.
    toPost: (lines) => ({
      text: lines.map(slackText).join('\n'),
      blocks: [
        {
          type: 'rich_text',
          elements: lines.map(({ text, href }) => ({
            type: 'rich_text_section',
            elements: [
              { type: 'text', text: `${text} ` },
              { type: 'link', url: href, text: 'Open' },
              { type: 'text', text: '\n' },
            ],
          })),
        },
      ],
      unfurl_links: false,
      unfurl_media: false,
    }),
  },
  discord: {
    toText: discordText,
    toPost: (lines) => ({
      content: lines.map(discordText).join('\n'),
      allowed_mentions: { parse: [] },
      flags: 4,
    }),
  },
  teams: {
    toText: ({ text, href }) => text + href,
    // Text runs are not parsed as Markdown, and a mention would need an entity in the card's `msteams` property.
    toPost: (lines) => ({
      type: 'message',
      attachments: [
        {
          contentType: 'application/vnd.microsoft.card.adaptive',
          content: {
            type: 'AdaptiveCard',
            version: '1.4',
            body: lines.map(({ text, href }) => ({
              type: 'RichTextBlock',
              inlines: [
                { type: 'TextRun', text: `${text} ` },
                { type: 'TextRun', text: 'Open', selectAction: { type: 'Action.OpenUrl', url: href } },
              ],
            })),
          },
        },
      ],
    }),
  },
};

/** Shows only the end of a chat URL, whose path holds a credential. */
export function maskUrl(url: string): string {
  const { origin, pathname, search } = new URL(url);
  return `${origin}/…${(pathname + search).slice(-4)}`;
}
