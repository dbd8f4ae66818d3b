import fc from 'fast-check';

/**
 * Every run uses the same examples, so that only a code change can make a test fail. PROPERTY_SEED=$RANDOM tries other
 * examples.
 */
fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 20_261_101) });
