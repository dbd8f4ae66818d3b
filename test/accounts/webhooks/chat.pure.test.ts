import { expect, it } from 'vitest';
import { createChat, maskUrl, type ChatFormat } from '../../../src/accounts/webhooks/chat.js';
import { serviceTypes, type AnyType } from '../../../src/accounts/webhooks/types.js';
import { webhookTypes } from '../../../src/products.js';
import { toJson } from '../../../src/core/http/json.js';
import { exampleOf } from '../../support/webhook-examples.js';

const chat = createChat(webhookTypes, 'https://gauge.example');

const post = (format: ChatFormat, ...messages: { type: string; data: unknown }[]) =>
  JSON.parse(
    chat.toBody(
      format,
      messages.map(({ type, data }) => ({ type, data: toJson(data) })),
    ),
  ) as never;

const correctedFor = (reason: string) => ({
  type: 'usage.corrected',
  data: { ...exampleOf('usage.corrected'), reason },
});

it.each(Object.keys({ ...webhookTypes, ...serviceTypes }) as AnyType[])(
  '%s is a sentence with a link',
  (type) => {
    const { text } = post('slack', { type, data: exampleOf(type) }) as { text: string };
    expect(text).toMatch(/^[A-Z“].*[.?] <https:\/\/gauge\.example\/dashboard\/[\w/#-]+\|Open>$/);
    expect(text).not.toMatch(/undefined|null|\[object|NaN/);
  },
);

it('names what happened, with every digit', () => {
  const data = { ...exampleOf('usage.threshold_reached'), used: 1 };
  const body = chat.toBody('slack', [
    {
      type: 'usage.threshold_reached',
      data: toJson(data).replace('"used":1', '"used":12345678901234567.123456789'),
    },
  ]);
  expect(JSON.parse(body)).toMatchObject({
    text: 'Usage of api-calls (calls) reached 80% of the limit of 1,000 (this month, UTC): 12,345,678,901,234,567.123456789 used. <https://gauge.example/dashboard/usage|Open>',
    unfurl_links: false,
    unfurl_media: false,
  });
});

const hostile =
  '<!channel> <@U123> @everyone <@&9> **bold** [link](https://evil.example) `code` & \u0000 line\nbreak';

it('Slack gets no mentions or markup from other people’s texts', () => {
  const { text } = post('slack', correctedFor(hostile)) as { text: string };
  expect(text).toContain('&lt;!channel&gt; &lt;@U123&gt; @everyone &lt;@&amp;9&gt;');
  expect(text.match(/</g)).toHaveLength(1);
  expect(text).not.toContain('\n');
});

it('Slack shows sentences as text elements, which have no markup and no links', () => {
  const reason = '*bold* _it_ ~no~ :tada: https://evil.example';
  const { blocks } = post('slack', correctedFor(reason), correctedFor('second')) as {
    blocks: { type: string; elements: { elements: { type: string; text: string; url?: string }[] }[] }[];
  };
  expect(blocks.map(({ type }) => type)).toEqual(['rich_text']);
  expect(blocks[0]!.elements).toHaveLength(2);
  const [text, link] = blocks[0]!.elements[0]!.elements;
  expect(text).toEqual({ type: 'text', text: expect.stringContaining(reason) });
  expect(link).toEqual({ type: 'link', url: 'https://gauge.example/dashboard/usage', text: 'Open' });
});

it.each(['slack', 'discord', 'teams'] as const)(
  'no control or format character reaches %s, and no half of an emoji',
  (format) => {
    const hidden = String.fromCodePoint(0x202e, 0x2066, 0x200b, 0x200f, 0xad, 0x1b, 0x85, 0xe0041, 0xfeff);
    for (let i = 0; i < 2; i++) {
      const body = post(format, correctedFor(`a${hidden}b ${'x'.repeat(i)}${'🙂'.repeat(300)}`));
      const texts = JSON.stringify(body).replaceAll(String.raw`\n`, '');
      expect(texts).toContain('🙂');
      expect(texts).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}]|\\u/u);
    }
  },
);

it('Discord gets no mentions, links or styles from other people’s texts', () => {
  const body = post('discord', correctedFor(hostile)) as { content: string; allowed_mentions: unknown };
  expect(body.allowed_mentions).toEqual({ parse: [] });
  expect(body.content).toContain(
    String.raw`\<!channel\> \<\@U123\> \@everyone \<\@&9\> \*\*bold\*\* \[link\]\(https\://evil.example\) \`code\``,
  );
});

it('Teams gets text runs, which have no markup', () => {
  const body = post('teams', correctedFor('<at>all</at>')) as {
    attachments: {
      content: {
        body: { inlines: { type: string; text: string; selectAction?: unknown }[] }[];
        msteams?: unknown;
      };
    }[];
  };
  const { content } = body.attachments[0]!;
  expect(content.msteams).toBeUndefined();
  expect(content.body[0]!.inlines.map(({ type }) => type)).toEqual(['TextRun', 'TextRun']);
  expect(content.body[0]!.inlines[0]!.text).toContain('<at>all</at>');
  expect(content.body[0]!.inlines[1]).toMatchObject({
    text: 'Open',
    selectAction: { type: 'Action.OpenUrl', url: 'https://gauge.example/dashboard/usage' },
  });
});

it('a post stays below Discord’s limit and counts the messages that do not fit', () => {
  const { content } = post(
    'discord',
    ...Array.from({ length: 10 }, () => correctedFor('*'.repeat(2_000))),
  ) as {
    content: string;
  };
  expect(content.length).toBeLessThanOrEqual(2_000);
  const lines = content.split('\n');
  expect(lines.at(-1)).toBe(
    `${11 - lines.length} more messages [Open](<https://gauge.example/dashboard/webhooks>)`,
  );
});

it('a message of a type that no longer exists still has its name', () => {
  expect(post('slack', { type: 'gone.type', data: {} })).toMatchObject({
    text: 'gone.type <https://gauge.example/dashboard/webhooks|Open>',
  });
});

it('a masked URL shows where posts go, not how to post there', () => {
  expect(maskUrl('https://hooks.slack.com/services/T0/B0/secretWxYz')).toBe('https://hooks.slack.com/…WxYz');
});
