import { buildDocument } from '../core/reference/document.js';
import { products } from '../products.js';
import { describeService } from '../reference.js';

// npm run --silent openapi > openapi.json
process.stdout.write(`${JSON.stringify(buildDocument(await describeService(products)), null, 2)}\n`);
