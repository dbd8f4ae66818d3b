/** Every kind of text that has ever broken a page, each short enough for any field. */
export const hostileTexts = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(2)><b class="hostile">',
  'W'.repeat(100),
  'مؤسسة \u202eالاختبار',
  '👩‍👩‍👧‍👦 🏳️‍🌈 e\u0301\u0302\u0303',
  `O'Brien "&amp;" \`\${7*7}\` <%= 7 * 7 %>`,
  `=HYPERLINK("http://example.com","x")`,
];
