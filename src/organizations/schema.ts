import { z } from 'zod';
import { text } from '../http/validate.js';

/** Which of a person's Organizations to look at, by its slug. */
export const chooseOrganizationSchema = z.strictObject({ organization: text(255) });
