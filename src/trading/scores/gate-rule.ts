/**
 * What makes a gate open. The block length is about the cube root of the window, which is
 * what estimates of a mean's error want (P. Hall, J. L. Horowitz, B.-Y. Jing, Biometrika 82, 1995), and about as long as a
 * weather pattern, and what a forecast makes wrong of it, lasts.
 */
export const gateRule = Object.freeze({
  windowDays: 90,
  minimumDays: 30,
  blockDays: 7,
  resamples: 1_000,
  confidence: 0.95,
  evidence: 100,
});

/**
 * How often the rule is wrong, at most, and right, at least: simulated over many seasons of days that depend on each
 * other, and held to by the tests. See docs/decisions/013-honesty-gate.md.
 */
export const gateErrorRates = Object.freeze({
  /** Open at a model as good as the market: at one time, and at any time within the 90 days after the first judgement. */
  equal: 0.05,
  equalEver: 0.2,
  /** At one that is worse by 0.08 or more, or at any if the market is right. */
  worse: 0.01,
  /** At one that is better by this much in log score, after a whole window. */
  better: 0.8,
  betterBy: 0.35,
});

export const gateRuleText =
  `A gate is open while, over the settled days of the last ${gateRule.windowDays} (at least ${gateRule.minimumDays} of them), the ${gateRule.confidence * 100} % interval of the difference between the calibrated forecast's mean log score and the market's lies below zero ` +
  `(circular block bootstrap over days, blocks of ${gateRule.blockDays}, studentised), and what happened was at least ${gateRule.evidence} times as likely under the forecast as under the market. Otherwise it is shut, and signals are withheld.`;

const DAY_MS = 24 * 60 * 60 * 1000;

/** The first day that a judgement at this time looks at. */
export const judgedSince = (at: Date): string =>
  new Date(at.getTime() - gateRule.windowDays * DAY_MS).toISOString().slice(0, 10);
