import { buildDocument } from '../core/reference/document.js';
import { routeDescriptions } from '../reference.js';

// npm run --silent openapi > openapi.json
process.stdout.write(`${JSON.stringify(buildDocument(routeDescriptions), null, 2)}\n`);
