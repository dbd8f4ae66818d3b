import fc from 'fast-check';

/** Every run uses the same examples, so that a failure comes from the change. PROPERTY_SEED=$RANDOM tries others. */
fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 20_261_101) });
