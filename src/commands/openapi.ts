import { buildDocument } from '../core/reference/document.js';

// npm run --silent openapi > openapi.json
process.stdout.write(`${JSON.stringify(buildDocument(), null, 2)}\n`);
