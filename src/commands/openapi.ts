import { buildDocument } from '../openapi/document.js';
import { routeDescriptions } from '../route-descriptions.js';

// npm run --silent openapi > openapi.json
process.stdout.write(`${JSON.stringify(buildDocument(routeDescriptions), null, 2)}\n`);
