import fc from 'fast-check';

/**
 * Properties are checked with the same examples in every run, so that a failure comes from the change.
 * PROPERTY_SEED=$RANDOM tries others.
 */
fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 20_261_101) });
