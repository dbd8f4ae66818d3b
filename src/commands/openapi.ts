import { buildDocument } from '../openapi/document.js';

// npm run --silent openapi > openapi.json
process.stdout.write(`${JSON.stringify(buildDocument(), null, 2)}\n`);
