import fc from 'fast-check';

/*
 * Properties are tried on the same examples in every run, so that a change is judged by what it changes.
 * PROPERTY_SEED=$RANDOM tries others.
 */
fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 20_261_101) });
